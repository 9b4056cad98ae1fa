"""Growing logs are read in steps, without Spark: the planner, the logs of a directory, offsets as JSON."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import PositionLostError, SourceError
from binlake.follow.logs import DirectoryLogs, LogsNow
from binlake.follow.offsets import StreamOffset
from binlake.follow.planner import StreamPlanner
from binlake.stream.positions.boundary import UNLIMITED, BoundaryScan, Limits
from binlake.stream.positions.log_fingerprint import LogFingerprint
from binlake.table.log_part import LogPart
from binlake.table.row_json import change_batch
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import FilePosition, Position
from support.logs.stream_log import SID, StreamLog
from support.oracles.reading import row_lines

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = ("mysql-9.7/transactions", "mariadb-11.8/transactions", "mariadb-10.11/rotation")


def logs_of_three(folder: Path) -> None:
    """A transaction in each of three logs."""
    for number in (1, 2, 3):
        StreamLog().plain(number).write(folder, f"binlog.{number:06}")


def in_steps(path: str, transactions: int) -> list[Any]:
    """The places of the row changes of the logs, which are read in steps of so many transactions."""
    options = ReadOptions()
    offset = StreamPlanner(DirectoryLogs([path], options), options).earliest()
    places: list[Any] = []
    while True:
        # each step begins with what a checkpoint contains
        offset = StreamOffset.from_json(json.loads(json.dumps(offset.to_json())))
        planner = StreamPlanner(DirectoryLogs([path], options), options)
        end = planner.advance(offset, Limits(transactions=transactions))
        if end.key == offset.key:
            return places
        part = LogPart(tuple(planner.splits(offset, end)))
        for changes in part.changes(options, Target.TEXT, Ledger()):
            rows = change_batch(changes, options).to_pylist()
            places += [(row["file"], row["pos"], row["row"]) for row in rows]
        offset = end


def test_a_log_is_compressed_between_a_look_and_its_opening(tmp_path: Path) -> None:
    logs_of_three(tmp_path)
    logs = DirectoryLogs([str(tmp_path)], ReadOptions())
    now = logs.look()
    first = tmp_path / "binlog.000001"
    (tmp_path / "binlog.000001.gz").write_bytes(gzip.compress(first.read_bytes()))
    first.unlink()
    with logs.open(now, 1) as log:
        assert log.name == "binlog.000001"
    (tmp_path / "binlog.000002").unlink()
    with pytest.raises(SourceError, match=r"binlog\.000002"):
        logs.open(now, 2)


def test_whether_a_limit_has_cut_a_batch() -> None:
    options = ReadOptions()
    planner = StreamPlanner(DirectoryLogs([str(GOLDEN / CASES[0])], options), options)
    offset, cut = planner.earliest(), []
    for transactions in (1, 1000, 1):  # the last one finds nothing
        offset = planner.advance(offset, Limits(transactions=transactions))
        cut.append(planner.is_cut)
    assert cut == [True, False, False]


@pytest.mark.parametrize("transactions", [1, 3, 1000])
@pytest.mark.parametrize("case", CASES)
def test_steps_have_the_rows_of_one_read(case: str, transactions: int) -> None:
    paths = sorted((GOLDEN / case).glob("binlog.0*"))
    expected = [(row["file"], row["pos"], row["row"]) for row in row_lines(*paths)]
    assert len(expected) > 10
    assert in_steps(f"{GOLDEN / case}/binlog.0*", transactions) == expected


def test_the_advice_of_a_reader_without_a_checkpoint(tmp_path: Path) -> None:
    """A mirror has its own: its position is in its lake."""
    logs_of_three(tmp_path)
    options = ReadOptions()
    planner = StreamPlanner(DirectoryLogs([str(tmp_path)], options), options, remedy="copy it all")
    start = planner.earliest()
    (tmp_path / "binlog.000002").unlink()
    with pytest.raises(PositionLostError, match=r"restore it; or copy it all$"):
        planner.advance(start, UNLIMITED)
    with pytest.raises(PositionLostError, match=r"restore it; or copy it all$"):
        planner.splits(start, planner.latest())


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": 1}, "no position of a binary log"),
        ({"version": 2}, "version 2"),
        ({"version": 1, "server_uuid": "", "file": "b.1"}, "damaged"),
        (
            {"version": 1, "server_uuid": "", "file": "b.1", "offset": "4", "gtid_set": ""},
            "damaged",
        ),
        ([1], "no position"),
        (
            {"version": 1, "server_uuid": "", "file": "b.1", "offset": 40, "gtid_set": ""}
            | {"last_events": {"start": 40, "digest": "00"}},
            "damaged",
        ),
    ],
)
def test_foreign_offsets(value: Any, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        StreamOffset.from_json(value)


def test_a_fingerprint_of_another_position_is_not_written() -> None:
    position = Position(str(SID), "binlog.000001", 500, "")
    fingerprint = LogFingerprint(300, 400, "00" * 8)
    assert "last_events" not in StreamOffset(position, fingerprint=fingerprint).to_json()
    here = StreamOffset(position, fingerprint=LogFingerprint(300, 500, "00" * 8))
    assert StreamOffset.from_json(here.to_json()) == here


def test_a_batch_over_many_files_is_planned_by_asking_for_them_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store answers each request after a while: eight files wait for one another here."""
    for number in range(1, 9):
        StreamLog().plain(number).write(tmp_path, f"binlog.{number:06}")
    together = threading.Barrier(4)
    created = DirectoryLogs.created

    def waits(logs: DirectoryLogs, now: LogsNow, number: int) -> int | None:
        together.wait(timeout=60)
        return created(logs, now, number)

    logs = DirectoryLogs([str(tmp_path)], ReadOptions())
    now = logs.look()
    expected = {number: logs.created(now, number) for number in now.numbers}
    assert len(expected) == 8
    monkeypatch.setattr(DirectoryLogs, "created", waits)
    assert logs.created_all(now, now.numbers) == expected


