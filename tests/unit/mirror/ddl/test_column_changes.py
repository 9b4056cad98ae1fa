"""The steps from the columns of a lake table to those that the server's table has after an ALTER."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import UnsupportedError
from binlake.format.flags import (
    MODE_MAXDB,
    MODE_NO_AUTO_VALUE_ON_ZERO,
    MODE_ORACLE,
    MODE_REAL_AS_FLOAT,
)
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.ddl import column_changes
from binlake.mirror.ddl.effects import Effect, effect_of
from binlake.mirror.modes.choice import mode_named
from binlake.mirror.modes.names import MIRROR
from binlake.table.schema.ddl_effects import (
    altered_table,
    alters_no_column,
    changes_no_column,
    why_computed_again,
    why_values_may_change,
)
from binlake.table.schema.ddl_tokens import items_of
from binlake.table.schema.defaults import Constant, Unknown
from binlake.table.schema.schema_file import parse_schema
from binlake.table.schema.schema_text import create_table_text
from binlake.values.options import ReadOptions
from unit.table.schema.test_ddl import ddl

MADE = "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT, Wide VARCHAR(9)) CHARSET=utf8mb4"
LAKE = pa.schema([("id", pa.int32()), ("v", pa.int32()), ("Wide", pa.string())])
RULES = ColumnRules()
OF_TEXT = pa.schema([("id", pa.int32()), ("v", pa.string()), ("Wide", pa.string())])


def changes(
    sql: str,
    schema: pa.Schema = LAKE,
    texts: Sequence[str] = (),
    *,
    made: str = MADE,
    rows: Iterable[pa.Table] = (),
    rules: ColumnRules = RULES,
    sql_mode: int = 0,
) -> column_changes.ColumnChanges:
    statement = ddl(f"ALTER TABLE t {sql}", sql_mode=sql_mode)
    old = parse_schema(made.encode()).tables[0]
    new = altered_table(statement, ("shop", "t"), old)
    lake = SimpleNamespace(
        schema=schema,
        format="iceberg",
        partition_columns=frozenset(),
        has_initial_defaults=True,
        scan=lambda _names: rows,
    )
    table: Any = SimpleNamespace(
        id=("shop", "t"), key=("id",), mode=mode_named(MIRROR), shard_column="", lake=lake,
        declared=old, flavour="mysql", text_columns=texts, kept_columns=(),
        rules=lambda rules: rules,
    )  # fmt: skip
    return column_changes.column_changes(statement, new, table, ReadOptions(), rules)


def followed(made: str, columns: Sequence[str]) -> Any:
    """A followed table of a definition, with these columns in the lake."""
    lake = SimpleNamespace(
        schema=pa.schema([(name, pa.int32() if name == "id" else pa.string()) for name in columns]),
        format="iceberg",
        partition_columns=frozenset(),
        has_initial_defaults=True,
    )
    return SimpleNamespace(
        id=("shop", "t"), key=("id",), mode=mode_named(MIRROR), shard_column="", lake=lake,
        declared=parse_schema(made.encode()).tables[0], flavour="mariadb", text_columns=(), kept_columns=(),
        rules=lambda rules: rules,
    )  # fmt: skip


def steps(sql: str) -> list[tuple[Any, ...]]:
    found = [one for group in changes(sql).steps for one in group]
    names = ("do", "name", "to", "other")
    return [tuple(one[name] for name in names if name in one) for one in found]


def test_the_case_of_a_name_changes() -> None:
    """The lake and the log would have different columns without a step."""
    assert steps("CHANGE v V INT") == [("rename", "v", "V")]
    assert steps("MODIFY V BIGINT") == [("rename", "v", "V"), ("widen", "V")]
    assert steps("CHANGE V other INT, CHANGE wide v VARCHAR(9)") == [
        ("rename", "v", "other"),
        ("rename", "Wide", "v"),
    ]
    assert steps("MODIFY v INT, DROP wide") == [("drop", "Wide")]
    with pytest.raises(UnsupportedError, match="the key is dropped or renamed"):
        steps("CHANGE id ID INT NOT NULL")


def test_columns_that_are_text_keep_their_names_in_any_case() -> None:
    assert changes("CHANGE v V INT, ADD n INT", OF_TEXT, ["wide", "V"]).texts == ("v", "wide")


COMPUTED = "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT, Wide VARCHAR(9) AS {}) CHARSET=utf8mb4"


@pytest.mark.parametrize(("before", "after"), [
    ("((`v` + 1)) STORED", "(v + 2) STORED"), ("(`v` + 1) VIRTUAL", "(1 + v) VIRTUAL"), ("(concat('a'))", "(concat('A'))"),
    ("((`v` + 1) * (2))", "(v + 1 * 2)"),
])  # fmt: skip
def test_another_expression_of_a_generated_column(before: str, after: str) -> None:
    """The server computes all values again, and logs none."""
    made = COMPUTED.format(before)
    for action in ("MODIFY wide", "CHANGE wide other"):
        with pytest.raises(UnsupportedError, match=r"the expression of column \w+ changes from"):
            changes(f"{action} VARCHAR(9) AS {after}", made=made)


@pytest.mark.parametrize(("before", "after"), [
    ("((`v` + 1)) STORED", "(V+1) STORED COMMENT 'x'"), ("(`v` + 1) VIRTUAL", "((v /* x */ + 1))"), ("(Concat('a'))", "(concat(\"a\"))"),
])  # fmt: skip
def test_the_same_expression_of_a_generated_column(before: str, after: str) -> None:
    assert changes(f"MODIFY Wide VARCHAR(9) AS {after}", made=COMPUTED.format(before)).steps == ()


@pytest.mark.parametrize("kind", [
    pa.int32(), pa.int64(), pa.uint32(), pa.decimal128(20, 0), pa.float64(), pa.string(),
])  # fmt: skip
def test_rows_with_0_in_a_column_that_becomes_auto_increment(kind: pa.DataType) -> None:
    """The server gives each of them another number, and logs none."""
    to_numbers = "MODIFY id INT NOT NULL AUTO_INCREMENT"
    with_0 = pa.table({"id": pa.array([3, 0], pa.int32()).cast(kind)})
    without = pa.table({"id": pa.array([3, 10, None], pa.int32()).cast(kind)})
    with pytest.raises(UnsupportedError, match="column id is AUTO_INCREMENT afterwards"):
        changes(to_numbers, rows=[without, with_0])
    assert changes(to_numbers, rows=[without]).steps == ()
    assert changes(to_numbers, rows=[with_0], sql_mode=MODE_NO_AUTO_VALUE_ON_ZERO).steps == ()
    assert changes("MODIFY id INT NOT NULL COMMENT 'AUTO_INCREMENT'", rows=[with_0]).steps == ()
    with pytest.raises(UnsupportedError, match="column id is AUTO_INCREMENT afterwards"):
        changes("CHANGE COLUMN Id id INT NOT NULL SERIAL DEFAULT VALUE", rows=[with_0])


def test_hashed_values_of_a_column_that_becomes_auto_increment() -> None:
    schema = LAKE.set(1, pa.field("v", pa.string()))
    rules = ColumnRules(hash=("shop.t.v",))
    with pytest.raises(UnsupportedError, match="column v is AUTO_INCREMENT afterwards"):
        changes("MODIFY v INT NOT NULL AUTO_INCREMENT", schema, rules=rules)


def test_a_column_that_stays_not_null_is_not_read() -> None:
    """The lake has NULL for a zero date, and a scan of a large table takes minutes."""
    zero_date = pa.table({"v": pa.array([None], pa.int32())})
    known = create_table_text(
        parse_schema(MADE.replace("v INT", "v INT NOT NULL").encode()).tables[0]
    )
    to_not_null = "MODIFY v INT NOT NULL COMMENT 'x', MODIFY Wide VARCHAR(20)"
    assert changes(to_not_null, made=known, rows=[zero_date]).steps == ()
    with pytest.raises(UnsupportedError, match="column v becomes NOT NULL"):
        changes(to_not_null, rows=[zero_date])


def test_a_new_name_that_differs_only_in_case_to_readers() -> None:
    """Servers accept both names: to them, the letter is another one."""
    for statement in ("ADD ſ INT NULL, ADD s INT NULL", "CHANGE v WİDE INT", "CHANGE v wıde INT"):
        with pytest.raises(UnsupportedError, match="cannot distinguish the columns"):
            changes(statement)


def test_a_new_column_with_the_name_of_a_vector_s_elements() -> None:
    with pytest.raises(
        UnsupportedError, match=r"a column n\.element, but Iceberg uses that name for the elements"
    ):
        changes("ADD n VECTOR(3) NULL, ADD `n.element` INT NULL")


def test_a_statement_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log may contain thousands of statements about a wide table."""
    read: list[Any] = []

    def counted(statement: Any) -> Any:
        read.append(statement)
        return items_of(statement)

    monkeypatch.setattr("binlake.mirror.ddl.column_changes.items_of", counted)
    changes("DROP v, ADD v BIGINT, MODIFY wide VARCHAR(20)")
    assert len(read) == 1


