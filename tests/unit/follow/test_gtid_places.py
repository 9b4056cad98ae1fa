"""Places that are found by GTID: after a failover, and where the log of a position is purged.

MySQL with another `gtid_mode` than ON also writes transactions without GTIDs, which no GTID set shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from binlake.archive.layout import STATE, ArchiveState
from binlake.errors import PositionLostError
from binlake.follow.logs import DirectoryLogs
from binlake.follow.offsets import StreamOffset
from binlake.follow.planner import StreamPlanner
from binlake.stream.positions.boundary import Limits
from binlake.values.gtid import GtidSet
from binlake.values.options import ReadOptions
from binlake.values.position import FilePosition, Position
from support.logs.stream_log import SID, StreamLog

OTHER = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
#: A log: the GTIDs before it, and the numbers of its transactions; None has no GTID.
Log = tuple[str, Sequence[int | None]]


def log_of(before: str, transactions: Sequence[int | None]) -> StreamLog:
    known = GtidSet.parse(f"{SID}:{before}" if before else "")
    log = StreamLog().previous(known.encode())
    for number in transactions:
        log = log.query(b"BEGIN").rows().xid() if number is None else log.plain(number)
    return log


def planner_of(folder: Path, *logs: Log) -> StreamPlanner:
    for number, (before, transactions) in enumerate(logs, 1):
        log_of(before, transactions).write(folder, f"binlog.00000{number}")
    options = ReadOptions()
    return StreamPlanner(DirectoryLogs([str(folder)], options), options)


def offset_in(before: str, transactions: Sequence[int | None]) -> int:
    """The length of a log with these transactions."""
    return len(log_of(before, transactions).bytes())


def test_whether_the_last_transaction_has_a_gtid(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, ("", [1, None, 2]))
    places = [planner.earliest()]
    for _ in range(3):
        places.append(planner.advance(places[-1], Limits(transactions=1)))
    assert [place.is_anonymous for place in places] == [False, False, True, False]
    assert planner.advance(places[0], Limits(transactions=2)).is_anonymous
    assert [StreamOffset.from_json(place.to_json()) for place in places] == places
    second = FilePosition("binlog.000001", places[2].position.offset)
    assert planner.at_position(second).is_anonymous


@pytest.mark.parametrize(
    ("logs", "is_there"),
    [
        ([("1-3", [4, 5])], True),
        ([("1-3", []), ("1-3", [4])], True),
        ([("1-3", [None, 4])], False),
        ([("1-3", []), ("1-3", [None])], False),
        ([("1-4", [5])], False),
        ([("1-3", [])], None),  # the server knows
    ],
)
@pytest.mark.parametrize("gives_gtids", [True, False, None])
def test_a_position_whose_log_is_purged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    logs: list[Log],
    is_there: bool | None,
    gives_gtids: bool | None,
) -> None:
    monkeypatch.setattr(DirectoryLogs, "gives_gtids", lambda _logs: gives_gtids)
    planner = planner_of(tmp_path, ("1-2", [3]), *logs)
    offset = StreamOffset(Position("", "binlog.000001", offset_in("1-2", [3]), f"{SID}:1-3"))
    assert planner.here(offset) == offset
    (tmp_path / "binlog.000001").unlink()
    if is_there or (is_there is None and gives_gtids):
        found = planner.here(offset).position
        assert (found.file, found.offset, found.gtid_set) == ("binlog.000002", 4, f"{SID}:1-3")
        assert not planner.begins_after(offset.position)
        with pytest.raises(PositionLostError, match="without GTIDs"):
            planner.here(replace(offset, is_anonymous=True))
    else:
        with pytest.raises(PositionLostError):
            planner.here(offset)
        assert planner.begins_after(offset.position)


@pytest.mark.parametrize(
    ("logs", "file", "passed"),
    [
        # inside of a log, at its end, before an empty one
        ([("", [1, 2, 3, 4])], 1, [1, 2, 3]),
        ([("", [1, 2, 3]), ("1-3", [4])], 2, []),
        ([("", [1, 2, 3]), ("1-3", []), ("1-3", [4])], 3, []),
        ([("", [1, 2, 3])], 1, [1, 2, 3]),
        ([("1-3", [4]), ("1-4", [None])], 1, []),
        # all without GTIDs come before
        ([("", [None]), ("", [1, 2, 3, 4])], 2, [1, 2, 3]),
        # only one of the servers may have shown them
        ([("", [1, 2, 3, None, 4])], None, []),
        ([("", [1, 2, None, 3, 4])], None, []),
        ([("", [1, 2, 3]), ("1-3", [None]), ("1-3", [4])], None, []),
        ([("", [1, 2, 3]), ("1-3", [None]), ("1-3", [])], None, []),
        ([("1-3", [None]), ("1-3", [4])], None, []),
    ],
)
def test_another_server_takes_over(
    tmp_path: Path,
    logs: list[Log],
    file: int | None,
    passed: list[int | None],
) -> None:
    (tmp_path / STATE).write_bytes(ArchiveState(OTHER, "mysql").to_bytes())
    planner = planner_of(tmp_path, *logs)
    offset = StreamOffset(Position(str(SID), "mysql-bin.000077", 700, f"{SID}:1-3"))
    if file is None:
        with pytest.raises(PositionLostError):
            planner.here(offset)
        return
    found = planner.here(offset)
    at = offset_in(logs[file - 1][0], passed)
    assert found.position == Position(OTHER, f"binlog.00000{file}", at, f"{SID}:1-3")
    assert found.shown == ""
    with pytest.raises(PositionLostError, match="without GTIDs"):
        planner.here(replace(offset, is_anonymous=True))
