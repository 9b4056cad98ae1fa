"""The status that a mirror writes between commits, and its readers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")
from binlake.errors import BinlogError
from binlake.follow.logs import LogsNow
from binlake.mirror.reporting.pulse import Beat, Beats, Pulse, behind_bytes, last_beat
from binlake.mirror.reporting.report import MirrorStatus, with_beat
from binlake.source.chain import LogPath
from binlake.values.position import Position
from binlake.values.times import utc_time

LOGS = LogsNow(
    ("mysql://db1/",),
    {
        n: LogPath(f"/logs/binlog.00000{n}", f"binlog.00000{n}", n, size)
        for n, size in ((2, 1000), (3, 500), (4, 9999))
    },
    "uuid",
    Position("uuid", "binlog.000004", 300),
)


@pytest.mark.parametrize(
    ("file", "offset", "behind"),
    [("binlog.000004", 300, 0), ("binlog.000004", 100, 200), ("binlog.000002", 900, 900), ("binlog.000001", 7, 1800)],
)  # fmt: skip
def test_bytes_behind(file: str, offset: int, behind: int) -> None:
    assert behind_bytes(LOGS, Position("uuid", file, offset)) == behind


def test_a_beat_is_read_back(tmp_path: Path) -> None:
    shown: list[int] = []
    pulse = Pulse(tmp_path, lambda: LOGS, lambda: shown.append(1))
    pulse.applied(120)
    place = Position("uuid", "binlog.000003", 400)
    pulse.beat(place)
    pulse.beat(place)  # too early
    found = last_beat(tmp_path)
    assert found is not None
    assert (found.behind_bytes, found.changes_per_second, found.different) == (400, 2.0, ())
    assert len(shown) == 1
    pulse.verified(("a.b",), {"a.c": "it is quarantined"})
    pulse.read_as_null({"a.b.born": 2})
    pulse.beat(place)
    again = Pulse(tmp_path, lambda: LOGS, lambda: None)
    again.read_as_null({"a.b.born": 3, "a.c.made": 1})
    again.beat_now(place)
    found = last_beat(tmp_path)
    assert found is not None
    assert (found.different, found.not_compared) == (("a.b",), {"a.c": "it is quarantined"})
    assert found.verified_s == pytest.approx(time.time(), abs=60)
    assert found.zero_dates == {"a.b.born": 5, "a.c.made": 1}
    unknown = MirrorStatus("mysql://db1/", False, 7, "binlog.000003", 4711, "", "", "", ())
    assert with_beat(unknown, found).to_json()["zero_dates"] == {"a.b.born": 5, "a.c.made": 1}


def test_a_status_that_cannot_be_shown_is_noted_once(tmp_path: Path) -> None:
    said: list[str] = []
    errors = [BinlogError("503"), BinlogError("503"), None, BinlogError("503")]

    def show() -> None:
        if (error := errors.pop(0)) is not None:
            raise error

    pulse = Pulse(tmp_path, lambda: LOGS, show, Beats(0, 0), said.append)
    for left, noted in ((3, 1), (2, 1), (1, 1), (0, 2)):
        while len(errors) > left:
            pulse.beat_now(Position("uuid", "binlog.000003", 400))
        assert len(said) == noted
        assert last_beat(tmp_path) is not None
    assert said[0] == "the status of the mirror cannot be shown: 503"


def test_a_slow_status_takes_a_small_part_of_the_time(tmp_path: Path) -> None:
    shown: list[int] = []

    def show() -> None:
        shown.append(1)
        time.sleep(0.2)

    pulse = Pulse(tmp_path, lambda: LOGS, show, Beats(0, 0))
    until = time.monotonic() + 1
    while time.monotonic() < until:
        pulse.beat_now(Position("uuid", "binlog.000003", 400))
    assert len(shown) == 1


def test_there_are_rounds_while_the_status_of_many_tables_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With thousands of tables in a store, that takes minutes."""
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    steps: list[int] = []

    def show() -> Iterator[None]:
        nonlocal now
        for number in range(6):
            now += 0.25
            steps.append(number)
            yield

    pulse = Pulse(tmp_path, lambda: LOGS, show, Beats(0, 100))
    done: list[int] = []
    for _ in range(4):
        pulse.beat(LOGS.end)
        pulse.beat(LOGS.end)  # it rests
        done.append(len(steps))
        now += 5
    assert done == [2, 4, 6, 6]
    now += 80
    pulse.beat(LOGS.end)
    assert len(steps) == 8


