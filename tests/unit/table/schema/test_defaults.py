"""The defaults of columns, for inserts that do not name them. (tests/mirror/reading/test_minimal_images.py asks real servers.)"""

from __future__ import annotations

from typing import Any

import pytest

from binlake.format.flags import MODE_ANSI_QUOTES, MODE_EMPTY_STRING_IS_NULL
from binlake.table.schema.create_table import parse_create_table
from binlake.table.schema.ddl_effects import altered_table
from binlake.table.schema.declared import DeclaredTable
from binlake.table.schema.defaults import Constant, Unknown, shown_default
from binlake.table.schema.schema_file import parse_schema
from binlake.table.schema.schema_text import create_table_text, text_with_default
from unit.table.schema.test_ddl import catalogue, ddl

IMPLIED = Constant("", "implied")
MADE = "CREATE TABLE shop.t (id INT NOT NULL, a INT DEFAULT 1, b VARCHAR(9) DEFAULT 'x', c INT, PRIMARY KEY (id)) CHARSET=utf8mb4"


def declared(definition: str) -> DeclaredTable:
    table = parse_create_table(f"CREATE TABLE t (c {definition}) CHARSET=utf8mb4", "shop", {}, 0)
    assert table is not None
    return table


def default(definition: str) -> Any:
    """The default of a column; the reason if it is not known."""
    [found] = declared(definition).defaults
    return found.why if isinstance(found, Unknown) else found


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("INT", None),
        ("INT DEFAULT NULL", None),
        ("TEXT", None),
        ("INT NOT NULL", IMPLIED),
        ("INT NOT NULL DEFAULT '7'", Constant("7", "string")),
        ("INT DEFAULT - 7", Constant("-7", "number")),
        ("BOOL DEFAULT TRUE", Constant("1", "number")),
        ("BIT(3) DEFAULT b'101'", Constant("101", "bits")),
        ("VARBINARY(3) DEFAULT 0x00FF", Constant("00FF", "hex")),
        ("VARCHAR(9) CHARACTER SET latin1 NOT NULL DEFAULT 'it''s' COMMENT 'DEFAULT 8'", Constant("it's", "string")),
        ("VARCHAR(9) DEFAULT 'a\nb'", Constant("a\nb", "string")),
        ("INT DEFAULT 7 /*!80023 INVISIBLE */", Constant("7", "number")),
        ("VARCHAR(9) COMPRESSED NOT NULL DEFAULT 'a'", Constant("a", "string")),
        ("VARCHAR(9) /*M!100301 COMPRESSED*/ DEFAULT 'a'", Constant("a", "string")),
        ("VARCHAR(9) COMPRESSED=zlib DEFAULT 'a'", Constant("a", "string")),
        ("INT DEFAULT 7 CONSTRAINT CHECK (c > 0) NOT ENFORCED", Constant("7", "number")),
        ("INT CONSTRAINT `check` CHECK (c > 0) ENFORCED DEFAULT 7 FIRST", Constant("7", "number")),
        ("INT WITHOUT SYSTEM VERSIONING DEFAULT 7", Constant("7", "number")),
        ("INT DEFAULT 7 REFERENCES p", Constant("7", "number")),
        ("INT DEFAULT 7 REFERENCES d.p (id) MATCH FULL ON DELETE SET DEFAULT ON UPDATE NO ACTION", Constant("7", "number")),
        ("INT ENGINE_ATTRIBUTE = '{}' DEFAULT 7 SECONDARY_ENGINE_ATTRIBUTE='{}' FLAG=3", Constant("7", "number")),
        ("INT DEFAULT 7 CONSTRAINT REFERENCES p (id)", Constant("7", "number")),
        ("INT COLUMN_FORMAT DEFAULT", None),
        ("TIMESTAMP COLUMN_FORMAT DEFAULT", "depends on a setting"),
        ("TIMESTAMP REFERENCES p (t) ON DELETE SET DEFAULT", "depends on a setting"),
        ("TIMESTAMP FLAG=DEFAULT", "depends on a setting"),
        ("TIMESTAMP NOT NULL COLUMN_FORMAT DEFAULT", "time zone"),
        ("INT DEFAULT 7 SOMETHING", "SOMETHING is not understood"),
        ("TIMESTAMP NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP", None),
        ("DATETIME(3) DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP(3) COMMENT 'x'", None),
        ("DATETIME NOT NULL ON UPDATE current_timestamp()", IMPLIED),
        ("TIMESTAMP NULL", None),
        ("TIMESTAMP", "depends on a setting"),
        ("TIMESTAMP NOT NULL", "time zone"),
        ("TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00'", "time zone"),
        ("DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", "DEFAULT CURRENT_TIMESTAMP is not a constant"),
        ("DATETIME DEFAULT '2020-01-01' ON", "ON is not understood"),
        ("INT DEFAULT (7)", "DEFAULT ( is not a constant"),
        ("INT DEFAULT", "is not a constant"),
        ("INT DEFAULT (unknown", "is not closed"),
        ("INT NOT NULL AUTO_INCREMENT", "the server computes them"),
        ("INT GENERATED ALWAYS AS (1) STORED", "the server computes them"),
        ("SERIAL", "the server computes them"),
        (r"VARCHAR(9) DEFAULT 'a\\b'", "is not a constant"),
        ("VARCHAR(9) DEFAULT _utf8mb4'a'", "is not a constant"),
        ("VARCHAR(9) DEFAULT 'a' 'b'", "b is not understood"),
    ],
)  # fmt: skip
def test_defaults_of_definitions(definition: str, expected: Any) -> None:
    if definition.endswith("(unknown"):
        with pytest.raises(ValueError, match=expected):
            default(definition)
        return
    found = default(definition)
    assert found == expected or (isinstance(found, str) and expected in found)
    text = create_table_text(declared(definition), text_with_default)
    [again] = parse_schema(text.encode()).tables
    assert again.defaults == declared(definition).defaults
    assert create_table_text(again, text_with_default) == text


