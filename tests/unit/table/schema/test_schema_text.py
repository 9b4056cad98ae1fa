"""Versions of tables as text, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.create_table import parse_create_table
from binlake.table.schema.declared import (
    DeclaredColumn,
    DeclaredSchema,
    DeclaredTable,
)
from binlake.table.schema.history import SchemaHistory
from binlake.table.schema.schema_file import parse_schema
from binlake.table.schema.schema_text import VersionTexts, column_text, read_note
from binlake.values.position import ChainPosition, LogPosition

PLACE = LogPosition("binlog.000002", 4711)

TABLES = [
    "CREATE TABLE `sh``op`.t (id INT UNSIGNED, PRIMARY KEY (id))",
    "CREATE TABLE a.t (`a``b` VARCHAR(9), b CHAR(3) CHARACTER SET koi8r, c TEXT) CHARSET=latin1",
    "CREATE TABLE a.t (a VARCHAR(9), b TEXT CHARACTER SET greek)",
    r"CREATE TABLE a.t (a ENUM('x','it''s','a,b)','\\','\n'), b SET('p') CHARACTER SET greek)",
    "CREATE TABLE a.t (a DECIMAL(10,2) UNSIGNED, b DOUBLE PRECISION, c FLOAT(30), d BIT(9), e SERIAL)",
    "CREATE TABLE a.t (a NATIONAL VARCHAR(3), b NCHAR(2), c LONG VARCHAR, d LONG VARBINARY, e LONG)",
    "CREATE TABLE a.t (a BLOB, b BINARY(3), c CHAR(3) BYTE, d TEXT CHARACTER SET binary) CHARSET=ucs2",
    "CREATE TABLE a.t (a JSON, b UUID, c INET6, d VECTOR(3), e POINT, f TIME(3), g TIMESTAMP)",
    "CREATE TABLE a.t (id INT) WITH SYSTEM VERSIONING",
    "CREATE TABLE a.t (id INT, v INT AS (id + 1), s VARCHAR(9) GENERATED ALWAYS AS (concat('a)''\\n', id)) STORED)",
    "CREATE TABLE a.t (a INT NOT NULL, b VARCHAR(9) CHARACTER SET greek NOT NULL, c INT AS (a + 1) STORED NOT NULL)",
    "CREATE TABLE a.t (id INT, a INT GENERATED ALWAYS AS ROW START)",
    (
        "CREATE TABLE a.t (id INT, t TIMESTAMP(6) generated always AS row end, `f,` TIMESTAMP(6) AS ROW START,"
        " PERIOD FOR SYSTEM_TIME (`f,`, t)) WITH SYSTEM VERSIONING"
    ),
    (
        "CREATE TABLE a.t (a INT, b INT, FOREIGN KEY (a) REFERENCES p (id) ON DELETE SET NULL ON UPDATE CASCADE, "
        "CONSTRAINT `k``` FOREIGN KEY (a, b) REFERENCES `o`.p (x, y) MATCH FULL ON DELETE CASCADE)"
    ),
]


def declared(sql: str) -> DeclaredTable:
    table = parse_create_table(sql, None, {}, 0)
    assert table is not None
    return replace(table, since=PLACE)


def ddl(sql: str, offset: int) -> DdlStatement:
    return DdlStatement(ChainPosition(0, "binlog.000002", offset), "a", sql, 1, None, 0)


@pytest.mark.parametrize("sql", TABLES)
def test_a_version_is_read_back_as_it_was(sql: str) -> None:
    table = declared(sql)
    text = VersionTexts().text(table)
    assert text.startswith("-- binlake: from binlog.000002:4711\nCREATE TABLE ")
    (again,) = parse_schema(text.encode()).tables
    assert replace(again, line=0) == replace(
        table, columns=tuple(replace(c, sql=a.sql) for c, a in zip(table.columns, again.columns, strict=True))
    )  # fmt: skip
    assert VersionTexts().text(again) == text


def test_a_version_without_columns() -> None:
    table = DeclaredTable("sh`op", "t", (), since=PLACE, missing="dropped\nby\n  hand")
    text = VersionTexts().text(table)
    assert (
        text == "-- binlake: from binlog.000002:4711: `sh``op`.`t` is not known: dropped by hand\n"
    )
    schema = parse_schema((text + "CREATE TABLE u (id INT);").encode())
    assert schema.tables[0] == replace(table, missing="dropped by hand")
    assert schema.tables[1].since is None
    assert schema.versions == schema.tables[:1]
    assert list(schema.declarations("sh`op", "t")) == []


def test_a_place_holds_for_the_next_table_only() -> None:
    text = (
        "-- binlake: from binlog.000001:4\nCREATE TABLE a.t (id INT);\n"
        "CREATE TABLE a.t (later INT);\n-- binlake: from nothing\n"
    )
    schema = parse_schema(text.encode())
    assert [table.since for table in schema.tables] == [LogPosition("binlog.000001", 4), None]
    assert [t.columns[0].name for t in schema.declarations("a", "t")] == ["later"]


@pytest.mark.parametrize("text", ["-- binlake: from x", "-- from binlog.000001:4", "-- binlake: from a:1: t is not known"])  # fmt: skip
def test_other_comments(text: str) -> None:
    assert read_note(text) is None


def test_a_version_is_written_as_if_it_were_the_first() -> None:
    """Columns that are the same as before are not written again, wherever the others are."""
    statements = [f"ALTER TABLE a.t ADD COLUMN c{n} INT" for n in range(40)]
    statements += [
        "ALTER TABLE a.t RENAME COLUMN c3 TO d3",
        "ALTER TABLE a.t ADD COLUMN e VARCHAR(9) FIRST",
        "ALTER TABLE a.t DROP COLUMN c7, ADD COLUMN f BIGINT AFTER c5",
        "ALTER TABLE a.t MODIFY COLUMN c39 TEXT CHARACTER SET latin1",
        "ALTER TABLE a.t DROP COLUMN c39",
        "CREATE TABLE b.t (a INT, b TEXT) DEFAULT CHARSET=latin1",
        "ALTER TABLE a.t DROP COLUMN e",
        "ALTER TABLE a.t DROP COLUMN c0, DROP COLUMN c1",
        "ALTER TABLE a.t CONVERT TO CHARACTER SET utf8mb4",
        "DROP TABLE a.t",
        "CREATE TABLE a.t (a INT)",
    ]
    history = SchemaHistory(DeclaredSchema(()))
    versions = list(history.apply(ddl("CREATE TABLE a.t (a INT, b TEXT)", 4)))
    for offset, sql in enumerate(statements, 5):
        versions += history.apply(ddl(sql, offset))
    expected = [VersionTexts().text(version) for version in versions]
    written: list[str] = []

    def counted(column: DeclaredColumn) -> str:
        written.append(column.name)
        return column_text(column)

    texts = VersionTexts(counted)
    assert [texts.text(version) for version in versions] == expected
    assert len(written) < 60
    texts = VersionTexts(most_lines=3)
    assert [texts.text(version) for version in versions] == expected
