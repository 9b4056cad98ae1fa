"""The comparisons that a running mirror makes on a schedule."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.errors import BinlogError, ConnectionLostError, FormatError, ServerError, SourceError
from binlake.follow.offsets import StreamOffset
from binlake.mirror import scheduled, verification
from binlake.mirror.control import Control
from binlake.mirror.equality import compare, source_rows
from binlake.mirror.equality.compare import TableComparison, VerifyOptions
from binlake.mirror.equality.pauses import with_pauses
from binlake.mirror.followed.first_copy import LogLagsError
from binlake.mirror.lease import LakeInUseError
from binlake.mirror.loop import Mirror
from binlake.mirror.options import MirrorOptions
from binlake.mirror.reporting import pulse as pulses
from binlake.mirror.reporting.pulse import Pulse, last_beat
from binlake.mirror.reporting.report import MirrorStatus, with_beat
from binlake.mirror.scheduled import ScheduledVerification
from binlake.mirror.stopped import StoppedError
from binlake.mirror.verification import TableVerification, Verification
from binlake.snapshot.definition import definition_of
from binlake.snapshot.tables import SourceTable
from binlake.table.schema.schema_file import parse_schema
from binlake.values.position import Position
from unit.mirror.equality.compared_mirror import PLACE, PRESENT, mirror_of
from unit.mirror.followed.fake_lake import FakeLake

DAY_S = 86_400


def _notes_of(folder: Path, error: BinlogError, round_error: BinlogError | None) -> list[str]:
    """The notes of a comparison that ends with an error."""
    logs: Any = None
    mirror: Any = SimpleNamespace(round_error=round_error)
    notes: list[str] = []

    def failing(_mirror: Any, _names: Any, _options: VerifyOptions) -> Verification:
        raise error

    pulse = Pulse(folder, lambda: logs, lambda: None)
    options = MirrorOptions(verify_every_s=DAY_S)
    ScheduledVerification(options, pulse, notes.append, failing).work(mirror)
    assert pulse.verified_s == 0
    return notes


@pytest.mark.parametrize(
    "error",
    [
        ServerError("the server refuses"),
        LogLagsError("the archive lags"),
        StoppedError("the mirror was stopped"),
    ],
)
def test_an_error_of_the_comparison_does_not_end_the_mirror(
    tmp_path: Path, error: BinlogError
) -> None:
    earlier = SourceError("of an earlier round")
    for round_error in (None, earlier):
        [note] = _notes_of(tmp_path, error, round_error)
        assert note == f"the tables could not be compared with the server: {error}"


def test_an_error_of_a_round_ends_the_mirror(tmp_path: Path) -> None:
    """For example a commit whose state is unknown: another round might apply its changes again."""
    error = SourceError("shop.t: Iceberg refuses: CommitStateUnknownException")
    with pytest.raises(SourceError) as raised:
        _notes_of(tmp_path, error, error)
    assert raised.value is error


def test_tables_that_are_not_compared_are_reported(tmp_path: Path) -> None:
    tables = (
        TableVerification("a.different", "different"),
        TableVerification("a.equal", "equal"),
        TableVerification("a.new", "not compared", "its copy is not complete"),
        TableVerification("a.odd", "not compared", "the server has no such table"),
    )
    notes: list[str] = []
    mirror: Any = None
    logs: Any = None
    pulse = Pulse(tmp_path, lambda: logs, lambda: None)
    options = MirrorOptions(verify_every_s=DAY_S)
    ScheduledVerification(
        options, pulse, notes.append, lambda *_: Verification("binlog.000001", 4, "", tables)
    ).work(mirror)
    pulse.beat_now(Position("uuid", "binlog.000001", 4))
    assert notes == [
        "a.different differs from the server at binlog.000001:4: checksums differ",
        "a.new was not compared with the server: its copy is not complete",
        "a.odd was not compared with the server: the server has no such table",
        "compared with the server at binlog.000001:4: 1 table differs, 2 were not compared",
    ]
    beat = last_beat(tmp_path)
    assert beat is not None
    assert (beat.different, sorted(beat.not_compared)) == (("a.different",), ["a.new", "a.odd"])


def test_a_comparison_is_due_until_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also over restarts, and if it fails."""
    now = 1_000_000.0
    clock = SimpleNamespace(monotonic=lambda: now, time=lambda: now)
    for module in (pulses, scheduled):
        monkeypatch.setattr(module, "time", clock)
    logs: Any = None
    mirror: Any = SimpleNamespace(round_error=None)

    def due(every_s: int, outcome: Verification | None) -> float:
        """When a comparison is due after another start, at which one fails or is made."""

        def compare(*_: Any) -> Verification:
            if outcome is None:
                raise ServerError("the server refuses")
            return outcome

        pulse = Pulse(tmp_path, lambda: logs, lambda: None)
        options = MirrorOptions(verify_every_s=every_s)
        ScheduledVerification(options, pulse, lambda _note: None, compare).work(mirror)
        pulse.beat_now(Position("uuid", "binlog.000001", 4))
        beat = last_beat(tmp_path)
        assert beat is not None
        return beat.verify_due_s

    equal = Verification("binlog.000001", 4, "", (TableVerification("a.t", "equal"),))
    assert due(0, None) == 0.0
    first = now
    assert due(DAY_S, None) == first
    now += 3 * DAY_S
    assert due(DAY_S, None) == first
    made = now
    assert due(DAY_S, equal) == made + DAY_S
    now += 5 * DAY_S
    assert due(DAY_S, None) == made + DAY_S
    assert due(7 * DAY_S, equal) == made + 7 * DAY_S, "it is not due yet"
    assert due(0, None) == 0.0


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_clock_that_was_ahead_does_not_put_off_comparisons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_restarted: bool
) -> None:
    """If it was a year ahead, there was no comparison for a year, and no message about that."""
    now = 1_000_000.0 + 365 * DAY_S
    clock = SimpleNamespace(monotonic=lambda: now, time=lambda: now)
    for module in (pulses, scheduled):
        monkeypatch.setattr(module, "time", clock)
    logs: Any = None
    mirror: Any = SimpleNamespace(round_error=None)
    compared: list[float] = []

    def compare(*_: Any) -> Verification:
        compared.append(now)
        return Verification("binlog.000001", 4, "", (TableVerification("a.t", "equal"),))

    def started() -> tuple[ScheduledVerification, Pulse]:
        pulse = Pulse(tmp_path, lambda: logs, lambda: None)
        options = MirrorOptions(verify_every_s=DAY_S)
        return ScheduledVerification(options, pulse, lambda _note: None, compare), pulse

    verification, pulse = started()
    verification.work(mirror)
    now -= 1
    verification.work(mirror)
    assert len(compared) == 1, "NTP has set it back a little"
    pulse.beat_now(Position("uuid", "binlog.000001", 4))
    now = 1_000_000.0
    if is_restarted:
        verification, pulse = started()
        pulse.beat_now(Position("uuid", "binlog.000001", 4))
        beat = last_beat(tmp_path)
        assert beat is not None
        assert beat.verify_due_s == now
    for _ in range(2):
        verification.work(mirror)
        assert compared[1:] == [now]


