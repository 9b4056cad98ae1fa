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
from binlake.stream.positions.boundary import UNLIMITED, Limits
from binlake.stream.positions.gtid_progress import GtidProgress
from binlake.table.log_part import LogPart
from binlake.table.row_json import change_batch
from binlake.table.types.base import Target
from binlake.values.gtid import GtidSet, MariaGtidSet
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import FilePosition, Position
from support.logs.stream_log import SID, StreamLog

GOLDEN = Path(__file__).parents[2] / "golden"
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
        log = log_of(before, transactions)
        if number < len(logs):
            log.rotate(f"binlog.00000{number + 1}")
        log.write(folder, f"binlog.00000{number}")
    options = ReadOptions()
    return StreamPlanner(DirectoryLogs([str(folder)], options), options)


def offset_in(before: str, transactions: Sequence[int | None]) -> int:
    """The length of a log with these transactions."""
    return len(log_of(before, transactions).bytes())


def test_whether_the_last_transaction_has_a_gtid(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, ("", [1, None, 2]), ("1-2", []), ("1-2", [None]), ("1-2", []))
    places = [planner.earliest()]
    while len(places) < 8:
        places.append(planner.advance(places[-1], Limits(transactions=1)))
    assert [place.is_anonymous for place in places[:4]] == [None, False, True, False]
    assert planner.advance(places[0], Limits(transactions=2)).is_anonymous
    assert [StreamOffset.from_json(place.to_json()) for place in places] == places
    second = FilePosition("binlog.000001", places[2].position.offset)
    assert planner.at_position(second).is_anonymous
    # the newest log has no transaction, whichever way leads there
    ends = [planner.latest(), planner.advance(places[2], UNLIMITED), places[-1]]
    assert [(end.position.file, end.is_anonymous) for end in ends] == [("binlog.000004", None)] * 3


@pytest.mark.parametrize(
    ("logs", "is_there"),
    [
        ([("1-3", [4, 5])], True),
        ([("1-3", [None, 4])], True),
        ([("1-3", [])], True),
        ([("1-4", [5])], False),
        # a log is purged that may have had transactions without GTIDs
        ([("1-3", [None]), ("1-3", [4])], False),
        ([("1-3", []), ("1-3", [])], False),
    ],
)
def test_a_position_whose_log_is_purged(tmp_path: Path, logs: list[Log], is_there: bool) -> None:
    """The rest of the log of the position has GTIDs if the last transaction before the position has one."""
    planner = planner_of(tmp_path, ("1-2", [3]), *logs)
    offset = planner.advance(planner.earliest(), Limits(transactions=1))
    assert (offset.position.file, offset.is_anonymous) == ("binlog.000001", False)
    gone = 1 if is_there or len(logs) == 1 else 2
    for number in range(1, gone + 1):
        (tmp_path / f"binlog.00000{number}").unlink()
    if is_there:
        found = planner.here(offset).position
        assert (found.file, found.offset, found.gtid_set) == ("binlog.000002", 4, f"{SID}:1-3")
        assert not planner.begins_after(offset.position)
    else:
        with pytest.raises(PositionLostError):
            planner.here(offset)
        assert planner.begins_after(offset.position)
    for unknown in (True, None):
        with pytest.raises(PositionLostError):
            planner.here(replace(offset, is_anonymous=unknown))


def test_a_position_of_mariadb_whose_log_is_purged(tmp_path: Path) -> None:
    """Some sources report the last GTID of each domain only. All transactions have GTIDs."""
    golden = sorted((GOLDEN / "mariadb-11.8" / "gtid").glob("binlog.0*[0-9]"))
    for log in golden[-1:]:
        (tmp_path / log.name).write_bytes(log.read_bytes())
    planner = planner_of(tmp_path)
    state = planner.earliest().position.gtid_set
    assert state
    last = MariaGtidSet.parse(state).position().values()
    for text in (state, ",".join(map(str, last)), f"{state},7-7-7"):
        place = StreamOffset(Position("", "binlog.000001", 700, text))
        assert planner.has(place) == (not text.endswith("7-7-7"))


