"""Rounds after a failover: the tables are at positions of two servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from binlake.errors import PositionLostError
from binlake.follow.logs import DirectoryLogs
from binlake.follow.offsets import StreamOffset
from binlake.follow.planner import StreamPlanner
from binlake.mirror.apply.decode import Decoded, statements_in
from binlake.mirror.control import progress_key
from binlake.mirror.options import MirrorOptions
from binlake.mirror.rounds import Rounds
from binlake.source.chain import LogPath
from binlake.stream.positions.boundary import Limits
from binlake.stream.sql.ddl import DdlStatement
from binlake.values.position import ChainPosition, Position
from support.logs.stream_log import SID, StreamLog


def offset(uuid: str, number: int) -> StreamOffset:
    return StreamOffset(Position(uuid, f"binlog.{number:06}", 4, gtid_set=""))


class NewServer:
    """A planner over the logs of the server `new`, without those places in the log of `old` that are in `lost`."""

    def __init__(self, *lost: StreamOffset) -> None:
        self.lost = lost
        self.looks = 0

    def look_again(self) -> None:
        self.looks += 1

    def latest(self) -> StreamOffset:
        return offset("new", 99)

    def has(self, wanted: StreamOffset) -> bool:
        return wanted not in self.lost

    def here(self, wanted: StreamOffset) -> StreamOffset:
        if wanted in self.lost:
            raise PositionLostError(f"{wanted.position.file} was purged", hint="copy all tables")
        return offset("new", 7)

    def advance(self, start: StreamOffset, *_limits: Any) -> StreamOffset:
        return start


class ChangingServer(NewServer):
    """A planner whose log is that of `old` for as many looks as it finds `ends`, and then that of `new`."""

    is_cut = False

    def __init__(self, *ends: StreamOffset) -> None:
        super().__init__()
        self.ends = [*ends, offset("new", 9)]

    def advance(self, *_of: Any) -> StreamOffset:
        return self.ends.pop(0)


class Tables:
    """The followed tables, and the reasons of the quarantined ones."""

    def __init__(self, **offsets: StreamOffset) -> None:
        self.quarantined: dict[str, str] = {}
        self.commits = 0
        self.followed = {
            f"shop.{name}": SimpleNamespace(full_name=f"shop.{name}", offset=place, is_being_completed=False, is_unfinished=False, may_be_ahead=False)
            for name, place in offsets.items()
        }  # fmt: skip

    def quarantine_all(self, reasons: Mapping[str, str]) -> None:
        for full_name in reasons:
            del self.followed[full_name]
        self.quarantined |= reasons
        self.commits += 1


def rounds(planner: NewServer, tables: Tables, decoder: Any = None, schema_changes: Any = None) -> Rounds:  # fmt: skip
    unused: Any = SimpleNamespace()
    return Rounds(
        planner, decoder, unused, tables, schema_changes, unused, MirrorOptions(), lambda _note: None, lambda _rows: None  # type: ignore[arg-type]
    )  # fmt: skip


def test_many_tables_whose_positions_are_lost_are_quarantined_together() -> None:
    behind = {f"t{number}": offset("old", 1) for number in range(10)}
    tables = Tables(changed=offset("new", 7), **behind)
    rounds(NewServer(offset("old", 1)), tables).make(None)
    assert tables.followed.keys() == {"shop.changed"}
    assert tables.quarantined.keys() == {f"shop.{name}" for name in behind}
    assert tables.commits == 1


def test_a_table_whose_position_the_new_server_lacks_does_not_stop_the_others() -> None:
    behind, kept, changed = offset("old", 1), offset("old", 5), offset("new", 7)
    tables = Tables(behind=behind, kept=kept, changed=changed)
    assert not rounds(NewServer(behind), tables).make(None)
    assert tables.followed.keys() == {"shop.kept", "shop.changed"}
    assert {table.offset.position.server_uuid for table in tables.followed.values()} == {"new"}
    assert tables.quarantined == {
        "shop.behind": "binlog.000001 was purged; `binlake mirror resync LAKE shop.behind` copies the table again"
    }


@pytest.mark.parametrize(
    ("end_of", "flag"),
    [("part_until", "is_unfinished"), ("snapshot_until", "may_be_ahead")],  # of a range, of a copy
)
def test_a_server_that_lacks_changes_of_which_the_lake_has_a_part(end_of: str, flag: str) -> None:
    """It lost the last transactions of the server before it. The position of the table is older."""
    end = offset("old", 6)
    tables = Tables(part=offset("old", 5), kept=offset("old", 5), changed=offset("new", 7))
    for name in ("part", "kept"):
        setattr(tables.followed[f"shop.{name}"], end_of, end)
    setattr(tables.followed["shop.part"], flag, True)
    rounds(NewServer(end), tables).make(None)
    assert tables.followed.keys() == {"shop.kept", "shop.changed"}
    assert "binlog.000006 was purged" in tables.quarantined["shop.part"]


def test_the_range_that_completes_a_copy_ends_there_on_the_new_server_too() -> None:
    """After it, a history keeps all versions. A restart may come between, so the place is looked for again."""
    targets: list[StreamOffset | None] = []

    class Server(NewServer):
        def here(self, wanted: StreamOffset) -> StreamOffset:
            return offset("new", 8) if wanted == end else super().here(wanted)

        def advance(self, start: StreamOffset, *limits: Any) -> StreamOffset:
            targets.append(limits[-1])
            return start

    end = offset("old", 6)
    tables = Tables(copied=offset("new", 7))
    copied = tables.followed["shop.copied"]
    copied.snapshot_until, copied.is_being_completed = end, True
    rounds(Server(), tables).make(offset("new", 9))
    copied.offset = offset("new", 8)  # the rest of the copy's transactions come later in this log
    rounds(Server(), tables).make(offset("new", 9))
    assert targets == [offset("new", 8), offset("new", 9)]
    assert rounds(NewServer(end), tables).make(None)
    assert "shop.copied" not in tables.followed


def test_a_server_with_the_position_of_no_table() -> None:
    places = offset("old", 1), offset("older", 5)
    tables = Tables(one=places[0], other=places[1])
    server = NewServer(*places)
    mirror = rounds(server, tables)
    assert mirror.make(None)
    assert server.looks == 1
    with pytest.raises(
        PositionLostError, match=r"binlog\.000001 was purged; copy all tables"
    ) as lost:
        mirror.make(None)
    assert not lost.value.is_passing
    assert (tables.quarantined, server.looks) == ({}, 1)


class Reconnecting(NewServer):
    """A server whose log can be read after so many `looks` at it."""

    def __init__(self, *lost: StreamOffset, looks: int) -> None:
        super().__init__(*lost)
        self.needed = looks

    def has(self, wanted: StreamOffset) -> bool:
        return self.looks < self.needed or super().has(wanted)

    def advance(self, start: StreamOffset, *_limits: Any) -> StreamOffset:
        if self.looks < self.needed or start in self.lost:
            raise PositionLostError(f"{start.position.file} is another log now")
        return start


def test_a_new_connection_shows_that_the_log_is_another_one() -> None:
    """Only the table whose position was purged is quarantined."""
    behind, kept = offset("new", 1), offset("new", 5)
    tables = Tables(behind=behind, kept=kept)
    server = Reconnecting(behind, looks=1)
    mirror = rounds(server, tables)
    assert mirror.make(None)
    assert not tables.quarantined
    assert mirror.make(None)
    assert tables.quarantined.keys() == {"shop.behind"}
    assert not mirror.make(None)


def test_a_log_that_cannot_be_read_although_it_has_the_position() -> None:
    """Another start may read it, so a service starts again."""
    tables = Tables(t=offset("new", 5))
    mirror = rounds(Reconnecting(looks=9), tables)
    assert mirror.make(None)
    with pytest.raises(PositionLostError, match="is another log now") as lost:
        mirror.make(None)
    assert lost.value.is_passing


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_run_ends_at_its_place_on_the_new_server_too(is_lost: bool) -> None:
    """On a server that is never idle, it would not end otherwise; and positions of two servers have no order."""
    until = offset("old", 5)
    targets: list[StreamOffset] = []

    class Server(NewServer):
        def here(self, wanted: StreamOffset) -> StreamOffset:
            return offset("new", 8) if wanted == until and not is_lost else super().here(wanted)

        def advance(self, start: StreamOffset, *limits: Any) -> StreamOffset:
            targets.append(limits[-1])
            return start

    mirror = rounds(Server(*[until] * is_lost), Tables(t=offset("new", 7)))
    end = offset("new", 99 if is_lost else 8)
    assert mirror.until_here(until) == end
    mirror.make(until)
    assert targets == [end]


def test_tables_at_one_place_get_their_positions_in_the_new_log_before_it_is_read() -> None:
    """The positions of statements are those of the new log, so that of the old one must not be compared with them."""
    tables = Tables(one=offset("old", 5), other=offset("old", 5))
    assert rounds(ChangingServer(), tables).make(None)  # a range that is decoded would fail
    assert [table.offset for table in tables.followed.values()] == [offset("new", 7)] * 2


@pytest.mark.parametrize("is_reached", [False, True])
def test_a_change_of_servers_does_not_hide_a_statement(is_reached: bool) -> None:  # fmt: skip
    """The next round finds it in the log of the new server."""
    truncate = DdlStatement(
        ChainPosition(3, "binlog.000003", 900), "shop", "TRUNCATE t", 1, None, 0
    )
    decoder = SimpleNamespace(decode_until_change=lambda *_: Decoded(ddl=[truncate]))
    schema_changes = SimpleNamespace(
        first=lambda statements, _group: statements[0], copied_again=lambda *_: False
    )
    tables = Tables(t=offset("old", 1))
    before = [offset("old", 1)] if is_reached else []
    server = ChangingServer(offset("old", 3), *before)
    assert rounds(server, tables, decoder, schema_changes).make(None)
    assert not server.ends
    assert tables.followed["shop.t"].offset == offset("old", 1)


class LogsOfNewServer(DirectoryLogs):
    """A directory with the logs of the server `new`."""

    def _server_of(self, file: LogPath) -> str:
        return "new"


def test_statements_that_the_lake_already_has_are_not_applied_again(tmp_path: Path) -> None:
    """The new server has committed the fourth transaction before the second one."""
    log = StreamLog().plain(1).plain(4).gtid(2).query(b"TRUNCATE t").plain(3)
    later = len(log.plain(5).bytes())
    log.gtid(6).query(b"TRUNCATE t").write(tmp_path)
    read = MirrorOptions().read_options([("shop", "t")])
    planner = StreamPlanner(LogsOfNewServer([str(tmp_path)], read), read)
    start = planner.here(StreamOffset(Position("old", "binlog.000009", 700, f"{SID}:1-3")))
    assert start.shown
    [statement] = statements_in(planner.splits(start, planner.latest()), read)
    assert statement.position.offset > later


def read_on(planner: StreamPlanner, start: StreamOffset) -> Iterator[StreamOffset]:
    """The places after each of the following transactions."""
    while True:
        end = planner.advance(start, Limits(transactions=1))
        if end.key == start.key:
            return
        yield end
        start = end


@pytest.mark.parametrize(
    ("log", "gtids", "left"),
    [
        (
            StreamLog().plain(1).plain(4).plain(2).plain(3).plain(5),
            (f"{SID}:1-3", f"{SID}:1-2"),
            ([f"{SID}:2-3", f"{SID}:3", "", ""], [f"{SID}:2", "", "", ""]),
        ),
        (
            reduce(lambda log, gtid: log.maria(gtid[1], domain=gtid[0]).query(b"BEGIN").rows().xid(),
                   [(0, 1), (1, 1), (0, 2), (0, 3), (1, 2)], StreamLog()),
            ("0-1-3", "0-1-2"),
            (["0-1:2-3", "0-1:3", "", ""], ["0-1:2", "", "", ""]),
        ),
    ],
    ids=["mysql", "mariadb"],
)  # fmt: skip
def test_tables_meet_after_the_transactions_that_one_of_them_already_had(
    tmp_path: Path, log: StreamLog, gtids: tuple[str, str], left: tuple[list[str], list[str]]
) -> None:
    """Otherwise no round is recorded, and the log is read for each of them, until the server begins a new file."""
    log.write(tmp_path)
    read = MirrorOptions().read_options()
    planner = StreamPlanner(LogsOfNewServer([str(tmp_path)], read), read)
    starts = [planner.here(StreamOffset(Position("old", "binlog.000009", 700, gtids_)))
              for gtids_ in gtids]  # fmt: skip
    assert starts[0].position.offset == starts[1].position.offset
    one, other = (list(read_on(planner, start)) for start in starts)
    assert ([end.shown for end in one], [end.shown for end in other]) == left
    assert [end.position.offset for end in one] == [end.position.offset for end in other]
    assert one[0].position.gtid_set != other[0].position.gtid_set
    sets = [sorted(end.position.gtid_set.split(",")) for end in (one[2], other[2])]
    assert sets[0] == sets[1]
    assert progress_key(one[2]) == progress_key(other[2])


def test_tables_with_different_later_transactions_are_not_read_together() -> None:
    """Both are at one position of the new server, and one has more of the transactions after it."""
    groups: list[list[str]] = []

    def read(group: list[Any], *_: Any) -> Decoded:
        groups.append([table.full_name for table in group])
        raise InterruptedError

    here = offset("new", 7)
    tables = Tables(a=replace(here, shown=f"{SID}:1-99"), b=replace(here, shown=f"{SID}:1-98"))
    for _ in tables.followed:
        with pytest.raises(InterruptedError):
            rounds(ChangingServer(), tables, SimpleNamespace(decode_until_change=read)).make(None)
        tables.followed[groups[-1][0]].offset = offset("new", 9)
    assert groups == [["shop.b"], ["shop.a"]]


def test_a_run_does_not_move_between_two_servers_forever() -> None:
    """One address has two servers behind it: each connection may reach the other one."""

    class Balancer(NewServer):
        is_cut = False

        def advance(self, start: StreamOffset, *_limits: Any) -> StreamOffset:
            return offset("new" if self.looks % 2 else start.position.server_uuid, 9 + self.looks)

    def read(*_of: Any) -> Decoded:
        raise PositionLostError("it is not the log that the range was planned for")

    mirror = rounds(
        Balancer(), Tables(t=offset("old", 1)), SimpleNamespace(decode_until_change=read)
    )
    with pytest.raises(PositionLostError, match="was planned for") as lost:  # noqa: PT012
        for _ in range(9):
            assert mirror.make(None)
    assert lost.value.is_passing
