"""Rounds after a failover: the tables are at positions of two servers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from binlake.errors import PositionLostError
from binlake.follow.offsets import StreamOffset
from binlake.mirror.options import MirrorOptions
from binlake.mirror.rounds import Rounds
from binlake.values.position import Position


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


def rounds(planner: NewServer, tables: Tables) -> Rounds:
    unused: Any = SimpleNamespace()
    return Rounds(
        planner, unused, unused, tables, unused, unused, MirrorOptions(), lambda _note: None, lambda _rows: None  # type: ignore[arg-type]
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