def gtid_logs(folder: Path, *names: str) -> list[Path]:
    """The first logs of a server with GTIDs, under the names in `names`."""
    found = sorted((GOLDEN / "mysql-9.7" / "gtid").glob("binlog.0*[0-9]"))
    logs = [folder / name for name in names]
    for log, golden in zip(logs, found, strict=False):
        log.write_bytes(golden.read_bytes())
    return logs


def planner_of(folder: Path) -> StreamPlanner:
    options = ReadOptions()
    return StreamPlanner(DirectoryLogs([str(folder)], options), options)


def description_of(log: Path) -> bytes:
    """The log up to its format description, as a server leaves it that is killed while it begins a log."""
    content = log.read_bytes()
    return content[: 4 + int.from_bytes(content[13:17], "little")]


@pytest.mark.parametrize("begun", ["", "magic", "half", "description"])
@pytest.mark.parametrize("place", ["between", "newest"])
def test_a_log_without_gtids_at_its_beginning(tmp_path: Path, begun: str, place: str) -> None:
    """A crash came before the server had written them."""
    names = ["binlog.000001", "binlog.000003", "binlog.000004"]
    if place == "newest":
        names = ["binlog.000001", "binlog.000002", "binlog.000003"]
    [first, *_] = gtid_logs(tmp_path, *names)
    description = description_of(first)
    torn_at = "binlog.000002" if place == "between" else "binlog.000004"
    content = {
        "": b"",
        "magic": description[:4],
        "half": description[:40],
        "description": description,
    }
    (tmp_path / torn_at).write_bytes(content[begun])
    start = planner_of(tmp_path).earliest()
    seen = planner_of(tmp_path).advance(start, Limits(transactions=3))
    assert seen.position.file == "binlog.000001"
    found = planner_of(tmp_path).after_gtids(seen.position.gtid_set)
    assert (found.position.file, found.position.offset) == ("binlog.000001", seen.position.offset)
    [last, *_] = sorted(tmp_path.iterdir(), reverse=True)[place == "newest" :]
    newest = planner_of(tmp_path).latest().position
    assert newest.gtid_set == planner_of(tmp_path).advance(start, UNLIMITED).position.gtid_set != ""
    assert newest.file in (last.name, torn_at)


