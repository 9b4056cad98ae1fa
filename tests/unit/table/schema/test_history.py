"""Which version of a table holds where, and what wins over what."""

from __future__ import annotations

import itertools

from binlake.format import column_types as ct
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.declared import DeclaredSchema, lacks_computed, lacks_something
from binlake.table.schema.history import SchemaHistory
from binlake.table.schema.schema_file import parse_schema
from binlake.values.plan import ColumnDefinition, NameSource, TableDefinition
from binlake.values.position import ChainPosition

UTF8MB4 = 45


def position(offset: int, file: str = "binlog.000001") -> ChainPosition:
    return ChainPosition(0, file, offset)


def ddl(sql: str, at: int) -> DdlStatement:
    return DdlStatement(position(at), "shop", sql, 1, None, 0)


def logged(*codes: int, table: str = "t", **more: object) -> TableDefinition:
    columns = tuple(ColumnDefinition(i, f"col_{i}", code) for i, code in enumerate(codes))
    return TableDefinition("shop", table, columns, **more)  # type: ignore[arg-type]


def schema(sql: str) -> DeclaredSchema:
    return parse_schema(sql.encode())


def names(history: SchemaHistory, definition: TableDefinition) -> list[str]:
    return [column.name for column in history.complete(definition)[0].columns]


TWO_INTS = logged(ct.MYSQL_TYPE_LONG, ct.MYSQL_TYPE_LONG)


def test_ddl_supplies_names_missing_in_the_log() -> None:
    history = SchemaHistory(DeclaredSchema())
    history.note(ddl("CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, b INT)", 100))
    done, problems = history.complete(TWO_INTS)
    assert problems == []
    assert [(c.name, c.unsigned) for c in done.columns] == [("id", True), ("b", False)]
    assert done.primary_key == (0,)
    assert (done.name_source, done.name_origin) == (NameSource.DDL, "binlog.000001:100")


def test_answers_change_when_a_statement_is_about_a_table_that_was_asked_for() -> None:
    history = SchemaHistory(DeclaredSchema())
    history.note(ddl("CREATE TABLE t (id INT, b INT)", 100))
    before = history.at(position(200))
    assert names(history, TWO_INTS) == ["id", "b"]
    history.note(ddl("CREATE TABLE other (id INT)", 300))
    assert history.at(position(400)) == before
    history.note(ddl("ALTER TABLE t RENAME COLUMN b TO c", 500))
    assert history.at(position(600)) != before
    assert names(history, TWO_INTS) == ["id", "c"]


def test_table_map_takes_precedence_over_ddl_with_a_warning() -> None:
    history = SchemaHistory(DeclaredSchema())
    history.note(ddl("CREATE TABLE t (id BIGINT, b INT)", 100))
    done, (problem,) = history.complete(TWO_INTS)
    assert done == TWO_INTS
    assert "the definition of binlog.000001:100 does not fit the log" in problem
    assert "column id is declared as bigint, but is int in the log" in problem


def test_ddl_takes_precedence_over_a_schema() -> None:
    history = SchemaHistory(schema("CREATE TABLE shop.t (old INT, v VARCHAR(9)) CHARSET=utf8mb4"))
    table = logged(ct.MYSQL_TYPE_LONG, ct.MYSQL_TYPE_VARCHAR)
    assert names(history, table) == ["old", "v"]
    history.note(ddl("CREATE OR REPLACE TABLE t (id INT, v VARCHAR(9))", 100))
    done, problems = history.complete(table)
    assert ([c.name for c in done.columns], problems) == (["id", "v"], [])
    assert done.columns[1].collation_id is None  # the schema has no column id: it is of another
    history.note(ddl("CREATE OR REPLACE TABLE t (v VARCHAR(9), old INT UNSIGNED)", 200))
    turned = logged(ct.MYSQL_TYPE_VARCHAR, ct.MYSQL_TYPE_LONG)
    done, problems = history.complete(turned)
    assert problems == []
    assert [c.name for c in done.columns] == ["v", "old"]


