"""Growing logs are read in steps, without Spark: the planner, the logs of a directory, offsets as JSON."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import PositionLostError, SourceError
from binlake.follow.logs import DirectoryLogs, LogsNow
from binlake.follow.offsets import StreamOffset
from binlake.follow.planner import StreamPlanner
from binlake.stream.positions.boundary import UNLIMITED, Limits
from binlake.stream.positions.log_fingerprint import LogFingerprint
from binlake.table.log_part import LogPart
from binlake.table.row_json import change_batch
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import Position
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
