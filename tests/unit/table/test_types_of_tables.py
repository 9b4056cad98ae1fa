"""Tables with the same columns share the work of planning them, and nothing that names a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlake.core.columns.sink import make_sink
from binlake.errors import MalformedError
from binlake.format import column_types as ct
from binlake.table.plan import ByColumns, TypesOfTables
from binlake.table.types.base import Target
from binlake.values.options import ReadOptions
from binlake.values.plan import ColumnDefinition, NameSource, TableDefinition
from support.logs import costly_logs
from support.logs.log_builder import QUERY, TABLE_MAP, XID, LogBuilder, query_body
from support.logs.table_log import INSERT, decode

UTF8MB4 = 45
COLUMNS = (
    ColumnDefinition(0, "id", ct.MYSQL_TYPE_LONG),
    ColumnDefinition(1, "note", ct.MYSQL_TYPE_VARCHAR, 40, collation_id=UTF8MB4),
    ColumnDefinition(2, "packed", ct.MYSQL_TYPE_BLOB_COMPRESSED, 1, collation_id=UTF8MB4),
)
BAD_TEXT = b"\1\xff"


def table(
    name: str, columns: tuple[ColumnDefinition, ...] = COLUMNS, source: str = NameSource.METADATA
) -> TableDefinition:
    return TableDefinition("shop", name, columns, name_source=source)


def test_equal_columns_are_planned_once() -> None:
    tables = TypesOfTables(ReadOptions(), Target.TYPED, lambda _: None)
    first, second = tables.types(table("a")), tables.types(table("b"))
    assert first.plan.columns is second.plan.columns
    assert first.fields is second.fields
    assert second.plan.definition.table == second.definition.table == "b"
    assert [kind.name for kind in second.columns] == ["shop.b.id", "shop.b.note", "shop.b.packed"]
    assert second.schema.metadata[b"binlake.table"] == b"shop.b"
    assert second.schema.equals(first.schema)


def test_batches_of_tables_with_equal_columns_name_their_table(tmp_path: Path) -> None:
    log = tmp_path / "binlog.000001"
    log.write_bytes(costly_logs.many_tables(3))
    (changes,) = decode(log, Target.TYPED)
    batches = [found.batch for found in changes.table_batches(ReadOptions())]
    names = [batch.schema.metadata[b"binlake.table"] for batch in batches]
    assert names == [b"shop.t0", b"shop.t1", b"shop.t2"]
    assert batches[0].schema.equals(batches[1].schema)


def test_bits_of_a_bitmap_that_no_column_has_are_not_presence(tmp_path: Path) -> None:
    log = tmp_path / "binlog.000001"
    made = LogBuilder("8.0.36")
    made.add(QUERY, query_body(b"BEGIN"))
    made.add(TABLE_MAP, costly_logs.table_map("t", bytes([3]) * 3))
    row = costly_logs.rows(3, 3, bytes([0]) + bytes(8))
    made.add(INSERT, row.replace(b"\x03\x07", b"\x03\x0b"))
    made.add(XID, bytes(8))
    log.write_bytes(made.bytes())
    (changes,) = decode(log, Target.TYPED)
    assert changes.tables[0].after.absent().to_pylist() == [["col_2"]]


def test_each_table_has_its_own_sentence() -> None:
    told: list[str] = []
    tables = TypesOfTables(ReadOptions(), Target.TEXT, told.append)
    for name in ("a", "b"):
        tables.types(table(name))
    assert [sentence.partition(":")[0] for sentence in told] == ["shop.a", "shop.b"]


@pytest.mark.parametrize("column", [1, 2])
def test_errors_and_warnings_of_values_name_their_table(column: int) -> None:
    stored = BAD_TEXT if column == 1 else b"\2\0\xff"
    for invalid in ("error", "hex"):
        told: list[str] = []
        tables = TypesOfTables(ReadOptions.parse({"invalid": invalid}), Target.TEXT, told.append)
        tables.types(table("a"))
        kind = tables.types(table("b")).columns[column]
        buffers = make_sink(kind.plan).decode(stored, 1)
        if invalid == "error":
            with pytest.raises(MalformedError, match=r"column shop\.b\."):
                kind.finish(buffers)
        else:
            kind.finish(buffers)
            assert told[-1].startswith("shop.b.")


def test_columns_that_cannot_be_decoded_name_their_table() -> None:
    old = (ColumnDefinition(0, "price", ct.MYSQL_TYPE_DECIMAL),)
    tables = TypesOfTables(ReadOptions(), Target.TEXT, lambda _: None)
    for name in ("a", "b"):
        assert f"shop.{name}.price" in tables.types(table(name, old)).plan.columns[0].why


def test_columns_of_an_unknown_collation_name_their_table() -> None:
    unknown = (ColumnDefinition(0, "note", ct.MYSQL_TYPE_VARCHAR, 40, collation_id=65_000),)
    told: list[str] = []
    tables = TypesOfTables(ReadOptions(), Target.TEXT, told.append)
    for name in ("a", "b"):
        tables.types(table(name, unknown))
        assert told[-2].startswith(f"shop.{name}.note: collation")


def test_a_column_that_is_left_out_of_one_table_is_in_others() -> None:
    options = ReadOptions.parse({"exclude_column": "shop.a.note"})
    tables = TypesOfTables(options, Target.TEXT, lambda _: None)
    assert tables.types(table("a")).names == ["id", "packed"]
    assert tables.types(table("b")).names == ["id", "note", "packed"]


def test_cached_table_types_are_limited() -> None:
    known: ByColumns[str] = ByColumns()
    wide = [table("t", tuple([COLUMNS[0]] * 4000)) for _ in range(9)]
    for number, definition in enumerate(wide):
        known.keep(definition, str(number))
    kept = [definition for definition in wide if known.get(definition) is not None]
    assert 0 < len(kept) <= 4
    assert known.get(wide[-1]) == "8"
    assert known.get(table("t", wide[-1].columns, NameSource.DDL)) is None