def test_a_comparison_renews_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a process on another machine takes over the lake after ten minutes."""

    def compared(_server: Any, _table: Any, lake: Any, *, pause: Any, **_: Any) -> TableComparison:
        assert list(lake.scan()) == [PRESENT, PRESENT]
        pause()
        return TableComparison("a.t", 2, 2, 1, 0, ())

    kept: list[int] = []
    mirror = mirror_of(monkeypatch, compared, lambda: kept.append(1))
    assert verification.compare_tables(mirror).is_equal
    assert len(kept) == 2 + 2 * 3


def test_a_comparison_ends_if_another_process_takes_over_the_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another round would write to the lake of that process."""
    kept: list[int] = []

    def keep_lease() -> None:
        kept.append(1)
        if len(kept) > 1:
            raise LakeInUseError("another process has taken over the lake")

    def compared(_server: Any, _table: Any, lake: Any, **_: Any) -> TableComparison:
        list(lake.scan())
        raise AssertionError("the lease was lost")

    mirror = mirror_of(monkeypatch, compared, keep_lease)
    logs: Any = None
    options = MirrorOptions(verify_every_s=DAY_S)
    pulse = Pulse(tmp_path, lambda: logs, lambda: None)
    with pytest.raises(LakeInUseError):
        ScheduledVerification(options, pulse, lambda _note: None).work(mirror)
    assert len(kept) == 2