@pytest.mark.parametrize("sql", [
    "ADD SYSTEM VERSIONING", "ADD n INT, ADD SYSTEM VERSIONING", "WITH SYSTEM VERSIONING", "COMMENT='x' WITH SYSTEM VERSIONING",
    "ADD n INT, ENGINE=InnoDB WITH SYSTEM VERSIONING",
])  # fmt: skip
def test_a_table_that_becomes_system_versioned(sql: str) -> None:
    """The server logs the DELETEs that follow as updates."""
    table: Any = SimpleNamespace(
        id=("shop", "t"),
        key=("id",),
        mode=mode_named(MIRROR),
        declared=parse_schema(MADE.encode()).tables[0],
    )
    found = effect_of(ddl(f"ALTER TABLE t {sql}"), table, ReadOptions(), RULES)
    assert found == Effect(refused="the table becomes system-versioned")


@pytest.mark.parametrize("key", ["PRIMARY KEY (id)", "KEY (id)"])
@pytest.mark.parametrize(
    ("sql", "default"),
    [
        ("ALTER v SET DEFAULT 5", Constant("5", "number")),
        ("ALTER v DROP DEFAULT, ADD INDEX (v)", None),
        ("MODIFY v INT NOT NULL DEFAULT 5 COMMENT 'new'", Constant("5", "number")),
        ("CHANGE v v INT NOT NULL", Constant("", "implied")),
        ("MODIFY v INT NOT NULL DEFAULT (1 + 1)", Unknown("DEFAULT ( is not a constant that binlake knows")),
        ("MODIFY v INT NOT NULL DEFAULT 1", ...),
        ("FORCE", ...),
    ],
)  # fmt: skip
def test_a_statement_that_changes_a_default_only(key: str, sql: str, default: Any) -> None:
    """The lake table stays as it is, so a table without a key follows, too."""
    is_null = "ALTER v" in sql
    made = f"CREATE TABLE shop.t (id INT NOT NULL, v INT {'' if is_null else 'NOT NULL'} DEFAULT 1, {key})"
    declared = parse_schema(made.encode()).tables[0]
    table: Any = SimpleNamespace(
        id=("shop", "t"), key=declared.primary_key, mode=mode_named(MIRROR), declared=declared,
        flavour="mysql", text_columns=("v",),
    )  # fmt: skip
    found = effect_of(ddl(f"ALTER TABLE t {sql}"), table, ReadOptions(), RULES)
    if default is ...:
        assert found == Effect()
        return
    assert found == Effect(create_table=found.create_table, texts=("v",))
    assert found.create_table is not None
    assert parse_schema(found.create_table.encode()).tables[0].defaults[1] == default


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("DEFAULT CHARACTER SET utf8mb4", "ADD note VARCHAR(100)"),
        ("CONVERT TO CHARACTER SET utf8mb4", "ADD note VARCHAR(100)"),
        ("COLLATE utf8mb4_bin", "ADD note VARCHAR(100) FIRST"),
        ("FORCE", "ADD note VARCHAR(100), DEFAULT CHARACTER SET utf8mb4"),
    ],
)
def test_a_column_has_the_newest_character_set_of_its_table(first: str, second: str) -> None:
    """Logs of MariaDB lack character sets by default, so rows are decoded with that of the definition."""
    table = followed("CREATE TABLE shop.t (id INT PRIMARY KEY) DEFAULT CHARSET=latin1", ["id"])
    for sql in (first, second):
        found = effect_of(ddl(f"ALTER TABLE t {sql}"), table, ReadOptions(), RULES)
        if found.create_table is not None:
            table.declared = parse_schema(found.create_table.encode()).tables[0]
    assert {column.name: column.charset for column in table.declared.columns} == {
        "id": None, "note": "utf8mb4",
    }  # fmt: skip


