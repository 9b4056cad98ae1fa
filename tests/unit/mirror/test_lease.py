"""The lease of a lake: which process may write to it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.errors import SourceError
from binlake.follow.offsets import StreamOffset
from binlake.mirror import lease as leases
from binlake.mirror import loop, stopped
from binlake.mirror.control import Control
from binlake.mirror.lake_state import identity_of, lock
from binlake.mirror.lease import Holder, LakeInUseError, Lease, writer_of
from binlake.mirror.loop import Mirror
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import CommitConflictError
from binlake.values.position import Position


class Stored:
    """A control table in memory, which counts the commits to it."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = dict(properties)
        self.summary: dict[str, str] = {}
        self.commits = 0
        self.conflicts = 0

    def refresh(self) -> None:
        """All of it is in memory."""

    def describe(self) -> dict[str, Any]:
        return {"properties": dict(self.properties), "summary": dict(self.summary)}

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self.commits += 1
        self.properties.update(properties)

    def replace_properties(
        self, expected: Mapping[str, str | None], properties: Mapping[str, str]
    ) -> None:
        if any(self.properties.get(name) != value for name, value in expected.items()):
            raise CommitConflictError("_binlake.rounds: another writer has committed to the table")
        self.set_properties(properties)

    def append(self, _rows: Any, properties: Mapping[str, str]) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise CommitConflictError("_binlake.rounds: another writer has committed to the table")
        self.summary = dict(properties)


class FakeLake:
    """A lake that has a control table only."""

    def __init__(self) -> None:
        self.table: Stored | None = None

    def exists(self, *_name: str) -> bool:
        return self.table is not None

    def create(self, _space: str, _name: str, _schema: Any, properties: Mapping[str, str]) -> None:
        self.table = Stored(properties)

    def load(self, *_name: str) -> Stored:
        assert self.table is not None
        return self.table

    def beside(self) -> FakeLake:
        return self

    def control(self) -> Control:
        return Control(self, "mysql://db1/", MirrorOptions())  # type: ignore[arg-type]


@pytest.fixture
def lake() -> FakeLake:
    return FakeLake()


def taken(lake: FakeLake, state: Path, notes: list[str] | None = None) -> Lease:
    """The lease, for a process with this state directory."""
    seen = [] if notes is None else notes
    return Lease(lake.control(), "s3://b/lake", state, lock(state, "s3://b/lake"), seen.append)


def held_by(lake: FakeLake, state: Path, **changed: Any) -> Holder:
    """Record another process in the lake: this one, with differences."""
    with lock(state, "s3://b/lake") as locked:
        holder = replace(Holder.here(state, identity_of(locked)), **changed)
    lake.control().renew_lease(holder.to_text())
    return holder


def ended_process() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_process_with_another_state_directory_is_refused(lake: FakeLake, tmp_path: Path) -> None:
    first = taken(lake, tmp_path / "a")
    with pytest.raises(LakeInUseError) as refused:
        taken(lake, tmp_path / "b")
    said = str(refused.value)
    assert said.startswith(f"another process mirrors into s3://b/lake: process {os.getpid()} on ")
    assert f"with the state directory {tmp_path / 'a'}; stop it first" in said
    first.keep()
    first.close()
    notes: list[str] = []
    taken(lake, tmp_path / "b", notes).close()  # the refused process has also unlocked it
    assert notes == []
    assert lake.control().lease == ""


def test_the_lease_of_a_process_that_has_ended_is_taken_over(
    lake: FakeLake, tmp_path: Path
) -> None:
    _check_taken_over(lake, tmp_path, process=ended_process())


