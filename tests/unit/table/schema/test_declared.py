"""The facts that a declaration adds to a table of the log, and when it is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from binlake.format import column_types as ct
from binlake.format.flags import TM_GENERATED_INVISIBLE_PK_F
from binlake.table.schema.declared import DeclaredSchema
from binlake.table.schema.schema_file import parse_schema
from binlake.values.plan import ColumnDefinition, NameSource, TableDefinition

LATIN1, UTF8MB4, BINARY = 8, 45, 63


def _table(
    *columns: ColumnDefinition, flags: int = 0, source: str = NameSource.NONE
) -> TableDefinition:
    return TableDefinition("shop", "t", columns, flags, name_source=source)


def _bare(ordinal: int, code: int, **known: object) -> ColumnDefinition:
    return ColumnDefinition(ordinal, f"col_{ordinal}", code, **known)  # type: ignore[arg-type]


def _schema(sql: str) -> DeclaredSchema:
    return parse_schema(sql.encode())


def test_everything_that_the_log_lacks_is_filled_in() -> None:
    table = _table(
        _bare(0, ct.MYSQL_TYPE_LONGLONG),
        _bare(1, ct.MYSQL_TYPE_ENUM, length=1),
        _bare(2, ct.MYSQL_TYPE_VARCHAR, length=80),
        _bare(3, ct.MYSQL_TYPE_STRING, length=16, collation_id=BINARY),
    )
    completed, problem = _schema(
        "CREATE TABLE t (id bigint unsigned, state enum('new','paid'), note varchar(20), u uuid,"
        " PRIMARY KEY (note(3), id)) DEFAULT CHARSET=utf8mb4"
    ).complete(table)
    assert problem is None
    assert [c.name for c in completed.columns] == ["id", "state", "note", "u"]
    identity, state, note, uuid = completed.columns
    assert identity.unsigned is True
    assert state.members == ("new", "paid")
    assert note.collation_id is not None
    assert uuid.declared == "uuid"
    assert completed.primary_key == (2, 0)
    assert completed.name_source == NameSource.SCHEMA


def test_a_key_with_an_unknown_column_is_not_known() -> None:
    table = _table(_bare(0, ct.MYSQL_TYPE_LONG), _bare(1, ct.MYSQL_TYPE_LONG))
    completed, problem = _schema("CREATE TABLE t (id int, v int, PRIMARY KEY (id, w))").complete(
        table
    )
    assert problem is None
    assert completed.primary_key == ()


def test_the_log_wins_over_a_declaration() -> None:
    logged = ColumnDefinition(0, "id", ct.MYSQL_TYPE_LONG, unsigned=False)
    text = ColumnDefinition(1, "v", ct.MYSQL_TYPE_VARCHAR, length=80, collation_id=UTF8MB4)
    table = _table(logged, text, source=NameSource.METADATA)
    sql = "CREATE TABLE t (v varchar(20) charset latin1, extra int, id int)"
    completed, problem = _schema(sql).complete(table)
    known = (replace(column, bounds_version=None) for column in completed.columns)
    assert tuple(known) == table.columns
    assert completed.name_source == NameSource.METADATA
    assert problem is not None
    assert "the declaration has character set latin1, the log has utf8mb4" in problem


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("a int", "it has 1 columns, but the log has 2"),
        ("a int, b int", "column b is declared as int, but is decimal(10,2) in the log"),
        (
            "a int, b decimal(10,3)",
            "column b is declared as decimal(10,3), but is decimal(10,2) in the log",
        ),
        ("a bigint, b decimal(10,2)", "column a is declared as bigint, but is int in the log"),
        (
            "a int unsigned, b decimal(10,2)",
            "column a is declared as int unsigned, but is int in the log",
        ),
    ],
)
def test_a_declaration_that_does_not_fit_is_not_used(sql: str, why: str) -> None:
    table = _table(
        _bare(0, ct.MYSQL_TYPE_LONG, unsigned=False),
        _bare(1, ct.MYSQL_TYPE_NEWDECIMAL, precision=10, decimals=2),
    )
    completed, problem = _schema(f"CREATE TABLE shop.t ({sql})").complete(table)
    assert completed is table
    assert problem is not None
    assert why in problem
    assert "shop.t" in problem


def test_the_newest_declaration_that_fits_is_taken() -> None:
    schema = _schema(
        "CREATE TABLE t (a int); CREATE TABLE t (b int); CREATE TABLE t (c int, d int);"
        " CREATE TABLE other.t (x int)"
    )
    completed, problem = schema.complete(_table(_bare(0, ct.MYSQL_TYPE_LONG)))
    assert (completed.columns[0].name, problem) == ("b", None)
    assert _schema("CREATE TABLE other.t (x int)").complete(completed) == (completed, None)


def test_columns_that_show_create_table_hides() -> None:
    integer, stamp = ct.MYSQL_TYPE_LONG, ct.MYSQL_TYPE_TIMESTAMP2
    versioned = _table(_bare(0, integer), _bare(1, stamp, decimals=6), _bare(2, stamp, decimals=6))
    completed, problem = _schema("CREATE TABLE t (a int) WITH SYSTEM VERSIONING").complete(
        versioned
    )
    assert ([c.name for c in completed.columns], problem) == (["a", "row_start", "row_end"], None)
    assert [c.bounds_version for c in completed.columns] == [False, True, True]
    declared = "CREATE TABLE t (a int, f timestamp(6) AS ROW START, u timestamp(6) as /* so */ row end) WITH SYSTEM VERSIONING"
    completed, problem = _schema(declared).complete(versioned)
    assert ([c.name for c in completed.columns], problem) == (["a", "f", "u"], None)
    assert [c.bounds_version for c in completed.columns] == [False, True, True]
    keyed = _table(
        _bare(0, ct.MYSQL_TYPE_LONGLONG), _bare(1, integer), flags=TM_GENERATED_INVISIBLE_PK_F
    )
    completed, _ = _schema("CREATE TABLE t (a int)").complete(keyed)
    assert [c.name for c in completed.columns] == ["my_row_id", "a"]
    assert completed.columns[0].unsigned is True
    hashed = _table(_bare(0, ct.MYSQL_TYPE_BLOB, length=2), _bare(1, ct.MYSQL_TYPE_LONGLONG))
    completed, _ = _schema("CREATE TABLE t (a text UNIQUE)").complete(hashed)
    assert [c.name for c in completed.columns] == ["a", "DB_ROW_HASH_1"]


def test_hidden_columns_that_the_log_names() -> None:
    """They are no reason to say that a declaration does not fit."""
    named = replace(
        _table(
            replace(_bare(0, ct.MYSQL_TYPE_LONG), name="a"),
            replace(_bare(1, ct.MYSQL_TYPE_BLOB, length=2), name="b"),
            replace(_bare(2, ct.MYSQL_TYPE_LONGLONG), name="DB_ROW_HASH_1"),
        ),
        name_source=NameSource.METADATA,
    )
    completed, problem = _schema("CREATE TABLE t (a int unsigned, b text UNIQUE)").complete(named)
    assert problem is None
    assert [c.unsigned for c in completed.columns] == [True, None, True]
    _, problem = _schema("CREATE TABLE t (a int, x text UNIQUE)").complete(named)
    assert problem is not None
    assert "it has no column b" in problem


def test_old_temporal_types_take_their_digits_from_the_declaration() -> None:
    table = _table(_bare(0, ct.MYSQL_TYPE_DATETIME), _bare(1, ct.MYSQL_TYPE_TIME))
    completed, _ = _schema("CREATE TABLE t (a datetime(3), b time)").complete(table)
    assert [c.decimals for c in completed.columns] == [3, 0]


def test_a_schema_travels_to_other_processes() -> None:
    schema = pickle.loads(pickle.dumps(_schema("CREATE TABLE t (a int)")))
    completed, _ = schema.complete(_table(_bare(0, ct.MYSQL_TYPE_LONG)))
    assert completed.columns[0].name == "a"