class BusyServer:
    """A server whose checksums of a table take until `end` is set."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.is_aborted = False

    def interrupt(self) -> None:
        self.is_aborted = True
        self.end.set()

    def abort_statement(self) -> None:
        assert self.is_aborted

    def sums(self) -> int:
        assert self.end.wait(60)
        if self.is_aborted:
            raise ConnectionLostError("the connection was lost")
        return 7


def test_the_lease_is_renewed_while_the_server_computes() -> None:
    server: Any = BusyServer()
    kept: list[int] = []

    def keep() -> None:
        kept.append(1)
        if len(kept) == 3:
            server.end.set()

    assert with_pauses(server.sums, server, keep, every_s=0.001) == 7
    assert len(kept) >= 3

    def lost() -> None:
        raise LakeInUseError("another process has taken over the lake")

    server = BusyServer()
    with pytest.raises(LakeInUseError):
        with_pauses(server.sums, server, lost, every_s=0.001)
    assert server.is_aborted, "else it computes on"


def test_each_comparison_has_the_next_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the mirror was restarted in between, and if a comparison was late."""
    numbers: list[int] = []
    notes: list[str] = []

    def compared(_mirror: Any, _names: Any, options: VerifyOptions) -> Verification:
        assert options.sample == 0.1
        numbers.append(options.sample_number)
        return Verification("binlog.000001", 4, "", (), options.sample_number)

    mirror: Any = None
    logs: Any = None
    for day in (0, 1, 3.5):
        monkeypatch.setattr("time.time", lambda now=day * DAY_S + 1e9: now)
        pulse = Pulse(tmp_path, lambda: logs, lambda: None)
        options = MirrorOptions(verify_every_s=DAY_S, verify_sample=0.1)
        ScheduledVerification(options, pulse, notes.append, compared).work(mirror)
        pulse.beat_now(Position("uuid", "binlog.000001", 4))
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
    assert notes[0].endswith(f"(sample {numbers[0]}): 0 tables differ")


class SampledMirror:
    """Compares a quarter of the rows each day. `states` are those of the tables, by name."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.day = 0

    def compare(self, share: float = 0.25, **states: str) -> Mapping[str, int]:
        """The next comparison, after a restart; return the tables that differ, each with its sample."""
        self.day += 1
        self.monkeypatch.setattr("time.time", lambda now=self.day * DAY_S + 1e9: now)
        logs: Any = None
        mirror: Any = None
        tables = tuple(TableVerification(f"a.{name}", state) for name, state in states.items())
        pulse = Pulse(self.folder, lambda: logs, lambda: None)
        ScheduledVerification(
            MirrorOptions(verify_every_s=DAY_S, verify_sample=share), pulse, lambda _note: None,
            lambda *_of: Verification("binlog.000001", 4, "", tables),
        ).work(mirror)  # fmt: skip
        pulse.beat_now(None)
        return self.found().different_samples

    def found(self) -> MirrorStatus:
        beat = last_beat(self.folder)
        assert beat is not None
        return with_beat(MirrorStatus("mysql://db1/", False, 7, "", 0, "", "", "", ()), beat)


def test_a_difference_stays_until_all_rows_have_been_compared_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next samples have other rows."""
    mirror = SampledMirror(tmp_path, monkeypatch)
    assert mirror.compare(t="equal", u="equal") == {}
    assert mirror.compare(t="different", u="equal") == {"a.t": 1}
    for _ in range(3):
        assert mirror.compare(t="equal", u="equal") == {"a.t": 1}
    assert mirror.found().sample_number == 4
    assert mirror.compare(t="equal", u="equal") == {}, "this is the sample with the difference"
    assert mirror.found().different == ()