def test_unparsed_ddl_is_reported_unless_the_schema_has_the_table() -> None:
    statements = [ddl("CREATE TABLE t (id INT, b INT)", 100), ddl("ALTER TABLE t FROB x", 200)]
    history = SchemaHistory(DeclaredSchema())
    for statement in statements:
        history.note(statement)
    done, (problem,) = history.complete(TWO_INTS)
    assert done.name_source == NameSource.NONE
    assert "shop.t: the DDL at binlog.000001:200 is not understood: FROB" in problem
    history = SchemaHistory(schema("CREATE TABLE t (x INT, y INT)"))
    for statement in statements:
        history.note(statement)
    done, problems = history.complete(TWO_INTS)
    assert (done.name_source, problems) == (NameSource.SCHEMA, [])


def test_a_log_with_full_metadata_needs_no_ddl() -> None:
    history = SchemaHistory(DeclaredSchema())
    history.note(ddl("CREATE TABLE t (wrong INT)", 100))
    told = TableDefinition(
        "shop",
        "t",
        (ColumnDefinition(0, "id", ct.MYSQL_TYPE_LONG, unsigned=True),),
        name_source=NameSource.METADATA,
    )
    assert history.complete(told) == (told, [])
    before = history.at(position(200))
    history.note(ddl("DROP TABLE t", 300))
    assert history.at(position(400)) == before  # no second question is needed


VERSIONS = """
CREATE TABLE shop.t (never INT, b INT);
-- binlake: from binlog.000001:500
CREATE TABLE shop.t (one INT, b INT);
-- binlake: from binlog.000002:100
CREATE TABLE shop.t (two INT, b INT);
-- binlake: from binlog.000010:100: `shop`.`t` is not known: dropped
-- binlake: from binlog.000011:100
CREATE TABLE shop.t (three INT, b INT);
"""


def test_versions_of_a_schema_hold_from_their_places_on() -> None:
    history = SchemaHistory(schema(VERSIONS))
    seen = []
    for at in (
        position(499), position(500), position(501), position(4, "binlog.000002"), position(101, "binlog.000002"),
        position(9, "binlog.000009"), position(200, "binlog.000010"), position(101, "binlog.000011"),
        position(9, "binlog.1000000"), position(101, "mysql-bin.000011"),
    ):  # fmt: skip
        generation = history.at(at)
        seen.append((generation, names(history, TWO_INTS)[0]))
    assert [name for _, name in seen] == [
        "never", "never", "one", "one", "two", "two", "never", "three", "three", "never",
    ]  # fmt: skip
    for (old, name), (new, next_name) in itertools.pairwise(seen):
        assert old != new or name == next_name


def test_ddl_of_the_log_continues_from_a_version() -> None:
    history = SchemaHistory(schema(VERSIONS))
    history.note(DdlStatement(position(50, "binlog.000003"), "shop", "ALTER TABLE t DROP b", 1, None, 0))  # fmt: skip
    history.at(position(60, "binlog.000003"))
    assert names(history, logged(ct.MYSQL_TYPE_LONG)) == ["two"]


def test_a_version_of_a_schema_is_named_as_one() -> None:
    history = SchemaHistory(schema(VERSIONS))
    history.at(position(600))
    done, problems = history.complete(TWO_INTS)
    assert (done.name_source, done.name_origin) == (NameSource.SCHEMA, "binlog.000001:500")
    assert problems == []


def test_statements_that_are_not_needed_yet_are_bounded() -> None:
    history = SchemaHistory(DeclaredSchema())
    text = "CREATE TABLE t (id INT, b INT COMMENT '" + "x" * (5 << 20) + "')"
    for number in range(5):
        history.note(ddl(text, number))
    assert sum(len(waiting.sql) for waiting in history._waiting) <= 16 << 20