def test_a_default_is_no_part_of_the_text_of_a_version() -> None:
    assert "DEFAULT 7" not in create_table_text(declared("INT DEFAULT 7"))


@pytest.mark.parametrize(
    ("definition", "exact"),
    [
        ("FLOAT DEFAULT '0'", True),
        ("FLOAT DEFAULT 0.5", False),
        ("DOUBLE DEFAULT '0.1'", True),
        ("VARCHAR(9) DEFAULT 'a?'", False),
        ("VARCHAR(9) DEFAULT 'a\ufffd'", False),
        ("VARCHAR(9) CHARACTER SET latin1 DEFAULT 'a?'", True),
        ("ENUM('a?') DEFAULT 'a?'", False),
        ("VARCHAR(9) DEFAULT 'é'", True),
        ("VARCHAR(9) NOT NULL", True),
    ],
)
def test_defaults_that_servers_do_not_print_exactly(definition: str, exact: bool) -> None:
    [column] = declared(definition).columns
    shown = shown_default(column.default, column.sql, column.charset)
    assert shown == column.default if exact else isinstance(shown, Unknown)


def after(items: str, **facts: Any) -> dict[str, Any]:
    """The defaults after an ALTER TABLE by name; the reason for those that are not known."""
    old = parse_schema(MADE.encode()).tables[0]
    new = altered_table(ddl(f"ALTER TABLE t {items}", **facts), ("shop", "t"), old)
    defaults = zip(new.columns, new.defaults, strict=True)
    return {c.name: d.why if isinstance(d, Unknown) else d for c, d in defaults}


BEFORE = {"id": IMPLIED, "a": Constant("1", "number"), "b": Constant("x", "string"), "c": None}
FIVE = Constant("5", "number")
ANOTHER_WAY = "the same statement changes the column in another way"


