"""The change of a lake table whose columns get other types on the server while an earlier copy is not complete."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import UnsupportedError
from binlake.follow.offsets import StreamOffset
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.control import position_properties
from binlake.mirror.followed.copy_target import CopyTargets, tag_as_before
from binlake.mirror.followed.table_record import (
    definition_properties,
    former_properties,
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
from binlake.values.position import Position

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
        self.dropped: list[str] = []
        self.tags: list[str] = []
        self.schema = IN_LAKE
        self.notes: list[str] = []
        self.summary: dict[str, str] = {}
        self.properties = {
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
        known = {"schema": iceberg_schema(self.schema), "properties": self.properties}
        return SimpleNamespace(describe=lambda: known, tags=lambda: self.tags)

    def open_table(self, *_of: Any) -> Any:
        return self

    def commit(self, change: Change, _properties: Mapping[str, str]) -> None:
        self.committed.append(change)

    def drop(self, *name: str) -> None:
        self.dropped.append(".".join(name))

    def create_table(self, *name: Any, **_options: Any) -> Any:
        self.created.append(name[1])


CONTROL: Any = SimpleNamespace(was_dropped=lambda _name: False, to_resync=frozenset())


def opened(lake: StoredLake, create_table: str) -> None:
    """Open the lake table for a copy of a table that is now declared like this."""
    [declared] = parse_schema(create_table.encode()).tables
    table = SourceTable("shop", "t", definition_of(declared, "mysql"), ("id",))
    made: Any = lake
    options = MirrorOptions(on_alter="new-column")
    targets = CopyTargets(
        made, options, ColumnRules(), Path(), lake.notes.append, lambda _: {}, CONTROL
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


HIDING = ColumnRules(exclude=("*.*.ssn",), hash=("*.*.mail",), key_id="a-key")
PERSON = (
    "CREATE TABLE shop.t (id INT PRIMARY KEY, mail VARCHAR(20), ssn INT, v INT) CHARSET=utf8mb4"
)


def replaced(
    before: ColumnRules,
    now: ColumnRules,
    declared: str = PERSON,
    made: str = PERSON,
    tags: Sequence[str] = (),
    deletes: Sequence[str] = ("vectors", "vectors"),
) -> list[str]:
    """The lake tables that are dropped with their snapshots, when a table is copied that is `declared` like this and was
    `made` in the lake like that.
    """
    lake = StoredLake({})
    lake.properties |= {
        **definition_properties(("shop", "t"), made, before),
        "binlake.kept-columns": "[]",
        "binlake.deletes": deletes[0],
    }
    [known] = parse_schema(made.encode()).tables
    source = SourceTable("shop", "t", definition_of(known, "mysql"), ("id",))
    shown = [f for f in source.arrow_schema if before.treatment("shop", "t", f.name) != "left out"]
    lake.schema = before.lake_schema("shop", "t", pa.schema(shown))
    lake.tags = list(tags)
    [parsed] = parse_schema(declared.encode()).tables
    definition = definition_of(parsed, "mysql")
    there: Any = lake
    options = MirrorOptions.of({"deletes": deletes[1]})
    targets = CopyTargets(there, options, now, Path(), lake.notes.append, lambda _: {}, CONTROL)
    try:
        targets.open(SourceTable("shop", "t", definition, ("id",)))
    finally:
        assert lake.created == ([] if tags and lake.dropped == [] else ["t"])
    return lake.dropped


SHORTER = PERSON.replace(", v INT", "")


@pytest.mark.parametrize(
    ("before", "now", "made", "declared"),
    [
        (HIDING, HIDING, PERSON, SHORTER),
        (HIDING, HIDING, PERSON, SHORTER.replace(", ssn INT", "")),
        (HIDING, HIDING, PERSON.replace(", ssn INT", ""), SHORTER),
        (HIDING, HIDING, PERSON, SHORTER.replace(", mail VARCHAR(20)", "")),
        (HIDING, ColumnRules(), PERSON, PERSON),
        (HIDING, ColumnRules(exclude=("*.*.ssn",)), PERSON, SHORTER),
    ],
    ids=["another column", "hidden one gone", "hidden one new", "hashed one gone", "all shown", "one shown"],
)  # fmt: skip
def test_snapshots_stay_if_no_column_becomes_hidden(
    before: ColumnRules, now: ColumnRules, made: str, declared: str
) -> None:
    assert replaced(before, now, declared, made) == []


@pytest.mark.parametrize(
    ("before", "now", "column"),
    [
        (ColumnRules(), HIDING, "mail"),
        (ColumnRules(), ColumnRules(exclude=("*.*.V",)), "v"),
        (HIDING, ColumnRules(exclude=("*.*.ssn", "*.*.mail")), "mail"),
        (HIDING, replace(HIDING, key_id="another"), "mail"),
    ],
    ids=["hashed", "left out", "no longer hashed", "another key"],
)
def test_snapshots_go_if_a_column_becomes_hidden(
    before: ColumnRules, now: ColumnRules, column: str
) -> None:
    """Unless the table has tags, which promise that they stay."""
    assert replaced(before, now, SHORTER) == ["shop.t"]
    with pytest.raises(
        UnsupportedError, match=f"because column {column} .* has tags: a, b"
    ) as raised:
        replaced(before, now, SHORTER, tags=["a", "b"])
    assert "DROP TAG" in (raised.value.hint or "")


def test_snapshots_go_if_iceberg_cannot_keep_them() -> None:
    assert replaced(ColumnRules(), ColumnRules(), SHORTER, deletes=("position", "vectors")) == []
    older = "vectors", "position"
    assert replaced(ColumnRules(), ColumnRules(), SHORTER, deletes=older) == ["shop.t"]
    with pytest.raises(UnsupportedError, match="deletion vectors"):
        replaced(ColumnRules(), ColumnRules(), SHORTER, tags=["a"], deletes=older)


def test_a_lake_table_with_earlier_rows_of_another_table() -> None:
    """After a change of --rename, its tags and history stay until a user drops it."""
    lake = StoredLake(MARK)
    lake.properties |= {"binlake.table": "shop.other", **former_properties("bronze.other")}
    with pytest.raises(
        UnsupportedError, match=r"shop\.t has earlier rows of shop\.other"
    ) as raised:
        opened(lake, MADE)
    assert (raised.value.hint or "").startswith("drop it if you do not need it")


@pytest.mark.parametrize(
    ("summary", "tags"),
    [
        (
            position_properties(StreamOffset(Position("x", "binlog.000001", 4)), 1)
            | {"total-records": "3"},
            ["before-copy-binlog.000001-4"],
        ),
        # of another program: otherwise the earlier versions and changes would be lost
        ({"total-records": "3", "engine-name": "spark"}, ["before-copy-snapshot-7"]),
        ({"total-records": "0"}, []),
        ({}, []),
    ],
)
def test_the_rows_before_a_copy_get_a_tag(summary: dict[str, str], tags: list[str]) -> None:
    made: list[str] = []
    there: Any = SimpleNamespace(
        describe=lambda: {"snapshot": 7, "summary": summary}, tag=made.append
    )
    tag_as_before(there)
    assert made == tags


@pytest.mark.parametrize(("properties", "was_dropped", "expected"), [
    ({}, False, ("id", "c", "w")), ({}, True, ()), ({"binlake.table": "shop.other", "binlake.create-table-before": MADE}, False, ()),
    ({"binlake.create-table": None, "binlake.create-table-before": MADE.replace("c ", "d ")}, False, ("id", "d", "w")),
    ({"binlake.create-table": None}, False, ()),
])  # fmt: skip
def test_the_columns_that_the_table_had_at_its_last_copy(
    properties: dict[str, str | None], was_dropped: bool, expected: tuple[str, ...]
) -> None:
    lake = StoredLake({})
    changed = {**lake.properties, **properties}
    lake.properties = {name: value for name, value in changed.items() if value is not None}
    targets = CopyTargets(
        lake,  # type: ignore[arg-type]
        MirrorOptions(),
        ColumnRules(),
        Path(),
        lake.notes.append,
        lambda _name: {},
        SimpleNamespace(was_dropped=lambda _name: was_dropped),  # type: ignore[arg-type]
    )
    made = parse_schema(MADE.encode()).tables[0]
    table = SourceTable("shop", "t", definition_of(made, "mysql"), ("id",))
    assert targets.columns_before(table) == expected