def test_table_map_in_lower_case() -> None:
    """lower_case_table_names=1: statements are logged as they were typed."""
    history = SchemaHistory(DeclaredSchema())
    history.note(ddl("CREATE TABLE Orders (id INT, b INT)", 100))
    orders = logged(ct.MYSQL_TYPE_LONG, ct.MYSQL_TYPE_LONG, table="orders")
    before = history.at(position(150))
    assert names(history, orders) == ["id", "b"]
    history.note(ddl("ALTER TABLE ORDERS RENAME COLUMN b TO c", 200))
    assert history.at(position(250)) != before
    assert names(history, orders) == ["id", "c"]
    versions = "-- binlake: from binlog.000001:4\nCREATE TABLE Shop.Orders (id INT, b INT);"
    history = SchemaHistory(schema(versions))
    history.at(position(100))
    assert names(history, orders) == ["id", "b"]
    assert names(history, logged(*[ct.MYSQL_TYPE_LONG] * 2, table="order"))[0] == "col_0"


def test_a_definition_supplies_facts_missing_in_full_metadata() -> None:
    versions = "-- binlake: from binlog.000001:500\nCREATE TABLE shop.t (u UUID);"
    history = SchemaHistory(schema(versions))
    column = ColumnDefinition(0, "u", ct.MYSQL_TYPE_STRING, length=16, collation_id=63)
    told = TableDefinition("shop", "t", (column,), name_source=NameSource.METADATA)
    before = history.at(position(400))
    assert history.complete(told)[0].columns[0].declared is None
    assert history.at(position(600)) != before
    done, problems = history.complete(told)
    assert (done.columns[0].declared, done.name_source) == ("uuid", NameSource.METADATA)
    assert problems == []


def test_ddl_before_the_start_applies_without_other_definitions() -> None:
    asked = []

    def before() -> list[DdlStatement]:
        asked.append(1)
        return [
            ddl("CREATE TABLE t (id INT, b INT AS (id + 1))", 100),
            ddl("ALTER TABLE t RENAME COLUMN id TO nr", 200),
        ]

    history = SchemaHistory(schema("CREATE TABLE shop.other (x INT, y INT)"))
    history.begin(before)
    other = logged(ct.MYSQL_TYPE_LONG, ct.MYSQL_TYPE_LONG, table="other")
    assert names(history, other) == ["x", "y"]
    assert asked == []  # the schema tells
    done, _ = history.complete(TWO_INTS)
    assert [(c.name, c.generated) for c in done.columns] == [("nr", False), ("b", True)]
    assert done.name_origin == "binlog.000001:200"
    history.note(ddl("ALTER TABLE t DROP b", 300))
    assert names(history, logged(ct.MYSQL_TYPE_LONG)) == ["nr"]
    assert asked == [1]


def test_computed_columns_are_requested_although_names_are_known() -> None:
    columns = tuple(
        ColumnDefinition(i, name, ct.MYSQL_TYPE_LONG, unsigned=False)
        for i, name in enumerate(("id", "b"))
    )
    table = TableDefinition("shop", "t", columns, name_source=NameSource.METADATA)
    for lacks, computed in ((lacks_something, False), (lacks_computed, True)):
        history = SchemaHistory(DeclaredSchema(), lacks)
        history.begin(lambda: [ddl("CREATE TABLE t (id INT, b INT AS (id + 1))", 100)])
        assert history.complete(table)[0].columns[1].generated == computed


def test_alter_defines_its_columns_without_the_create_table() -> None:
    columns = tuple(
        ColumnDefinition(i, name, ct.MYSQL_TYPE_LONG, unsigned=False)
        for i, name in enumerate(("id", "a", "b", "c"))
    )
    table = TableDefinition("shop", "t", columns, name_source=NameSource.METADATA)
    history = SchemaHistory(DeclaredSchema(), lacks_computed)
    history.note(ddl("ALTER TABLE t ADD COLUMN a INT AS (id + 1) AFTER id, ADD KEY (a)", 100))
    history.note(ddl("ALTER TABLE t ADD (b INT, c INT AS (id) STORED), MODIFY b INT AS (3)", 200))
    assert [c.generated for c in history.complete(table)[0].columns] == [False, True, True, True]
    history.note(ddl("ALTER TABLE t CHANGE COLUMN c c INT", 300))
    assert [c.generated for c in history.complete(table)[0].columns] == [False, True, True, False]
