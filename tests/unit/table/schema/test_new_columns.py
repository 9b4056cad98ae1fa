"""The values of new columns in existing rows. (tests/mirror/test_schema_changes.py asks real servers.)"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from binlake.errors import UnsupportedError
from binlake.format.flags import (
    MODE_ANSI_QUOTES,
    MODE_EMPTY_STRING_IS_NULL,
    MODE_NO_BACKSLASH_ESCAPES,
    MODE_REAL_AS_FLOAT,
)
from binlake.snapshot.definition import definition_of
from binlake.table.plan import TableTypes
from binlake.table.resolve import silent
from binlake.table.schema.ddl_effects import altered_table, retaken_names
from binlake.table.schema.ddl_tokens import items_of
from binlake.table.schema.new_columns import constant_of, value_of
from binlake.table.schema.schema_file import parse_schema
from binlake.table.types.base import Target
from binlake.values.options import ReadOptions
from unit.table.schema.test_ddl import ddl

MADE = "CREATE TABLE shop.t (id INT PRIMARY KEY, a INT, b INT) CHARSET=latin1"
OPTIONS = ReadOptions.parse({"time": "text"})


def value(
    added: str,
    options: ReadOptions = OPTIONS,
    target: Target = Target.TYPED,
    name: str = "c",
    sql_mode: int = 0,
    connection_charset: str | None = None,
) -> Any:
    """The value of the column `c` in the existing rows after ALTER TABLE t `added`."""
    alter = f"ALTER TABLE t {added}"
    statement = ddl(alter, sql_mode=sql_mode, connection_charset=connection_charset)
    old = parse_schema(MADE.encode()).tables[0]
    new = altered_table(statement, ("shop", "t"), old)
    [column] = [one for one in new.columns if one.name == name]
    constant = constant_of(statement, column)
    if constant is None:
        return None
    types = TableTypes.of(definition_of(new, "mysql"), options, target, silent)
    [kind] = [one for one in types.columns if one.column.name == name]
    found = value_of(kind, column, constant)
    assert pa.array([found], kind.arrow_type).to_pylist() == [found]
    return found


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("INT", None),
        ("INT NULL DEFAULT NULL", None),
        ("TIMESTAMP NULL", None),
        ("TIMESTAMP NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP", "ON is not understood"),
        ("INT DEFAULT 7", 7),
        ("INT DEFAULT - 7 NOT NULL", -7),
        ("INT DEFAULT +7", 7),
        ("TINYINT DEFAULT TRUE", 1),
        ("TINYINT DEFAULT 128", "binlake converts to tinyint"),
        ("TINYINT UNSIGNED DEFAULT 255", 255),
        ("INT DEFAULT '07' COMMENT 'DEFAULT 8'", 7),
        ("INT DEFAULT 1.5", "binlake converts to int"),
        ("INT DEFAULT x'41'", "binlake converts to int"),
        ("INT DEFAULT 0x41", "binlake converts to int"),
        ("INT DEFAULT 7 + 1", "+ is not understood"),
        ("INT DEFAULT (7)", "DEFAULT ( is not a constant"),
        ("INT DEFAULT 7 AUTO_INCREMENT UNIQUE", "the server computes them"),
        ("INT AS (a + 1)", "the server computes them"),
        ("INT NOT NULL PRIMARY KEY", "the server computes them"),
        ("INT NOT NULL UNIQUE KEY CHECK (c < 7) COLLATE utf8mb4_bin", 0),
        ("BIGINT UNSIGNED DEFAULT 18446744073709551615", Decimal(18446744073709551615)),
        ("BIGINT UNSIGNED DEFAULT 18446744073709551616", "binlake converts to bigint"),
        ("BIT(3) DEFAULT b'101'", 5),
        ("BIT(3) DEFAULT 0b1000", "binlake converts to bit"),
        ("BIT(8) DEFAULT '1'", "binlake converts to bit"),
        ("YEAR DEFAULT 0", 0),
        ("YEAR DEFAULT '0'", "binlake converts to year"),
        ("YEAR DEFAULT 99", "binlake converts to year"),
        ("YEAR DEFAULT '2155'", 2155),
        ("DECIMAL(5,2) DEFAULT -1.5", Decimal("-1.50")),
        ("DECIMAL(5,2) DEFAULT 1.500", Decimal("1.50")),
        ("DECIMAL(5,2) DEFAULT 1.505", "binlake converts to decimal"),
        ("DECIMAL(5,2) DEFAULT 1000", "binlake converts to decimal"),
        ("DECIMAL(5,2) DEFAULT 1e1", "binlake converts to decimal"),
        ("DECIMAL(65,2) NOT NULL", "0.00"),
        ("DOUBLE DEFAULT 1e-3", 0.001),
        ("DOUBLE DEFAULT 1e999", "binlake converts to double"),
        ("DOUBLE DEFAULT -0.0", "binlake converts to double"),
        ("DOUBLE(5,2) DEFAULT 1.5", "binlake converts to double"),
        ("FLOAT DEFAULT 0.1", 0.10000000149011612),
        ("FLOAT DEFAULT 1e39", "binlake converts to float"),
        ("VARCHAR(3) DEFAULT 'é''s'", "é's"),
        ("VARCHAR(3) DEFAULT 'four'", "binlake converts to varchar"),
        ("VARCHAR(3) DEFAULT 'Я'", "binlake converts to varchar"),
        ("VARCHAR(3) CHARSET utf8mb3 DEFAULT '😀'", "binlake converts to varchar"),
        ("VARCHAR(3) DEFAULT 'a ' AFTER b", "a "),
        ("CHAR(3) DEFAULT 'a '", "binlake converts to char"),
        ("CHAR DEFAULT 'a'", "a"),
        (r"VARCHAR(3) DEFAULT '\\'", "is not a constant"),
        ("VARCHAR(3) DEFAULT 'a' 'b'", "b is not understood"),
        ("VARCHAR(3) DEFAULT _latin1'a'", "DEFAULT _latin1 is not a constant"),
        ("VARCHAR(3) DEFAULT N'a'", "DEFAULT N'a' is not a constant"),
        ("VARCHAR(3) DEFAULT 5", "binlake converts to varchar"),
        ("TEXT NOT NULL", ""),
        ("VARBINARY(3) DEFAULT x'00FF'", b"\x00\xff"),
        ("VARBINARY(3) DEFAULT 0x123", "is not a constant"),
        ("VARBINARY(3) DEFAULT 'é'", "binlake converts to varbinary"),
        ("BINARY(3) DEFAULT 'a'", b"a\0\0"),
        ("ENUM('a','b') DEFAULT 'b'", "b"),
        ("ENUM('a','b') DEFAULT 'B'", "binlake converts to enum"),
        ("ENUM('a ','b') NOT NULL", "a"),
        ("ENUM('a ','b') DEFAULT 'a '", "binlake converts to enum"),
        ("SET('x ','y') DEFAULT 'x'", "x"),
        ("INT DEFAULT ٥", "is not a constant"),
        (f"DOUBLE DEFAULT {'1' * 66}", "binlake converts to double"),
        ("ENUM('a','b') NOT NULL", "a"),
        ("SET('a','b') DEFAULT 'a,b'", "a,b"),
        ("SET('a','b') DEFAULT 'b,a'", "binlake converts to set"),
        ("SET('a','b') NOT NULL", ""),
        ("TIME DEFAULT '-101:02:03'", "-101:02:03"),
        ("TIME(3) DEFAULT '01:02:03.5'", "01:02:03.500"),
        ("TIME DEFAULT '01:02:03.5'", "binlake converts to time"),
        ("TIME DEFAULT '1:2:3'", "binlake converts to time"),
        ("TIME DEFAULT '839:00:00'", "binlake converts to time"),
        ("TIME DEFAULT 10203", "binlake converts to time"),
        ("DATE DEFAULT '2020-02-29'", date(2020, 2, 29)),
        ("DATE DEFAULT '2020-02-30'", "binlake converts to date"),
        ("DATE DEFAULT '2020-2-3'", "binlake converts to date"),
        ("DATE DEFAULT 20200203", "binlake converts to date"),
        ("DATE DEFAULT '2020-02-03 00:00:00'", "binlake converts to date"),
        ("DATE NOT NULL", None),
        ("DATE DEFAULT '2020-00-01'", None),
        ("DATETIME DEFAULT '2020-02-29 23:59:58'", datetime(2020, 2, 29, 23, 59, 58)),
        ("DATETIME(3) DEFAULT '2020-02-29 23:59:58.5'", datetime(2020, 2, 29, 23, 59, 58, 500_000)),
        ("DATETIME(3) DEFAULT '2020-02-29 23:59:58.0005'", "binlake converts to datetime"),
        ("DATETIME DEFAULT '2020-02-29'", "binlake converts to datetime"),
        ("DATETIME DEFAULT '2020-02-29 24:00:00'", "binlake converts to datetime"),
        ("DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00'", None),
        ("TIMESTAMP", "a setting of the server"),
        ("TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00'", "time zone of the session"),
        ("DATETIME DEFAULT CURRENT_TIMESTAMP", "DEFAULT CURRENT_TIMESTAMP is not a constant"),
        ("JSON NOT NULL", "binlake converts to json"),
        ("GEOMETRY NOT NULL", "binlake converts to geometry"),
    ],
)  # fmt: skip
def test_values(definition: str, expected: Any) -> None:
    refused = isinstance(expected, str) and " " in expected.strip()
    if not refused:
        found = value(f"ADD COLUMN c {definition}")
        assert (found, type(found)) == (expected, type(expected))
        return
    with pytest.raises(UnsupportedError, match="column c is added with values in the existing rows") as raised:  # fmt: skip
        value(f"ADD c {definition}")
    assert expected in str(raised.value)


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ("ADD INDEX (c), ADD c INT NOT NULL DEFAULT 7", 7),
        ("CHANGE a d INT DEFAULT 5, ADD d2 INT DEFAULT 6, ADD c INT DEFAULT 7 AFTER d", 7),
        ("ADD (d INT DEFAULT 5, c INT DEFAULT 7, KEY c (c))", 7),
        ("ADD COLUMN IF NOT EXISTS `C` INT DEFAULT 7, RENAME COLUMN C TO c", None),
    ],
)
def test_statements_that_change_more(added: str, expected: Any) -> None:
    if expected is not None:
        assert value(added) == expected
        return
    with pytest.raises(UnsupportedError):
        value(added)


def test_a_name_that_another_column_had() -> None:
    assert value("CHANGE a e INT, ADD a INT DEFAULT 5", name="a") == 5


def test_a_default_that_the_statement_changes_again() -> None:
    with pytest.raises(UnsupportedError, match="changed in the same statement"):
        value("ADD c INT DEFAULT 7, ALTER COLUMN c SET DEFAULT 8")


def test_zero_dates() -> None:
    definition = "ADD c DATETIME(2) DEFAULT '0000-00-00 00:00:00.0'"
    assert value(definition, ReadOptions.parse({"zero_date": "text"})) == "0000-00-00 00:00:00.00"
    assert value("ADD c DATE DEFAULT '2020-02-29'", target=Target.TEXT) == "2020-02-29"
    with pytest.raises(UnsupportedError, match="binlake converts to datetime"):
        value(definition, ReadOptions.parse({"zero_date": "error"}))


def test_other_forms_of_columns() -> None:
    micros = ReadOptions.parse({"time": "micros"})
    assert value("ADD c TIME(2) DEFAULT '-00:00:01.5'", micros) == -1_500_000
    assert value("ADD c ENUM('','b') DEFAULT 'b'", target=Target.TEXT) == 2
    assert value("ADD c DECIMAL(5,2) DEFAULT 7", target=Target.TEXT) == "7.00"
    with pytest.raises(UnsupportedError):
        value("ADD c TIME DEFAULT '01:00:00'", ReadOptions())


@pytest.mark.parametrize(
    ("definition", "sql_mode", "why"),
    [
        ('VARCHAR(9) DEFAULT "a"', MODE_ANSI_QUOTES, "with ANSI_QUOTES"),
        ("VARCHAR(9) DEFAULT ''", MODE_EMPTY_STRING_IS_NULL, "with EMPTY_STRING_IS_NULL"),
        ("REAL DEFAULT 0.1", MODE_REAL_AS_FLOAT, "with REAL_AS_FLOAT"),
    ],
)
def test_constants_that_mean_something_else_under_a_sql_mode(
    definition: str, sql_mode: int, why: str
) -> None:
    assert value(f"ADD c {definition}") in ("a", "", 0.1)
    with pytest.raises(UnsupportedError, match=why):
        value(f"ADD c {definition}", sql_mode=sql_mode)


def test_a_backslash_without_escapes() -> None:
    added = r"ADD c INT DEFAULT 3 COMMENT 'C:\'"
    assert value(added, sql_mode=MODE_NO_BACKSLASH_ESCAPES) == 3
    with pytest.raises(UnsupportedError, match="the statement cannot be read"):
        items_of(ddl(f"ALTER TABLE t {added}"))


@pytest.mark.parametrize(
    "items",
    [
        "DROP b, ADD b INT DEFAULT 5",
        "DROP COLUMN IF EXISTS B, ADD COLUMN b INT",
        "DROP b, CHANGE a b INT",
        "DROP b, RENAME COLUMN a TO b",
    ],
)
def test_a_name_that_one_column_leaves_to_another(items: str) -> None:
    old = parse_schema(MADE.encode()).tables[0]
    statement = ddl(f"ALTER TABLE t {items}")
    new = altered_table(statement, ("shop", "t"), old)
    assert retaken_names(statement, old, new) == ["b"]
    for others in ("DROP b", "DROP b, ADD c INT", "DROP INDEX b, ADD c INT", "CHANGE a c INT"):
        statement = ddl(f"ALTER TABLE t {others}")
        assert retaken_names(statement, old, altered_table(statement, ("shop", "t"), old)) == []


@pytest.mark.parametrize(
    ("charset", "definition", "expected"),
    [
        ("latin1", "TEXT CHARSET utf8mb4 DEFAULT 'é☃[x'", "é?[x"),
        ("swe7", "TEXT CHARSET utf8mb4 DEFAULT 'é☃[x'", "é??x"),
        ("utf8mb3", "TEXT CHARSET utf8mb4 DEFAULT '😀☃'", "?☃"),
        ("utf8mb4", "TEXT CHARSET utf8mb4 DEFAULT '😀☃'", "😀☃"),
        (None, "TEXT CHARSET utf8mb4 DEFAULT '😀☃'", "😀☃"),
        ("latin1", "ENUM('a','Я') CHARSET utf8mb4 DEFAULT 'Я'", "?"),
        ("latin1", "TEXT CHARSET utf8mb4 DEFAULT _utf8mb4'☃'", "is not a constant"),
        ("latin1", "TEXT CHARSET utf8mb4 DEFAULT N'☃'", "is not a constant"),
        ("swe7", "TEXT CHARSET utf8mb4 DEFAULT 'a\\\\b'", "is not a constant"),
        ("binary", "TEXT CHARSET utf8mb4 DEFAULT 'é'", "converts a text to character set binary"),
        ("binary", "TEXT CHARSET utf8mb4 DEFAULT 'e'", "e"),
        ("ucs2", "VARBINARY(9) DEFAULT 'ab'", "converts a text to character set ucs2"),
        ("ucs2", "VARCHAR(9) CHARSET latin1 DEFAULT 'ab'", "ab"),
        ("ucs2", "INT DEFAULT '7'", 7),
    ],
)
def test_a_text_is_converted_to_the_character_set_of_the_connection(
    charset: str | None, definition: str, expected: Any
) -> None:
    """tests/server/charsets/test_text_charsets.py checks the same on servers."""
    added = f"ADD c {definition}"
    if isinstance(expected, str) and " " in expected:
        with pytest.raises(UnsupportedError, match=expected):
            value(added, connection_charset=charset)
    else:
        assert value(added, connection_charset=charset) == expected