def test_whether_a_process_mirrors_into_the_lake_now(lake: FakeLake, tmp_path: Path) -> None:
    """`pause` and `resume` report it, from a process without the state directory."""
    assert writer_of(lake.control()) is None
    first = taken(lake, tmp_path / "a")
    found = writer_of(lake.control())
    assert found is not None
    assert str(found).startswith(f"process {os.getpid()} on ")
    first.close()
    assert writer_of(lake.control()) is None
    elsewhere = held_by(lake, tmp_path / "a", host="db2")
    assert writer_of(lake.control()) == elsewhere
    for changed in ({"process": ended_process()}, {"host": "db2", "until": 1e9}):
        held_by(lake, tmp_path / "a", **changed)
        assert writer_of(lake.control()) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"started": "1"},  # its number is now that of another process
        {"host": "db2", "until": 1e9},
        {"namespace": "pid:[1]", "until": 1e9},
    ],
)
def test_a_lease_that_has_ended_is_taken_over(
    lake: FakeLake, tmp_path: Path, changed: dict[str, Any]
) -> None:
    _check_taken_over(lake, tmp_path, **changed)


def _check_taken_over(lake: FakeLake, tmp_path: Path, **changed: Any) -> None:
    before = held_by(lake, tmp_path / "a", **changed)
    notes: list[str] = []
    taken(lake, tmp_path / "b", notes).close()
    assert notes == [f"the lease of another process has ended and is taken over: {before}"]


def test_a_start_that_fails_after_it_has_taken_the_lease_ends_it(
    lake: FakeLake, tmp_path: Path
) -> None:
    """A notebook goes on after the error, so the process of the lease is alive."""
    held_by(lake, tmp_path / "a", process=ended_process())

    def failing(_sentence: str) -> None:
        raise BlockingIOError("a pipe is full")

    locked = lock(tmp_path / "b", "s3://b/lake")
    with pytest.raises(BlockingIOError):
        Lease(lake.control(), "s3://b/lake", tmp_path / "b", locked, failing)
    assert lake.control().lease == ""
    assert locked.closed
    taken(lake, tmp_path / "c").close()


def test_a_full_disk_is_the_error_of_a_start(lake: FakeLake, tmp_path: Path) -> None:
    """Closing the lock file fails again, with an error that does not name the file."""
    locked = lock(tmp_path / "state", "s3://b/lake")
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(SourceError) as failed:
            Lease(lake.control(), "s3://b/lake", tmp_path / "state", locked)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
    assert failed.value.message.startswith(f"cannot write {tmp_path}/state/")
    assert locked.closed
    taken(lake, tmp_path / "state").close()


@pytest.mark.parametrize(
    "changed",
    [
        {"host": "db2"},
        {"namespace": "pid:[1]"},
        {"boot": "another machine with this name"},
    ],
)
def test_the_lease_of_another_machine_or_container_holds_until_it_ends(
    lake: FakeLake, tmp_path: Path, changed: dict[str, Any]
) -> None:
    """This machine cannot look for the process."""
    ends = {"until": 4e9, "process": ended_process()}
    held_by(lake, tmp_path / "a", **ends, **changed)
    with pytest.raises(LakeInUseError, match=r"its lease ends at 2096-10-02T07:06:40\+00:00"):
        taken(lake, tmp_path / "b")


def test_a_start_with_the_same_state_directory_continues(lake: FakeLake, tmp_path: Path) -> None:
    """After kill -9, also in a container with another name: the lock shows that the process has ended."""
    held_by(lake, tmp_path / "a", host="pod-1", namespace="pid:[1]")
    notes: list[str] = []
    taken(lake, tmp_path / "a", notes).close()
    assert notes == []


def test_a_copy_of_the_state_directory_is_another_one(lake: FakeLake, tmp_path: Path) -> None:
    """For a machine that waits to take over, so that it need not build the row indexes."""
    held_by(lake, tmp_path / "a", host="db2", boot="another", until=4e9)
    copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(LakeInUseError):
        taken(lake, tmp_path / "b")
    taken(lake, tmp_path / "a").close()


def test_a_start_after_the_machine_has_started_again(lake: FakeLake, tmp_path: Path) -> None:
    held_by(lake, tmp_path / "a", boot="the one before", until=4e9)
    taken(lake, tmp_path / "a").close()


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "[" * 100_000, '{"host": 1}'])
def test_a_damaged_record_is_none(text: str) -> None:
    assert Holder.from_text(text) is None