def test_a_text_that_gets_the_new_character_set_of_its_table() -> None:
    """The server converts its values when a later statement defines it without a character set."""
    made = "CREATE TABLE shop.t (id INT PRIMARY KEY, v VARCHAR(10)) DEFAULT CHARSET=latin1"
    table = followed(made, ["id", "v"])
    found = effect_of(
        ddl("ALTER TABLE t DEFAULT CHARACTER SET utf8mb4"), table, ReadOptions(), RULES
    )
    assert found == Effect(create_table=found.create_table)
    assert found.create_table is not None
    table.declared = parse_schema(found.create_table.encode()).tables[0]
    assert table.declared.columns[1].charset == "latin1"
    found = effect_of(ddl("ALTER TABLE t MODIFY v VARCHAR(20)"), table, ReadOptions(), RULES)
    assert "changes from varchar(10) to varchar(20)" in found.refused


@pytest.mark.parametrize("wait", ["", "WAIT 5 ", "NOWAIT ", "wait 0.5 "])
def test_a_statement_that_waits_for_a_lock(wait: str) -> None:
    """MariaDB logs these words, which stand before the items."""
    assert steps(f"{wait}ADD z INT NULL") == [("add", "z")]
    assert steps(f"{wait}CHANGE v x INT") == [("rename", "v", "x")]
    assert steps(f"{wait}DROP COLUMN v") == [("drop", "v")]
    assert steps(f"{wait}DROP v, ADD v INT NULL") == [("drop", "v"), ("add", "v")]
    rows = [pa.table({"v": pa.array([0, None], pa.int32())})]
    with pytest.raises(UnsupportedError, match="column v becomes NOT NULL"):
        changes(f"{wait}MODIFY v INT NOT NULL", rows=rows)
    rows = [pa.table({"v": pa.array([0], pa.int32())})]
    with pytest.raises(UnsupportedError, match="column v is AUTO_INCREMENT afterwards"):
        changes(f"{wait}MODIFY v INT AUTO_INCREMENT", rows=rows)


