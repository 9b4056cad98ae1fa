"""The change of a lake table whose columns get other types on the server while an earlier copy is not complete."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.followed.copy_target import CopyTargets
from binlake.mirror.followed.table_record import (
    definition_properties,
    has_pending_copy,
    kept_columns,
    pending_columns,
    pending_properties,
)
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import Change
from binlake.mirror.tables.schema import iceberg_schema
from binlake.snapshot.definition import definition_of
from binlake.snapshot.tables import SourceTable
from binlake.table.schema.schema_file import parse_schema

MADE = "CREATE TABLE shop.t (id INT PRIMARY KEY, c VARCHAR(20), w BIGINT) CHARSET=utf8mb4"
IN_LAKE = pa.schema(
    [("id", pa.int32()), ("c", pa.string()), ("w", pa.int64()), ("c_before_1", pa.int32())]
)
#: The mark of a copy that adds no column.
MARK = dict(pending_properties(()))


class StoredLake:
    """A lake with one table, `shop.t`, whose earlier copy has begun. `committed`: the changes of it."""

    def __init__(self, pending: Mapping[str, str]) -> None:
        self.committed: list[Change] = []
        self.created: list[str] = []
        self.notes: list[str] = []
        self.summary: dict[str, str] = {}
        self._properties = {
            "binlake.table": "shop.t",
            "binlake.key": '["id"]',
            "binlake.flavour": "mysql",
            "binlake.deletes": MirrorOptions().deletes,
            "binlake.kept-columns": '["c_before_1"]',
            **definition_properties(("shop", "t"), MADE, ColumnRules()),
            **pending,
        }

    def exists(self, *_name: str) -> bool:
        return True

    def load(self, *_name: str) -> Any:
        known = {"schema": iceberg_schema(IN_LAKE), "properties": self._properties}
        return SimpleNamespace(describe=lambda: known)

    def open_table(self, *_of: Any) -> Any:
        return self

    def commit(self, change: Change, _properties: Mapping[str, str]) -> None:
        self.committed.append(change)

    def drop(self, *_name: str) -> None:
        pass

    def create_table(self, *name: Any, **_options: Any) -> Any:
        self.created.append(name[1])


def opened(lake: StoredLake, create_table: str) -> None:
    """Open the lake table for a copy of a table that is now declared like this."""
    [declared] = parse_schema(create_table.encode()).tables
    table = SourceTable("shop", "t", definition_of(declared, "mysql"), ("id",))
    made: Any = lake
    options = MirrorOptions(on_alter="new-column")
    targets = CopyTargets(
        made, options, ColumnRules(), Path(), lake.notes.append, lambda _: {}, lambda _: False
    )
    targets.open(table)


def steps(change: Change) -> list[tuple[str, ...]]:
    """The steps of a change, without those that put columns in order."""
    found = [one for group in change.schema for one in group]
    found = [one for one in found if one["do"] not in ("first", "after")]
    return [tuple(one[name] for name in ("do", "name", "to") if name in one) for one in found]


def test_values_stay_if_the_copy_that_has_begun_adds_no_column() -> None:
    """The mark of such a copy does not mean that its columns have no values."""
    lake = StoredLake(MARK)
    opened(lake, MADE.replace("w BIGINT", "w VARCHAR(20)"))
    [change] = lake.committed
    assert steps(change) == [("rename", "w", "w_before_1"), ("add", "w")]
    assert kept_columns(change.table_properties) == ("c_before_1", "w_before_1")
    assert pending_columns(change.table_properties) == ("w",)


@pytest.mark.parametrize("mark", [MARK, dict(pending_properties(["w"]))])
def test_a_key_of_another_type_is_copied_into_a_new_lake_table(mark: dict[str, str]) -> None:
    """The keys in the lake do not change, because the earlier values of other columns are found by them."""
    lake = StoredLake(mark)
    opened(lake, MADE.replace("id INT", "id VARCHAR(20)"))
    assert (lake.committed, lake.created) == ([], ["t"])
    why = "its columns or options have changed; the lake table is created again, without c_before_1"
    assert lake.notes == [f"shop.t: {why}"]


def test_a_column_without_values_is_created_again() -> None:
    lake = StoredLake(pending_properties(["w"]))
    opened(lake, MADE.replace("w BIGINT", "w VARCHAR(20)"))
    [change] = lake.committed
    assert steps(change) == [("drop", "w"), ("add", "w")]
    assert kept_columns(change.table_properties) == ("c_before_1",)
    assert pending_columns(change.table_properties) == ("w",)


def test_a_copy_that_adds_no_column_is_pending() -> None:
    """After a stop, the mirror continues it."""
    lake = StoredLake({})
    opened(lake, MADE.replace(", w BIGINT", ""))
    [change] = lake.committed
    assert steps(change) == [("drop", "w")]
    assert has_pending_copy(change.table_properties)
    assert json.loads(change.table_properties["binlake.pending-columns"]) == [""]
    assert pending_columns(change.table_properties) == ()


def test_a_lake_table_with_a_missing_file_is_created_again() -> None:
    """The quarantine of such a table advises a resync, which has to end it."""

    class DamagedLake(StoredLake):
        def open_table(self, *_of: Any) -> Any:
            raise FileNotFoundError("data/binlake-1.parquet")

    lake = DamagedLake(dict(pending_properties(())))
    opened(lake, MADE)
    assert lake.created == ["t"]
