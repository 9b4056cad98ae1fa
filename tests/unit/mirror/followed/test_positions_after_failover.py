"""Rounds after a failover: the tables are at positions of two servers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from binlake.errors import PositionLostError
from binlake.follow.offsets import StreamOffset
from binlake.mirror.apply.decode import Decoded
from binlake.mirror.options import MirrorOptions
from binlake.mirror.rounds import Rounds
from binlake.stream.sql.ddl import DdlStatement
from binlake.values.position import ChainPosition, Position


def offset(uuid: str, number: int) -> StreamOffset:
    return StreamOffset(Position(uuid, f"binlog.{number:06}", 4, gtid_set=""))


class NewServer:
    """A planner over the logs of the server `new`, without those places in the log of `old` that are in `lost`."""

    def __init__(self, *lost: StreamOffset) -> None:
        self.lost = lost

    def here(self, wanted: StreamOffset) -> StreamOffset:
        if wanted in self.lost:
            raise PositionLostError(f"{wanted.position.file} was purged", hint="copy all tables")
        return offset("new", 7)

    def advance(self, start: StreamOffset, *_limits: Any) -> StreamOffset:
        return start


class ChangingServer(NewServer):
    """A planner whose log is that of `old` for as many looks as it finds `ends`, and then that of `new`."""

    def __init__(self, *ends: StreamOffset) -> None:
        super().__init__()
        self.ends = [*ends, offset("new", 9)]

    def advance(self, *_of: Any) -> StreamOffset:
        return self.ends.pop(0)


class Tables:
    """The followed tables, and the reasons of the quarantined ones."""

    def __init__(self, **offsets: StreamOffset) -> None:
        self.quarantined: dict[str, str] = {}
        self.followed = {
            f"shop.{name}": SimpleNamespace(full_name=f"shop.{name}", offset=place, is_being_completed=False)
            for name, place in offsets.items()
        }  # fmt: skip

    def quarantine(self, full_name: str, reason: str) -> None:
        del self.followed[full_name]
        self.quarantined[full_name] = reason


def rounds(planner: NewServer, tables: Tables, decoder: Any = None, schema_changes: Any = None) -> Rounds:  # fmt: skip
    unused: Any = SimpleNamespace()
    return Rounds(
        planner, decoder, unused, tables, schema_changes, unused, MirrorOptions(), lambda _note: None, lambda _rows: None  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_table_whose_position_the_new_server_lacks_does_not_stop_the_others() -> None:
    behind, kept, changed = offset("old", 1), offset("old", 5), offset("new", 7)
    tables = Tables(behind=behind, kept=kept, changed=changed)
    assert not rounds(NewServer(behind), tables).make(None)
    assert tables.followed.keys() == {"shop.kept", "shop.changed"}
    assert {table.offset.position.server_uuid for table in tables.followed.values()} == {"new"}
    assert tables.quarantined == {
        "shop.behind": "binlog.000001 was purged; `binlake mirror resync LAKE shop.behind` copies the table again"
    }


def test_a_server_with_the_position_of_no_table() -> None:
    places = offset("old", 1), offset("older", 5)
    tables = Tables(one=places[0], other=places[1])
    with pytest.raises(PositionLostError, match=r"binlog\.000001 was purged; copy all tables"):
        rounds(NewServer(*places), tables).make(None)
    assert not tables.quarantined


def test_tables_at_one_place_get_their_positions_in_the_new_log_before_it_is_read() -> None:
    """The positions of statements are those of the new log, so that of the old one must not be compared with them."""
    tables = Tables(one=offset("old", 5), other=offset("old", 5))
    assert rounds(ChangingServer(), tables).make(None)  # a range that is decoded would fail
    assert [table.offset for table in tables.followed.values()] == [offset("new", 7)] * 2


@pytest.mark.parametrize("is_reached", [False, True])
def test_a_statement_is_not_passed_over_if_the_server_changes_after_it_was_found(is_reached: bool) -> None:  # fmt: skip
    """The next round finds it in the log of the new server."""
    truncate = DdlStatement(ChainPosition(3, "binlog.000003", 900), "shop", "TRUNCATE t", 1, None, 0)
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