@pytest.mark.parametrize("changed", [{"process": 0}, {"process": -1}, {"process": 1 << 40}])
def test_a_number_that_no_process_has_is_a_damaged_record(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    assert Holder.from_text(replace(Holder.here(tmp_path, "x"), **changed).to_text()) is None


def test_the_lease_is_renewed_rarely(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each renewal writes a file of metadata, so at most one a minute while nothing happens."""
    now = 1000.0
    monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: now, time=lambda: now))
    held = taken(lake, tmp_path)
    control, table = lake.control(), lake.load()
    before, ends = table.commits, []
    for _ in range(600):
        now += 1.0
        held.keep()
        control.refresh()
        found = Holder.from_text(control.lease)
        assert found is not None
        assert found.until > now
        ends.append(found.until)
    assert 1 <= table.commits - before <= 10
    assert ends == sorted(ends)
    held.close()


def until(is_true: Callable[[], bool]) -> None:
    """Wait for another thread."""
    end = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_lease_is_renewed_beside_work_that_takes_long(lake: FakeLake, tmp_path: Path) -> None:
    """One read of a table without a key, or a statement of Delta: they call nothing before they end."""
    state = tmp_path / "a"
    held = Lease(lake.control(), "s3://b/lake", state, lock(state, "s3://b/lake"), every_s=0.02)
    seen: set[str] = set()

    def is_renewed_twice() -> bool:
        seen.add(lake.load().properties["binlake.lease"])
        return len(seen) == 3

    with held.kept():
        until(is_renewed_twice)
    assert not [t for t in threading.enumerate() if t.name == "binlake-lease"]
    held.keep()
    held.close()
    assert lake.control().lease == ""


def test_a_store_that_fails_beside_the_work_is_left_to_the_work(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "a"
    held = Lease(lake.control(), "s3://b/lake", state, lock(state, "s3://b/lake"), every_s=0.02)
    failed: list[int] = []

    def failing(*_: Any) -> None:
        failed.append(1)
        raise SourceError("503")

    monkeypatch.setattr(Stored, "refresh", failing)
    with held.kept():
        until(lambda: bool(failed))
    monkeypatch.undo()
    held.keep()
    held.close()
    assert lake.control().lease == ""


def test_a_lease_that_was_taken_over_beside_the_work_ends_the_process(
    lake: FakeLake, tmp_path: Path
) -> None:
    state = tmp_path / "a"
    held = Lease(lake.control(), "s3://b/lake", state, lock(state, "s3://b/lake"), every_s=0.02)
    other = held_by(lake, tmp_path / "b", host="db2")
    with held.kept():
        until(lambda: not [t for t in threading.enumerate() if t.name == "binlake-lease"])
    with pytest.raises(LakeInUseError, match=r"another process has taken over .* on db2, since"):
        held.keep()
    held.close()
    assert Holder.from_text(lake.control().lease) == other


def test_a_process_whose_lease_was_taken_over_ends(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: now, time=lambda: now))
    held = taken(lake, tmp_path / "a")
    held_by(lake, tmp_path / "b", host="db2")
    now += 700.0  # it was stopped, or a task took so long
    with pytest.raises(LakeInUseError, match=r"another process has taken over .* on db2, since"):
        held.keep()
    held.close()
    assert Holder.from_text(lake.control().lease) is not None, "that of the other process"


def test_a_process_whose_lease_was_taken_over_changes_nothing(
    lake: FakeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even a quarantine, for a commit of the other process: that one would stop following the table."""
    now = 1000.0
    monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: now, time=lambda: now))
    control, state = lake.control(), tmp_path / "a"
    held = Lease(control, "s3://b/lake", state, lock(state, "s3://b/lake"))
    held.check_not_ended()
    held_by(lake, tmp_path / "b", host="db2")
    held.check_not_ended()  # it looks only if the lease has ended
    now += 700.0
    for act in (
        held.check_not_ended,
        lambda: control.quarantine("shop.t", "another program has committed"),
    ):
        with pytest.raises(
            LakeInUseError, match=r"another process has taken over .* on db2, since"
        ):
            act()
    held.close()
    other = lake.control()
    assert other.quarantined == {}
    other.quarantine("shop.t", "its key has changed")
    assert other.quarantined.keys() == {"shop.t"}