@pytest.mark.parametrize(
    "content",
    [None, "", "{", "[]", '{"checked_s": 1}', '{"other": 1, "different": []}', '{"a":' * 200_000],
    ids=range(7),
)
def test_a_lost_or_damaged_pulse_file_is_ignored(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "pulse.json").write_text(content)
    assert last_beat(tmp_path) is None


def test_the_lag_of_an_idle_source_is_the_age_of_the_last_look() -> None:
    now = time.time()
    unknown = MirrorStatus("mysql://db1/", False, 7, "binlog.000003", 4711, "", "", "", ())
    old = replace(unknown, fresh_at=utc_time(now - 5000))
    assert unknown.lag_seconds is None
    assert with_beat(unknown, Beat(now - 3, 10, 0.0)).lag_seconds is None
    assert old.lag_seconds == pytest.approx(5000, abs=60)
    for beat, lag_s in (
        (Beat(now - 3, 0, 0.0, complete_s=now - 3), 3),
        (Beat(now - 3, 10, 0.0), 5000),
        (Beat(now - 3, 10, 0.0, complete_s=now - 900), 900),
        (Beat(now - 3, None, 0.0, complete_s=now - 900), 900),
        (Beat(now - 3, 0, 0.0, complete_s=now - 9000), 5000),
        (Beat(now - 3, 10, 0.0, complete_s=now - 900, fresh_s=now - 7), 7),
        (Beat(now - 3, 10, 0.0, complete_s=now - 900, fresh_s=now - 2000), 900),
    ):
        assert with_beat(old, beat).lag_seconds == pytest.approx(lag_s, abs=60)


def test_a_source_that_does_not_answer_is_not_behind_by_0_bytes(tmp_path: Path) -> None:
    answers = [LOGS, None, LOGS]
    pulse = Pulse(tmp_path, lambda: answers.pop(0), lambda: None)
    end = LOGS.end
    assert end is not None
    pulse.beat_now(end)
    complete = last_beat(tmp_path)
    assert complete is not None
    assert (complete.behind_bytes, complete.complete_s) == (0, complete.checked_s)
    pulse.beat_now(end)
    unknown = last_beat(tmp_path)
    assert unknown is not None
    assert (unknown.behind_bytes, unknown.complete_s) == (None, complete.complete_s)
    pulse.beat_now(replace(end, offset=100))
    behind = last_beat(tmp_path)
    assert behind is not None
    assert (behind.behind_bytes, behind.complete_s) == (200, complete.complete_s)


@pytest.mark.parametrize(
    ("of_the_log", "of_the_lake", "behind"),
    [
        ("uuid-b", "uuid-a", None),
        ("uuid-a", "UUID-A", 0),
        ("", "uuid-a", 0),
        ("uuid-a", "", 0),
        ("server-1", "server-1-2f", 0),
        ("server-2", "server-1-2f", None),
    ],
)
def test_positions_of_two_servers_are_not_compared(
    tmp_path: Path, of_the_log: str, of_the_lake: str, behind: int | None
) -> None:
    """After a failover, the file of the same name is another one. The identity of an archive of MariaDB has one more part."""
    logs = replace(LOGS, server_uuid=of_the_log)
    Pulse(tmp_path, lambda: logs, lambda: None).beat_now(
        Position(of_the_lake, "binlog.000004", 900)
    )
    found = last_beat(tmp_path)
    assert found is not None
    assert (found.behind_bytes, found.complete_s) == (behind, 0 if behind is None else found.checked_s)  # fmt: skip


def test_a_mirror_that_follows_no_table_shows_its_status(tmp_path: Path) -> None:
    """Otherwise there were no metrics of quarantined tables if all of them are quarantined."""
    shown: list[int] = []
    pulse = Pulse(tmp_path, lambda: LOGS, lambda: shown.append(1), Beats(0, 0))
    end = LOGS.end
    assert end is not None
    pulse.beat(end)
    before = last_beat(tmp_path)
    for _ in range(200):  # a slow status is shown less often
        pulse.beat(None)
    after = last_beat(tmp_path)
    assert before is not None
    assert after is not None
    assert len(shown) > 1
    assert after.checked_s > before.checked_s
    assert (after.behind_bytes, after.complete_s) == (None, before.complete_s)