def test_a_later_difference_and_a_gap_begin_the_count_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = SampledMirror(tmp_path, monkeypatch)
    assert mirror.compare(t="different", u="different") == {"a.t": 0, "a.u": 0}
    assert mirror.compare(t="equal", u="different") == {"a.t": 0, "a.u": 1}
    assert mirror.compare(t="not compared", u="equal") == {"a.t": 0, "a.u": 1}
    for _ in range(2):
        assert mirror.compare(t="equal", u="equal") == {"a.t": 0, "a.u": 1}
    assert mirror.compare(t="equal", u="equal") == {"a.t": 0}
    assert mirror.compare(t="equal", u="equal") == {}


def test_tables_that_were_copied_again_or_are_gone_do_not_differ_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = SampledMirror(tmp_path, monkeypatch)
    mirror.compare(copied="different", dropped="different", t="different")
    logs: Any = None
    pulse = Pulse(tmp_path, lambda: logs, lambda: None)
    pulse.schedule_verification(DAY_S)
    pulse.copied("a.copied")
    pulse.beat_now(None)
    assert mirror.found().different == ("a.dropped", "a.t")
    assert mirror.compare(copied="equal", t="equal") == {"a.t": 0}


def test_one_comparison_of_all_rows_finds_a_table_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that samples have found different."""
    mirror = SampledMirror(tmp_path, monkeypatch)
    assert mirror.compare(t="different", u="different") == {"a.t": 0, "a.u": 0}
    assert mirror.compare(1.0, t="equal", u="different") == {}
    found = mirror.found()
    assert (found.different, found.sample_number) == (("a.u",), None)
    mirror.compare(1.0, t="equal", u="equal")
    assert mirror.found().different == ()


def test_a_value_of_the_server_that_does_not_fit_is_no_damaged_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reason of a table that is not compared would ask for a resync."""
    definition = definition_of(parse_schema(b"CREATE TABLE a.t (id INT PRIMARY KEY)").tables[0], "mysql")  # fmt: skip
    batch = pa.record_batch({"id": pa.array([1 << 40])})
    monkeypatch.setattr(compare, "take_raw_text", lambda _server: None)
    monkeypatch.setattr(
        source_rows, "RowSelect", lambda *_: SimpleNamespace(batches_to_the_end=lambda *_: [batch])
    )
    server: Any = SimpleNamespace(flavour="mysql", version=(8, 0))
    columns: Any = SimpleNamespace(hashed={"c"}, rows=lambda rows: pa.Table.from_batches([rows]))
    lake = compare.LakeRows(pa.schema([("id", pa.int32())]), list)
    with pytest.raises(FormatError, match=r"a\.t: a value of the server does not fit"):
        compare.compare(server, SourceTable("a", "t", definition, ("id",)), lake, columns=columns)


