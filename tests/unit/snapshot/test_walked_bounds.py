"""The steps in which the bounds of chunks are found along a key."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from binlake.snapshot import bounds
from binlake.snapshot.bounds import walked_bounds
from binlake.snapshot.tables import SourceTable
from binlake.values.plan import ColumnDefinition, TableDefinition

TABLE = SourceTable(
    "shop",
    "t",
    TableDefinition("shop", "t", (ColumnDefinition(0, "id", 3, 4),), primary_key=(0,)),
    ("id",),
)
ROWS = 2_300_000


class Disk:
    """A table with the keys 1 to `ROWS`, on a disk that reads so many rows a second."""

    def __init__(self, rows_per_s: float) -> None:
        self.rows_per_s = rows_per_s
        self.now = 0.0
        self.waits: list[float] = []

    def text_rows(self, _server: Any, sql: str, _columns: int) -> list[tuple[str, ...]]:
        beyond = re.search(r"> (\d+)", sql)
        offset = re.search(r"LIMIT 1 OFFSET (\d+)$", sql)
        assert offset is not None
        first = int(beyond[1]) if beyond else 0
        key = first + int(offset[1]) + 1
        self.waits.append((min(key, ROWS) - first) / self.rows_per_s)
        self.now += self.waits[-1]
        return [(str(key),)] if key <= ROWS else []


@pytest.mark.parametrize("rows_per_s", [1_000, 10_000, 1e7])
def test_the_server_answers_each_step_in_time(
    monkeypatch: pytest.MonkeyPatch, rows_per_s: float
) -> None:
    """A page of a clustered index has few rows, and a million of them may be 65,000 reads from a disk."""
    disk = Disk(rows_per_s)
    monkeypatch.setattr(bounds, "text_rows", disk.text_rows)
    monkeypatch.setattr(bounds, "time", SimpleNamespace(monotonic=lambda: disk.now))
    found = list(walked_bounds(SimpleNamespace(), TABLE, 1_000_000))  # type: ignore[arg-type]
    assert found == [("1000000",), ("2000000",)]
    assert max(disk.waits) <= max(50_000 / rows_per_s, 20.1)
    if rows_per_s > 1e6:
        assert len(disk.waits) < 12


def test_parts_with_fewer_rows_than_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(1e6)
    monkeypatch.setattr(bounds, "text_rows", disk.text_rows)
    walk = walked_bounds(SimpleNamespace(), TABLE, 7)  # type: ignore[arg-type]
    assert [next(walk) for _ in range(3)] == [("7",), ("14",), ("21",)]
    assert len(disk.waits) == 3