@pytest.mark.parametrize(
    ("items", "changed"),
    [
        ("ADD INDEX (a)", {}),
        ("ALTER INDEX a INVISIBLE", {}),
        ("ALTER CHECK a NOT ENFORCED, ALTER CONSTRAINT a ENFORCED", {}),
        ("ALTER a SET DEFAULT 5", {"a": FIVE}),
        ("ALTER COLUMN `A` SET DEFAULT NULL", {"a": None}),
        ("ALTER COLUMN IF EXISTS z SET DEFAULT 5", {}),
        ("ALTER a SET DEFAULT (5 + 1)", {"a": "DEFAULT ( is not a constant that binlake knows"}),
        ("ALTER a SET INVISIBLE, ALTER b SET VISIBLE", {}),
        ("ALTER a SET SOMETHING", {"a": "ALTER COLUMN … is not understood"}),
        ("ALTER a DROP DEFAULT", {"a": None}),
        ("ALTER id DROP DEFAULT", {}),
        ("MODIFY a INT NOT NULL", {"a": IMPLIED}),
        ("MODIFY a BIGINT DEFAULT 5 FIRST", {"a": FIVE}),
        ("CHANGE a a2 INT DEFAULT 5, ALTER c SET DEFAULT 5", {"a": ..., "a2": FIVE, "c": FIVE}),
        ("RENAME COLUMN a TO a2", {"a": ..., "a2": BEFORE["a"]}),
        ("RENAME COLUMN a TO c, RENAME COLUMN c TO a", {"a": None, "c": BEFORE["a"]}),
        ("ADD d INT DEFAULT 5, DROP a", {"a": ..., "d": FIVE}),
        ("CONVERT TO CHARACTER SET latin1", {}),
        ("RENAME COLUMN a TO a2, ALTER a SET DEFAULT 5", {"a": ..., "a2": ANOTHER_WAY}),
        ("CHANGE a a2 INT, ALTER a2 SET DEFAULT 5", {"a": ..., "a2": ANOTHER_WAY}),
        ("MODIFY a INT, ALTER a SET DEFAULT 5", {"a": ANOTHER_WAY}),
        ("ADD d INT, ALTER d SET DEFAULT 5", {"d": ANOTHER_WAY}),
        ("DROP a, ADD a INT, ALTER a SET DEFAULT 5", {"a": ANOTHER_WAY}),
    ],
)  # fmt: skip
def test_defaults_after_statements(items: str, changed: dict[str, Any]) -> None:
    expected = {name: kept for name, kept in {**BEFORE, **changed}.items() if kept is not ...}
    assert after(items) == expected


@pytest.mark.parametrize(
    ("items", "name", "why", "facts"),
    [
        ('ALTER b SET DEFAULT "y"', "b", "ANSI_QUOTES", {"sql_mode": MODE_ANSI_QUOTES}),
        ("ALTER b SET DEFAULT ''", "b", "EMPTY_STRING_IS_NULL", {"sql_mode": MODE_EMPTY_STRING_IS_NULL}),
        ("MODIFY b VARCHAR(9) DEFAULT 'é'", "b", "character set binary", {"connection_charset": "binary"}),
        ("ADD v VARBINARY(9) DEFAULT 'a'", "v", "character set ucs2", {"connection_charset": "ucs2"}),
    ],
)  # fmt: skip
def test_defaults_that_depend_on_the_session(
    items: str, name: str, why: str, facts: dict[str, Any]
) -> None:
    assert why in after(items, **facts)[name]
    assert isinstance(after(items)[name], Constant)


def test_other_defaults_make_no_new_version_of_a_table() -> None:
    made = catalogue("CREATE TABLE t (a INT)")
    made.changed.clear()
    again = catalogue("CREATE TABLE t (a INT)", "ALTER TABLE t ALTER a SET DEFAULT 5")
    assert again.known(("shop", "t")) == made.known(("shop", "t"))