@pytest.mark.parametrize("conflicts", [1, 3])
def test_a_round_is_recorded_after_a_request_at_the_same_time(
    lake: FakeLake, conflicts: int
) -> None:
    control = lake.control()
    lake.load().conflicts = conflicts
    control.record(StreamOffset(Position("1-2-3", "binlog.000001", 4)), {"shop.a": 1})
    assert (control.round, control.snapshots) == (1, {"shop.a": 1})


IDLE_AT = StreamOffset(Position("1-2-3", "binlog.000001", 4, gtid_set=""))


class Quiet:
    """A part of the mirror that has nothing to do."""

    def __init__(self, **known: Any) -> None:
        self.__dict__.update(known)

    def __getattr__(self, _name: str) -> Any:
        return lambda *_of, **_more: None


class Clock(threading.Event):
    """An event whose waits take no time, and a clock that passes during them."""

    now = 1000.0

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        self.now += timeout
        return self.is_set()

    def monotonic(self) -> float:
        return self.now


class Idle(Mirror):
    """A mirror of one table without changes. `most`: it is stopped, or loses its lease, after so many looks at the lease."""

    def __init__(self, clock: Clock, most: int, error: SourceError | None = None) -> None:
        self.looks: list[str] = []
        self._most = most
        self._error = error
        stand_ins: dict[str, Any] = {
            "_control": Quiet(paused=False, offset=IDLE_AT, snapshots={}, to_resync=set(), to_compact=set()),
            "_tables": Quiet(
                followed={"shop.t": SimpleNamespace(offset=IDLE_AT, may_be_ahead=False, lake=SimpleNamespace(snapshot=None))},
                unfinished=set(), lagging={}, restless=set(), copies_are_due=lambda: False,
            ),
            "_lease": Quiet(kept=nullcontext, keep=self._looked),
            "_pulse": Quiet(beat=lambda *_place: self.looks.append("beat")),
            "_rounds": Quiet(make=lambda _until: False, is_near_end=True),
            "_host": Quiet(may_change=False),
            "_recorder": Quiet(is_due=False),
        }  # fmt: skip
        for name in ("_engine", "_logs", "_planner", "_upkeep", "_verification", "_note", "_task_files"):  # fmt: skip
            stand_ins[name] = Quiet()
        self.__dict__.update(stand_ins)
        self.options = MirrorOptions()
        self._control_url = "mysql://db1/"
        self._stop = clock
        self._waiting_since = None

    def _looked(self) -> None:
        self.looks.append("lease")
        if self.looks.count("lease") >= self._most:
            if self._error is not None:
                raise self._error
            self.stop()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(loop, "ServerCheck", lambda *_of: Quiet())
    for name in ("check_task_login", "quarantine_cascades"):
        monkeypatch.setattr(loop, name, lambda *_of: None)
    monkeypatch.setattr(stopped, "time", clock)
    return clock


def test_a_mirror_keeps_its_lease_and_its_sign_of_life_during_a_long_interval(clock: Clock) -> None:
    """The lease is valid for ten minutes, and the sign of life is expected every two seconds."""
    mirror = Idle(clock, most=400)
    mirror.run(once=False, interval_s=3600)
    assert max(clock.waits) <= 2
    assert mirror.looks == ["beat", *["lease", "beat"] * 400]
    assert 700 <= clock.now - 1000 <= 800


def test_a_mirror_that_has_lost_its_lease_ends_during_a_long_interval(clock: Clock) -> None:
    mirror = Idle(clock, most=3, error=LakeInUseError("another process has taken over the lake"))
    with pytest.raises(LakeInUseError):
        mirror.run(once=False, interval_s=3600)
    assert clock.now - 1000 < 10


def test_a_short_interval_is_one_wait(clock: Clock) -> None:
    Idle(clock, most=4).run(once=False, interval_s=0.5)
    assert set(clock.waits) == {0.5}