def test_tables_that_wait_are_written_during_a_copy(tmp_path: Path) -> None:
    """The check of the log stays the one before it, and a beat is not put off."""
    waiting: dict[str, str] = {}
    shown: list[int] = []
    pulse = Pulse(tmp_path, lambda: LOGS, lambda: shown.append(1), Beats(60, 0), waiting=lambda: waiting)  # fmt: skip
    pulse.busy()
    assert shown
    pulse.beat(LOGS.end)
    before = last_beat(tmp_path)
    assert before is not None
    assert (before.behind_bytes, before.waiting) == (0, {})
    waiting["shop.t"] = "its copy is not complete"
    pulse.busy()  # too early
    assert last_beat(tmp_path) == before
    again = Pulse(tmp_path, lambda: LOGS, lambda: None, waiting=lambda: waiting)
    again.busy()
    after = last_beat(tmp_path)
    assert after is not None
    assert (after.waiting, after.checked_s) == (waiting, before.checked_s)


def test_the_beat_of_another_lake_does_not_count(tmp_path: Path) -> None:
    """Both have used one state directory, one after the other."""
    first = Pulse(tmp_path, lambda: LOGS, lambda: None, lake="first")
    first.verified(["shop.t"], {})
    first.beat_now(LOGS.end)
    assert last_beat(tmp_path, "first") == last_beat(tmp_path)
    assert last_beat(tmp_path, "second") is None
    second = Pulse(tmp_path, lambda: LOGS, lambda: None, lake="second")
    assert (second.verified_s, second.comparisons) == (0, 0)
    second.beat_now(LOGS.end)
    found = last_beat(tmp_path, "second")
    assert found is not None
    assert found.different == ()


def test_a_beat_of_an_earlier_commit(tmp_path: Path) -> None:
    """It names no lake, and has only the names of the tables that were different."""
    earlier = {
        "checked_s": 1.0, "behind_bytes": 0, "changes_per_second": 0.0, "verified_s": 2.0, "complete_s": 1.0, "different": ["a.b"],
        "not_compared": {"a.c": "it is quarantined"}, "verify_due_s": 3.0, "comparisons": 4, "zero_dates": {"a.b.born": 5},
    }  # fmt: skip
    (tmp_path / "pulse.json").write_text(json.dumps(earlier))
    pulse = Pulse(tmp_path, lambda: LOGS, lambda: None, lake="first")
    assert (pulse.verified_s, pulse.comparisons) == (2.0, 4)
    pulse.beat_now(LOGS.end)
    assert last_beat(tmp_path, "second") is None
    found = last_beat(tmp_path, "first")
    assert found is not None
    assert (found.different, found.not_compared) == (("a.b",), {"a.c": "it is quarantined"})
    assert found.zero_dates == {"a.b.born": 5}


def test_results_of_comparisons_are_not_shown_when_none_is_scheduled_any_more(
    tmp_path: Path,
) -> None:
    """An alert about a table that differs would never end."""
    unknown = MirrorStatus("mysql://db1/", False, 7, "binlog.000003", 4711, "", "", "", ())
    pulse = Pulse(tmp_path, lambda: LOGS, lambda: None)
    pulse.schedule_verification(60)
    pulse.verified(["shop.t"], {"shop.u": "it is quarantined"})
    for every_s, different, is_shown in ((60, ("shop.t",), True), (0, (), False), (60, ("shop.t",), True)):  # fmt: skip
        pulse.schedule_verification(every_s)
        pulse.beat_now(LOGS.end)
        found = last_beat(tmp_path)
        assert found is not None
        shown = with_beat(unknown, found)
        assert (shown.different, bool(shown.not_compared), bool(shown.verified_at)) == (different, is_shown, is_shown)  # fmt: skip


def test_the_lag_of_a_busy_source_is_the_age_of_the_last_transaction(tmp_path: Path) -> None:
    """The lake never has everything, and with many tables the status is shown every few minutes only."""
    pulse = Pulse(tmp_path, lambda: LOGS, lambda: None, Beats(0, 10**9))
    old = MirrorStatus("mysql://db1/", False, 7, "binlog.000002", 4, "", "", "", (), fresh_at=utc_time(1.6e9))  # fmt: skip

    def lag_s(offset: int, age_s: float) -> float | None:
        commit_us = round((time.time() - age_s) * 1e6)
        pulse.beat_now(Position("uuid", "binlog.000003", offset), commit_us)
        found = last_beat(tmp_path)
        assert found is not None
        assert found.behind_bytes
        return with_beat(old, found).lag_seconds

    assert lag_s(100, 500) == pytest.approx(500, abs=60)
    assert lag_s(200, 5) == pytest.approx(5, abs=60)
    # The clock of the server is ahead.
    assert lag_s(300, -3600) == pytest.approx(0, abs=60)
    reached = last_beat(tmp_path)
    lag_s(300, -3600)
    again = last_beat(tmp_path)
    assert reached is not None
    assert again is not None
    assert again.checked_s > reached.checked_s
    assert again.fresh_s == reached.fresh_s