class Running(Mirror):
    """A running mirror of a server without changes."""

    def __init__(self, folder: Path, options: MirrorOptions, compare: Any) -> None:
        lake: Any = FakeLake()
        logs: Any = None
        latest = lambda: StreamOffset(PLACE)  # noqa: E731
        stand_ins: Any = (
            SimpleNamespace(keep=lambda: None),
            SimpleNamespace(head=latest, latest=latest),
            SimpleNamespace(is_reached=lambda _log, _position: True),
            SimpleNamespace(record=lambda: None),
            SimpleNamespace(renew_limit=lambda: None, unfinished=set(), lagging={}, followed={}),
        )
        self._lease, self._planner, self._host, self._recorder, self._tables = stand_ins
        self._control = Control(lake, "mysql://db/", options)
        self._stop = threading.Event()
        self._patience_s = 1.0
        self.notes: list[str] = []
        self._pulse = Pulse(folder, lambda: logs, lambda: None)
        self._verification = ScheduledVerification(
            options, self._pulse, self.notes.append, compare, self._control, look_s=0.0
        )

    def _round(self, _until: StreamOffset | None) -> bool:
        """There is nothing to apply."""
        return False

    def work(self) -> None:
        """Compare if it is time to."""
        self._verification.work(self)


EVERY_DAY = MirrorOptions(verify_every_s=DAY_S)
EQUAL = Verification("binlog.000001", 4, "", (TableVerification("a.t", "equal"),))


def pause(mirror: Running) -> None:
    """Pause it as another process does, which the mirror sees when it looks."""
    Control(mirror._control.lake).pause()


@pytest.mark.parametrize("is_at_a_round", [True, False])
def test_a_pause_ends_a_comparison_and_not_the_mirror(tmp_path: Path, is_at_a_round: bool) -> None:
    """The rounds to the next position and the rows that are read may both take hours."""
    compared: list[int] = []

    def compare(mirror: Any, _names: Any, _options: VerifyOptions) -> Verification:
        compared.append(1)
        mirror.keep_lease()
        if len(compared) == 1:
            pause(mirror)
        if is_at_a_round:
            mirror.reach(PLACE)
        else:
            mirror.keep_lease()
        return EQUAL

    mirror = Running(tmp_path, EVERY_DAY, compare)
    mirror.work()
    [note] = mirror.notes
    assert note.startswith("the comparison with the server has ended because the mirror is paused")
    mirror._control.resume()
    mirror.work()
    assert mirror.notes[1:] == ["compared with the server at binlog.000001:4: 0 tables differ"]
    mirror.work()
    assert len(compared) == 2


def test_verify_is_not_ended_by_a_pause(tmp_path: Path) -> None:
    """It checks that before it begins, and makes no further round if no table is altered."""
    mirror = Running(tmp_path, EVERY_DAY, None)
    pause(mirror)
    mirror.keep_lease()


def test_a_stop_ends_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise systemd and Kubernetes kill the mirror after a minute, and its lease stays."""
    server: Any = BusyServer()
    mirrors: list[Running] = []

    def compared(_server: Any, _table: Any, _lake: Any, *, pause: Any, **_: Any) -> TableComparison:
        mirrors[0].stop()
        with_pauses(server.sums, server, pause, every_s=0.001)
        raise AssertionError("the comparison was stopped")

    stand_in = mirror_of(monkeypatch, compared, lambda: mirrors[0].keep_lease())
    mirror = Running(tmp_path, EVERY_DAY, lambda *_: verification.compare_tables(stand_in))
    mirrors.append(mirror)
    mirror.work()
    why = "the mirror was stopped before its tables were compared"
    assert mirror.notes == [f"the tables could not be compared with the server: {why}"]
    assert server.is_aborted


def test_a_stop_ends_the_search_for_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may read all of a large table before it sends a row of the parts that differ."""
    server: Any = BusyServer()

    def batches(*_: Any) -> Any:
        yield server.sums()

    def stop() -> None:
        raise StoppedError("the mirror was stopped")

    monkeypatch.setattr(
        source_rows, "RowSelect", lambda *_: SimpleNamespace(batches_to_the_end=batches)
    )
    parts: Any = SimpleNamespace(table=None, fields=(), condition=lambda _: "")
    columns: Any = SimpleNamespace(hashed={})
    rows = source_rows.SourceRows(server, parts, columns, stop)
    with pytest.raises(StoppedError):
        list(rows.of_parts([1]))
    assert server.is_aborted