def test_the_end_of_a_purged_log_before_one_without_gtids(tmp_path: Path) -> None:
    logs = gtid_logs(tmp_path, "binlog.000001", "binlog.000003", "binlog.000004")
    planner = planner_of(tmp_path)
    until = StreamOffset(Position("", "binlog.000001", logs[0].stat().st_size))
    (tmp_path / "binlog.000002").write_bytes(description_of(logs[0]))
    end = planner.advance(planner.earliest(), UNLIMITED, until)
    assert end.position.file == "binlog.000001"
    logs[0].unlink()
    found = planner_of(tmp_path).here(end).position
    assert (found.file, found.offset, found.gtid_set) == ("binlog.000003", 4, end.position.gtid_set)


def test_a_log_that_is_still_copied_before_an_empty_one(tmp_path: Path) -> None:
    """The rest of its last transaction comes later."""
    boundary = len(StreamLog().plain(1).bytes())
    part = StreamLog().plain(1).gtid(2).query(b"BEGIN").rows().bytes()
    (tmp_path / "binlog.000001").write_bytes(part)
    (tmp_path / "binlog.000002").write_bytes(b"")
    planner = planner_of(tmp_path)
    end = planner.advance(planner.earliest(), Limits.of_memory(1 << 26))
    assert (end.position.file, end.position.offset) == ("binlog.000001", boundary)
    StreamLog().plain(1).plain(2).rotate("binlog.000002").write(tmp_path)
    StreamLog().plain(3).write(tmp_path, "binlog.000002")
    later = planner.advance(end, Limits.of_memory(1 << 26))
    options = ReadOptions()
    rows = [
        row["gtid"]
        for changes in LogPart(tuple(planner.splits(end, later))).changes(
            options, Target.TEXT, Ledger()
        )
        for row in change_batch(changes, options).to_pylist()
    ]
    assert [gtid.rpartition(":")[2] for gtid in rows] == ["2", "3"]


def test_a_place_behind_a_missing_log(tmp_path: Path) -> None:
    logs = gtid_logs(tmp_path, "binlog.000001", "binlog.000002", "binlog.000003")
    planner = planner_of(tmp_path)
    size = logs[0].stat().st_size
    end = planner.advance(
        planner.earliest(), UNLIMITED, StreamOffset(Position("", "binlog.000001", size))
    )
    whole = planner.at_position(FilePosition("binlog.000001", size)).position
    assert (whole.file, whole.offset) == ("binlog.000002", 4)
    logs[1].unlink()
    message = "the log between binlog.000001 and binlog.000003 is missing"
    with pytest.raises(PositionLostError, match=message):
        planner_of(tmp_path).at_position(FilePosition("binlog.000001", size))
    with pytest.raises(PositionLostError, match=message):
        planner_of(tmp_path).after_gtids(end.position.gtid_set)


def test_a_compressed_newest_log_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but reading tells where it ends. While it is still copied, its end moves."""
    logs = gtid_logs(tmp_path, "binlog.000001", "binlog.000002", "binlog.000003")
    whole = planner_of(tmp_path).latest().position
    content = logs[2].read_bytes()
    logs[2].unlink()
    newest = tmp_path / "binlog.000003.gz"
    newest.write_bytes(gzip.compress(content[:-200]))
    planner = planner_of(tmp_path)
    part = planner.advance(planner.earliest(), UNLIMITED)
    assert part.position.file == "binlog.000003"
    assert part.position.offset < whole.offset
    newest.write_bytes(gzip.compress(content))
    os.utime(newest, ns=(0, 0))
    assert planner.head().position == whole
    end = planner.advance(part, Limits.of_memory(1 << 26))
    assert end.position == whole
    planner.here(end)
    with monkeypatch.context() as patch:
        patch.delattr(BoundaryScan, "as_far_as")
        patch.delattr(BoundaryScan, "through")
        assert planner.advance(end, UNLIMITED) == planner.advance(end, UNLIMITED, end) == end
        assert planner.head().position.offset == whole.offset
    (tmp_path / "binlog.000004").write_bytes(b"")
    assert planner.advance(end, UNLIMITED).position == whole
