"""Which lake tables can have the default of a new column in their existing rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import UnsupportedError
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.ddl.new_columns import existing_value
from binlake.mirror.modes.choice import mode_named
from binlake.mirror.modes.names import APPEND, HISTORY, MIRROR, SOFT_DELETES
from binlake.snapshot.definition import definition_of
from binlake.table.plan import TableTypes
from binlake.table.resolve import silent
from binlake.table.schema.ddl_effects import altered_table
from binlake.table.schema.schema_file import parse_schema
from binlake.table.types.base import Target
from binlake.values.options import ReadOptions
from unit.table.schema.test_ddl import ddl

MADE = "CREATE TABLE shop.t (id INT PRIMARY KEY) CHARSET=utf8mb4"


def value(
    definition: str,
    mode: str = MIRROR,
    rules: ColumnRules | None = None,
    shard_column: str = "",
    initial_defaults: bool = True,
) -> pa.Scalar | None:
    """The value of a new column in the existing rows of a lake table."""
    statement = ddl(f"ALTER TABLE t ADD c {definition}")
    new = altered_table(statement, ("shop", "t"), parse_schema(MADE.encode()).tables[0])
    types = TableTypes.of(definition_of(new, "mysql"), ReadOptions(), Target.TYPED, silent)
    lake = SimpleNamespace(has_initial_defaults=initial_defaults)
    table: Any = SimpleNamespace(
        id=("shop", "t"), mode=mode_named(mode), shard_column=shard_column, lake=lake
    )
    return existing_value(statement, new.columns[-1], types, table, rules or ColumnRules())


@pytest.mark.parametrize("mode", [MIRROR, SOFT_DELETES])
def test_rows_of_the_server(mode: str) -> None:
    assert value("SMALLINT NOT NULL DEFAULT 7", mode) == pa.scalar(7, pa.int16())
    assert value("INT", mode) is None


def test_rows_that_did_not_have_the_column() -> None:
    assert value("INT NOT NULL DEFAULT 7", APPEND) is None
    assert value("INT", HISTORY) is None
    with pytest.raises(UnsupportedError, match="earlier versions of the rows did not have them"):
        value("INT NOT NULL DEFAULT 7", HISTORY)


@pytest.mark.parametrize(
    ("definition", "more", "why"),
    [
        ("INT DEFAULT 7", {"shard_column": "_source"}, "the rows of other shards"),
        ("INT DEFAULT 7", {"initial_defaults": False}, "--deletes vectors"),
        ("DATE DEFAULT '2020-02-29'", {}, "PyIceberg finds no rows"),
        ("DATETIME DEFAULT '2020-02-29 00:00:00'", {}, "PyIceberg finds no rows"),
    ],
)
def test_tables_and_types_without_defaults(definition: str, more: dict[str, Any], why: str) -> None:
    with pytest.raises(UnsupportedError, match=f"column c is added with values .*{why}"):
        value(definition, **more)
    assert value(definition.partition(" DEFAULT")[0], **more) is None


def test_hashed_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINLAKE_HASH_KEY", "k" * 32)
    rules = ColumnRules(hash=("shop.t.c",))
    found = value("INT DEFAULT 7", rules=rules)
    keyed = rules.hashed("shop", "t", ["c"])["c"]
    assert found == keyed.of(pa.array([7], pa.int32()))[0]
    assert found is not None
    assert found.type == pa.string()
