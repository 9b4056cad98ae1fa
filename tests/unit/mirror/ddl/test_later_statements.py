"""The search of the log for a statement after a comparison."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [mirror]")

from binlake.follow.offsets import StreamOffset
from binlake.mirror import later_statements
from binlake.mirror.later_statements import may_have_changed
from binlake.mirror.options import MirrorOptions
from binlake.mirror.stopped import StoppedError
from binlake.stream.sql.ddl import DdlStatement
from binlake.values.position import ChainPosition, Position


def at(offset: int) -> StreamOffset:
    return StreamOffset(Position("1-2-3", "binlog.000001", offset))


class Planner:
    """A log of 300 bytes, which is read in parts of 100."""

    def latest(self) -> StreamOffset:
        return at(300)

    def here(self, offset: StreamOffset) -> StreamOffset:
        return offset

    def advance(self, start: StreamOffset, _limits: Any, _until: StreamOffset) -> StreamOffset:
        return at(min(300, start.position.offset + 100))

    def splits(self, start: StreamOffset, _end: StreamOffset) -> int:
        return start.position.offset


def searched(monkeypatch: pytest.MonkeyPatch, statements: dict[int, str], stop_at: int) -> Any:
    """The result of a search of parts with these statements, and how many parts were read."""
    read: list[int] = []

    def statements_in(part: int, _options: Any) -> list[DdlStatement]:
        read.append(part)
        place = ChainPosition(0, "binlog.000001", part)
        sql = statements.get(part)
        return [] if sql is None else [DdlStatement(place, "shop", sql, 1, None, 0)]

    def between() -> None:
        if len(read) == stop_at:
            raise StoppedError("the mirror was stopped")

    monkeypatch.setattr(later_statements, "statements_in", statements_in)
    planner: Any = Planner()
    table: Any = SimpleNamespace(id=("shop", "t"), database="shop", name="t", offset=at(0))
    wait: Any = SimpleNamespace(has_reached=lambda _: True)
    place = Position("1-2-3", "binlog.000001", 300)
    return may_have_changed(planner, MirrorOptions(), table, place, wait, between), len(read)


def test_the_log_is_searched_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """During a comparison of hours, a server may write more than fits into memory."""
    assert searched(monkeypatch, {}, -1) == (False, 3)
    assert searched(monkeypatch, {0: "ALTER TABLE other ADD c INT"}, -1) == (False, 3)
    assert searched(monkeypatch, {100: "ALTER TABLE t ADD c INT"}, -1) == (True, 2)


def test_a_stop_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoppedError):
        searched(monkeypatch, {}, 1)