@pytest.mark.parametrize(("sql", "is_harmless"), [
    ("ADD INDEX (v)", True), ("ADD UNIQUE KEY u (v)", True), ("ADD FULLTEXT (v), ALGORITHM=INPLACE, LOCK=NONE", True),
    ("ADD PARTITION (PARTITION p3 VALUES LESS THAN (30))", True), ("DROP INDEX i, ADD KEY i (v)", True),
    ("AUTO_INCREMENT = 7, COMMENT 'x'", True), ("STATS_PERSISTENT=1", True),
    ("ADD PRIMARY KEY (v)", False), ("DROP PRIMARY KEY", False), ("DROP INDEX `PRIMARY`", False), ("DROP KEY v, DROP v", False),
    ("ADD COLUMN `index` INT", False), ("ADD (x INT, KEY (x))", False), ("ADD CONSTRAINT c UNIQUE (v)", False),
    ("DROP PARTITION p3", False), ("REORGANIZE PARTITION p3 INTO (PARTITION p3 VALUES LESS THAN (40))", False),
    ("COMMENT='x' CHARACTER SET latin1", False), ("ENGINE=MyISAM", False), ("CONVERT TO CHARACTER SET utf8mb4", False),
    ("ADD INDEX (v), MODIFY v VARCHAR(9)", False), ("COMMENT", True), ("", False), ("FORCE", False),
])  # fmt: skip
def test_statements_that_change_no_column(sql: str, is_harmless: bool) -> None:
    """During a copy, they do not make it begin again."""
    assert alters_no_column(ddl(f"ALTER TABLE t {sql}")) is is_harmless
    assert not alters_no_column(ddl(f"ALTER IGNORE TABLE t {sql}"))