@pytest.mark.parametrize(
    ("logs", "file", "passed"),
    [
        # inside of a log, at its end, before an empty one
        ([("", [1, 2, 3, 4])], 1, [1, 2, 3]),
        ([("", [1, 2, 3]), ("1-3", [4])], 2, []),
        ([("", [1, 2, 3]), ("1-3", []), ("1-3", [4])], 3, []),
        ([("", [1, 2, 3])], 1, [1, 2, 3]),
        # all without GTIDs come before
        ([("", [None]), ("", [1, 2, 3, 4])], 2, [1, 2, 3]),
        # only one of the servers may have shown them
        ([("", [1, 2, 3, None, 4])], None, []),
        ([("", [1, 2, None, 3, 4])], None, []),
        ([("", [1, 2, 3]), ("1-3", [None]), ("1-3", [4])], None, []),
        ([("", [1, 2, 3]), ("1-3", [None]), ("1-3", [])], None, []),
        ([("1-3", [None]), ("1-3", [4])], None, []),
        ([("1-3", [4]), ("1-4", [None])], None, []),
        ([("", [1, 2, 4, None, 3])], None, []),
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


@pytest.mark.parametrize("begun", [0, 1])
@pytest.mark.parametrize(("shown", "purged"), [("1-5", "6-10"), ("1-10", ""), ("1-12", "")])
def test_a_crash_has_left_the_oldest_log_without_events(
    tmp_path: Path, shown: str, purged: str, begun: int
) -> None:
    """It does not show that transactions came before it."""
    (tmp_path / STATE).write_bytes(ArchiveState(OTHER, "mysql").to_bytes())
    planner = planner_of(tmp_path, ("", []), ("", []), ("1-10", [11, 12]))
    for number in (1, 2):
        (tmp_path / f"binlog.00000{number}").write_bytes(StreamLog().bytes() if begun else b"")
    offset = StreamOffset(Position(str(SID), "mysql-bin.000077", 700, f"{SID}:{shown}"))
    if purged:
        with pytest.raises(PositionLostError, match=f"purged: {SID}:{purged}"):
            planner.here(replace(offset, is_anonymous=False))
    else:
        found = planner.here(replace(offset, is_anonymous=False)).position
        seen = [11, 12] if shown == "1-12" else []
        assert (found.file, found.offset) == ("binlog.000003", offset_in("1-10", seen))


@pytest.mark.parametrize("gives_gtids", [True, False, None])
def test_another_server_has_nothing_after_the_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gives_gtids: bool | None
) -> None:
    """A transaction without a GTID that was the last on the other server may still come."""
    (tmp_path / STATE).write_bytes(ArchiveState(OTHER, "mysql").to_bytes())
    planner = planner_of(tmp_path, ("", [1, 2, 3]), ("1-3", []))
    monkeypatch.setattr(DirectoryLogs, "gives_gtids", lambda _logs: gives_gtids)
    position = Position(str(SID), "mysql-bin.000077", 700, f"{SID}:1-3")
    assert planner.has(StreamOffset(position, is_anonymous=False))
    assert planner.has(StreamOffset(position)) == (gives_gtids is not False)


@pytest.mark.parametrize("gives_gtids", [True, False, None])
@pytest.mark.parametrize("is_anonymous", [False, None])
@pytest.mark.parametrize(("next_one", "is_decided"), [([4], True), ([], False), ([None], None)])
def test_another_server_has_no_log_from_before_the_position(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    next_one: list[int | None],
    is_decided: bool | None,
    is_anonymous: bool | None,
    gives_gtids: bool | None,
) -> None:
    """It was set up from a backup, or has purged its logs."""
    (tmp_path / STATE).write_bytes(ArchiveState(OTHER, "mysql").to_bytes())
    planner = planner_of(tmp_path, ("1-3", next_one))
    monkeypatch.setattr(DirectoryLogs, "gives_gtids", lambda _logs: gives_gtids)
    position = Position(str(SID), "mysql-bin.000077", 700, f"{SID}:1-3")
    is_found = is_decided is not None and ((is_decided and is_anonymous is False) or gives_gtids)
    assert planner.has(StreamOffset(position, is_anonymous=is_anonymous)) == bool(is_found)


@pytest.mark.parametrize(
    ("here", "shown", "reached", "firsts"),
    [
        # another server of the domain has written past the numbers that it never had
        ("0-1-95,0-2-101", "0-1-100", False, []),
        ("0-2-101", "0-1-100", False, []),
        ("0-1-100,0-2-101", "0-1-100", True, []),
        # set up from a backup, it does not know the servers that had written before
        ("0-1-101", "0-9-7,0-1-100", True, []),
        ("0-1-101,1-1-4", "0-1-100,1-1-5", False, []),
        ("", "0-1-100,1-1-5", False, ["0-1-100", "1-1-5"]),
        ("0-3-1", "0-1-100,1-1-5", False, ["1-1-5"]),
        (f"{SID}:1-9", f"{SID}:1-9", True, []),
        (f"{SID}:1-8", f"{SID}:1-9", False, []),
    ],
)
def test_whether_a_server_has_what_was_shown(
    here: str, shown: str, reached: bool, firsts: list[str]
) -> None:
    one, other = GtidProgress(here), GtidProgress(shown)
    assert one.has_reached(other) is reached
    assert [str(gtid) for gtid in one.last_in_other_domains(other)] == firsts


def test_a_planned_batch_is_read_from_another_server(tmp_path: Path) -> None:
    """Its transaction without a GTID is read, too."""
    first, other = tmp_path / "first", tmp_path / "other"
    for folder, identity in ((first, str(SID)), (other, OTHER)):
        folder.mkdir()
        (folder / STATE).write_bytes(ArchiveState(identity, "mysql").to_bytes())
    planner = planner_of(first, ("1-2", [3, None, 4, 5]))
    begin = planner.earliest()
    end = planner.advance(begin, Limits(transactions=3))
    begin = replace(begin, is_anonymous=False)
    another = planner_of(other, ("", [1, 2, 3, None]), ("1-3", [4]), ("1-4", [5]))
    splits = LogPart(tuple(another.splits(begin, end)))
    rows = [
        row["gtid"]
        for changes in splits.changes(ReadOptions(), Target.TEXT, Ledger())
        for row in change_batch(changes, ReadOptions()).to_pylist()
    ]
    assert [text and text.rpartition(":")[2] for text in rows] == ["3", None, "4"]