@pytest.mark.parametrize(("sql", "column"), [
    ("MODIFY a VARCHAR(9) COLLATE utf8mb4_bin", "g"), ("CHANGE a b VARCHAR(9)", "g"), ("MODIFY `A` VARCHAR(20)", "g"),
    ("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "g"),
    ("MODIFY b VARCHAR(9) COLLATE utf8mb4_bin", ""), ("MODIFY raw VARBINARY(20)", ""), ("MODIFY `left` VARCHAR(20)", ""), ("MODIFY n BIGINT", ""), ("ADD COLUMN x INT", ""), ("COLLATE utf8mb4_bin", ""),
])  # fmt: skip
def test_a_collation_of_a_generated_column_changes(sql: str, column: str) -> None:
    made = (
        "CREATE TABLE shop.t (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9), n INT,"
        " g INT AS (`a` = 'b') STORED, h INT AS (n + 1), raw VARBINARY(9), `left` VARCHAR(9), i INT AS (LEFT(raw, n)))"
        " CHARSET=utf8mb4"
    )
    why = why_computed_again(ddl(f"ALTER TABLE t {sql}"), parse_schema(made.encode()).tables[0])
    assert (f"the values of column {column} again" in (why or "")) if column else why is None


OF_HIDDEN = (
    "CREATE TABLE shop.t (id INT PRIMARY KEY, salary DECIMAL(10,2), born DATETIME, twice INT AS (salary * 2), n INT,"
    " band INT AS (twice DIV 1000) STORED, age CHAR(30) AS (CAST(`Born` AS CHAR)), other INT AS (n + 1))"
    " CHARSET=utf8mb4"
)


@pytest.mark.parametrize(("sql", "column"), [
    ("MODIFY salary DECIMAL(10,0)", "band"), ("CHANGE salary salary DECIMAL(10,2) NOT NULL", "band"), ("MODIFY born DATE", "age"),
    ("MODIFY born VARCHAR(30)", "age"), ("MODIFY salary DECIMAL(10,2) AUTO_INCREMENT", "band"), ("MODIFY twice INT AS (salary * 3)", "band"),
    ("MODIFY salary DECIMAL(12,2)", ""), ("MODIFY twice INT AS (`salary` * 2)", ""), ("MODIFY n DATE", "other"),
])  # fmt: skip
def test_a_left_out_column_of_which_a_shown_one_is_computed(sql: str, column: str) -> None:
    """The server computes it again, and logs no row."""
    rules = ColumnRules(
        exclude=tuple(f"shop.t.{name}" for name in ("salary", "born", "twice", "n"))
    )
    shown = [("id", pa.int32()), ("band", pa.int32()), ("age", pa.string()), ("other", pa.int32())]
    if not column:
        assert changes(sql, pa.schema(shown), made=OF_HIDDEN, rules=rules).steps == ()
        return
    with pytest.raises(UnsupportedError, match=rf"the values of column {column} from it again"):
        changes(sql, pa.schema(shown), made=OF_HIDDEN, rules=rules)
    hidden = ColumnRules(exclude=(*rules.exclude, f"shop.t.{column}"))
    left = pa.schema([one for one in shown if one[0] != column])
    assert changes(sql, left, made=OF_HIDDEN, rules=hidden).steps == ()


@pytest.mark.parametrize(("sql", "is_computed"), [
    ("DROP v, ADD v INT", True), ("DROP v, ADD V INT DEFAULT 7 FIRST", True), ("DROP other, ADD other INT", True),
    ("DROP v, ADD v INT, DROP twice, DROP Wide", False), ("DROP n, ADD n INT", False), ("DROP v, ADD w INT", False),
])  # fmt: skip
def test_a_new_column_takes_the_name_that_an_expression_uses(sql: str, is_computed: bool) -> None:
    """MariaDB accepts the statement if the generated columns are virtual."""
    made = (
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT, other INT, n INT, twice INT AS (v + other) VIRTUAL,"
        " Wide INT AS (twice + 1) VIRTUAL) CHARSET=utf8mb4"
    )
    names = ("id", "v", "other", "n", "Wide")
    schema = pa.schema([(name, pa.int32()) for name in names])
    rules = ColumnRules(exclude=("shop.t.twice",))
    if is_computed:
        with pytest.raises(UnsupportedError, match="the values of column Wide from it again"):
            changes(sql, schema, made=made, rules=rules)
    else:
        assert changes(sql, schema, made=made, rules=rules).steps


@pytest.mark.parametrize(("kind", "synonyms"), [
    ("tinyint(1)", "BOOL BOOLEAN INT1"), ("smallint", "INT2"), ("mediumint", "INT3 MIDDLEINT"), ("int", "INT4 INTEGER INT(11)"),
    ("bigint", "INT8"), ("decimal(10,0)", "DEC FIXED NUMERIC DECIMAL(10) DEC(10,0)"), ("decimal(8,0)", "FIXED(8)"),
    ("float", "FLOAT4 FLOAT(10)"), ("double", "FLOAT8 REAL FLOAT(30)"), ("char(1)", "CHAR CHARACTER CHARACTER(1)"), ("binary(1)", "BINARY"),
    ("bit(1)", "BIT"), ("year", "YEAR(4)"), ("datetime", "DATETIME(0)"), ("time", "TIME(0)"), ("mediumtext", "LONG"),
])  # fmt: skip
def test_other_names_of_a_type(kind: str, synonyms: str) -> None:
    for column in (f"v {name} NULL" for name in synonyms.split()):
        made = f"CREATE TABLE shop.t (id INT PRIMARY KEY, v {kind}) CHARSET=utf8mb4"
        old = parse_schema(made.encode()).tables[0]
        new = altered_table(ddl(f"ALTER TABLE t MODIFY {column}"), ("shop", "t"), old)
        assert why_values_may_change(old.columns[1], new.columns[1]) is None, column
        assert why_values_may_change(new.columns[1], old.columns[1]) is None, column


@pytest.mark.parametrize(("before", "after"), [
    ("CHAR(2)", "CHAR"), ("CHAR", "BINARY"), ("BIT(1)", "BIT(2)"), ("DATETIME(3)", "DATETIME"), ("DEC(10,1)", "DEC"), ("YEAR(2)", "YEAR"),
    ("FLOAT(10)", "FLOAT(30)"), ("FLOAT(7,4)", "FLOAT"), ("INT", "BOOL"),
])  # fmt: skip
def test_other_types(before: str, after: str) -> None:
    old = parse_schema(f"CREATE TABLE shop.t (id INT PRIMARY KEY, v {before})".encode()).tables[0]
    new = altered_table(ddl(f"ALTER TABLE t MODIFY v {after}"), ("shop", "t"), old)
    assert why_values_may_change(old.columns[1], new.columns[1]) is not None


@pytest.mark.parametrize("partitions", [
    "REMOVE PARTITIONING", "PARTITION BY KEY (id) PARTITIONS 2", "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9, 8))",
])  # fmt: skip
def test_partitions_behind_a_column_s_definition(partitions: str) -> None:
    [[step]] = changes(f"ADD COLUMN n INT NOT NULL DEFAULT 4 {partitions}").steps
    [default] = [field["initial-default"] for field in step["schema"]["fields"]]
    assert (step["do"], step["name"], default) == ("add", "n", 4)
    assert changes(f"MODIFY v INT {partitions}").steps == ()
    assert changes(f"ADD INDEX (v) {partitions}").steps == ()


@pytest.mark.parametrize("name", ["period", "system"])
def test_a_column_whose_name_begins_other_clauses(name: str) -> None:
    made = f"CREATE TABLE shop.t (id INT PRIMARY KEY, v INT, {name} INT) CHARSET=utf8mb4"
    schema = pa.schema([("id", pa.int32()), ("v", pa.int32()), (name, pa.int32())])
    rows = [pa.table({name: pa.array([None], pa.int32())})]
    with pytest.raises(UnsupportedError, match=f"column {name} becomes NOT NULL"):
        changes(f"MODIFY {name} INT NOT NULL", schema, made=made, rows=rows)
    [[step]] = changes(f"ADD COLUMN {name} INT DEFAULT 7").steps
    assert (step["do"], step["name"]) == ("add", name)
    [steps] = changes(f"ADD COLUMN (w INT, {name} BIGINT)").steps
    assert [step["name"] for step in steps] == ["w", name]


@pytest.mark.parametrize("hidden", [(), ("shop.t.v",)])
@pytest.mark.parametrize(("before", "after"), [
    ("INT(5) ZEROFILL", "INT(8) UNSIGNED ZEROFILL"), ("INT(5) ZEROFILL", "INT(5) UNSIGNED"), ("INT UNSIGNED", "INT(5) ZEROFILL"),
    ("DECIMAL(5,2) ZEROFILL", "DECIMAL(8,2) ZEROFILL"), ("FLOAT ZEROFILL", "FLOAT UNSIGNED"),
])  # fmt: skip
def test_the_width_of_a_number_with_zeros_that_an_expression_uses(
    before: str, after: str, hidden: tuple[str, ...]
) -> None:
    """The number stays, but the server computes another text."""
    made = f"CREATE TABLE shop.t (id INT PRIMARY KEY, v {before}, Wide VARCHAR(20) AS (CONCAT(v))) CHARSET=utf8mb4"
    known = create_table_text(parse_schema(made.encode()).tables[0])
    types = {"INT": pa.int64(), "DECIMAL": pa.decimal128(5, 2), "FLOAT": pa.float32()}
    kind = next(kind for name, kind in types.items() if before.startswith(name))
    fields = [("id", pa.int32()), *([] if hidden else [("v", kind)]), ("Wide", pa.string())]
    rules = ColumnRules(exclude=hidden)
    with pytest.raises(UnsupportedError, match="the values of column Wide from it again"):
        changes(f"MODIFY v {after}", pa.schema(fields), made=known, rules=rules)
    assert changes(f"MODIFY v {before}", pa.schema(fields), made=known, rules=rules).steps == ()
    unused = made.replace("CONCAT(v)", "CONCAT(id)")
    changes(f"MODIFY v {after}", pa.schema(fields), made=unused, rules=rules)


@pytest.mark.parametrize("sql", [
    "DROP INDEX `PRIMARY` ON t", 'DROP INDEX "PRIMARY" ON t', "DROP INDEX IF EXISTS `Primary` ON shop.t WAIT 3",
])  # fmt: skip
def test_an_index_that_is_the_primary_key_is_dropped(sql: str) -> None:
    """Afterwards, the server accepts two rows with the same values in the columns of the key."""
    table = followed("CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)", ["id", "v"])
    assert effect_of(ddl(sql), table, ReadOptions(), RULES) == Effect(
        refused="the primary key changes"
    )
    assert not changes_no_column(ddl(sql))
    keyless = followed("CREATE TABLE shop.t (id INT, v INT)", ["id", "v"])
    keyless.key = ()
    assert effect_of(ddl(sql), keyless, ReadOptions(), RULES).is_none


@pytest.mark.parametrize(("mode", "flavour", "kind", "meant"), [
    (MODE_ORACLE, "mariadb", "DATE", "DATETIME"), (MODE_MAXDB, "mariadb", "TIMESTAMP NULL", "DATETIME"),
    (MODE_MAXDB, "mysql", "TIMESTAMP NULL", "DATETIME"), (MODE_REAL_AS_FLOAT, "mysql", "REAL", "FLOAT"),
    (MODE_ORACLE, "mysql", "DATE", ""), (MODE_ORACLE, "mariadb", "TIMESTAMP NULL", ""), (0, "mariadb", "DATE", ""),
])  # fmt: skip
def test_types_that_mean_another_one_with_a_mode(
    mode: int, flavour: str, kind: str, meant: str
) -> None:
    table = followed("CREATE TABLE shop.t (id INT PRIMARY KEY, v TEXT)", ["id", "v"])
    for sql in (
        f"ADD COLUMN w {kind}",
        f"ADD (w {kind})",
        f"MODIFY v {kind}",
        f"CHANGE v w {kind}",
    ):
        statement = ddl(f"ALTER TABLE t {sql}", sql_mode=mode, flavour=flavour)
        refused = effect_of(statement, table, ReadOptions(), RULES).refused
        assert (f"means {meant}" in refused) is bool(meant), sql


@pytest.mark.parametrize(
    "sql",
    ["RENAME TABLE tmp TO t", "RENAME TABLE x TO y, tmp TO shop.t"],
)
def test_a_name_that_is_taken_already(sql: str) -> None:
    """MariaDB logs it for a temporary table, also in row format."""
    table = followed("CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)", ["id", "v"])
    found = effect_of(ddl(sql), table, ReadOptions(), RULES)
    assert (found.refused, found.gone) == ("", "")
    assert found.recopied == "another table gets its name, perhaps a temporary one"


def test_a_foreign_key_is_kept_in_the_definition() -> None:
    """If the server is started with other settings, its log may no longer have the rows that the key changes."""
    table = followed("CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)", ["id", "v"])
    adds = "ADD CONSTRAINT k FOREIGN KEY (v) REFERENCES p (id) ON DELETE CASCADE"
    for sql, names in ((adds, ["k"]), ("DROP FOREIGN KEY k", [])):
        found = effect_of(ddl(f"ALTER TABLE t {sql}"), table, ReadOptions(), RULES)
        assert found == Effect(create_table=found.create_table, cascades=sql is adds)
        assert found.create_table is not None
        table.declared = parse_schema(found.create_table.encode()).tables[0]
        assert [key.name for key in table.declared.foreign_keys] == names
