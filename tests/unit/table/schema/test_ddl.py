"""DDL of a log, statement by statement. (tests/server/test_ddl.py asks real servers.)

One module, although it is long: each test is a statement and its effect.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from binlake.format.flags import MODE_NO_BACKSLASH_ESCAPES
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.catalogue import Catalogue
from binlake.table.schema.ddl import apply_ddl
from binlake.table.schema.ddl_effects import (
    changes_index,
    concerns,
    concerns_certainly,
    creates,
    creates_if_new,
    drops,
    replaces,
    truncates,
    why_not_followed,
)
from binlake.table.schema.declared import DeclaredSchema, DeclaredTable
from binlake.table.schema.renames import renames_of
from binlake.table.schema.schema_file import parse_schema
from binlake.table.schema.schema_text import create_table_text
from binlake.values.position import ChainPosition, LogPosition

T = ("shop", "t")
MADE = "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, a VARCHAR(9), b TEXT) CHARSET=latin1"


def ddl(sql: str, at: int = 0, **facts: Any) -> DdlStatement:
    given: dict[str, Any] = {"database": "shop", "thread_id": 1, "server_charset": None, "sql_mode": 0}  # fmt: skip
    return DdlStatement(
        position=ChainPosition(0, "binlog.000001", at), sql=sql, **{**given, **facts}
    )


def catalogue(
    *statements: str | DdlStatement, schema: str | None = None, **limits: int
) -> Catalogue:
    known = DeclaredSchema() if schema is None else parse_schema(schema.encode())
    made = Catalogue(lambda db, name: next(iter(known.declarations(db, name)), None), **limits)
    for number, statement in enumerate(statements):
        one = ddl(statement, number) if isinstance(statement, str) else statement
        made.position = LogPosition(*one.position[1:])
        apply_ddl(made, one)
    return made


def columns(*statements: str | DdlStatement, table: tuple[str, str] = T) -> list[str]:
    found = catalogue(*statements).known(table)
    assert found is not None
    return [column.name for column in found.columns]


def charsets(*statements: str | DdlStatement, table: tuple[str, str] = T) -> list[str | None]:
    found = catalogue(*statements).known(table)
    assert found is not None
    return [column.charset for column in found.columns]


def why(*statements: str | DdlStatement, table: tuple[str, str] = T) -> str:
    made = catalogue(*statements)
    assert made.known(table) is None
    entry = made.entry(table)
    return "" if entry is None else entry.missing


def test_a_table_is_as_it_was_made() -> None:
    made = catalogue(MADE).known(T)
    assert made is not None
    assert [(c.name, c.sql, c.charset) for c in made.columns] == [
        ("id", "int unsigned", None),
        ("a", "varchar(9)", "latin1"),
        ("b", "text", "latin1"),
    ]
    assert made.primary_key == ("id",)
    assert made.since == LogPosition("binlog.000001", 0)


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ("ADD c INT", "id a b c"),
        ("ADD COLUMN c INT FIRST, ADD d INT AFTER id", "c id d a b"),
        ("ADD z1 INT FIRST, ADD z2 INT FIRST, ADD z3 INT AFTER z1", "z2 z1 z3 id a b"),
        ("ADD (c INT, d ENUM('x,y','(')), ADD KEY (c)", "id a b c d"),
        ("ADD COLUMN IF NOT EXISTS a INT", "id a b"),
        ("DROP COLUMN a, ADD COLUMN IF NOT EXISTS a INT", "id b"),
        ("CHANGE a x INT, ADD COLUMN IF NOT EXISTS a INT", "id x b"),
        ("CHANGE a x INT, ADD COLUMN IF NOT EXISTS x INT", "id x b"),
        ("RENAME COLUMN a TO x, ADD COLUMN IF NOT EXISTS (a INT, c INT)", "id x b c"),
        ("ADD COLUMN c INT, ADD COLUMN IF NOT EXISTS C TEXT, ADD COLUMN IF NOT EXISTS d INT FIRST", "d id a b c"),
        ("DROP a", "id b"),
        ("DROP COLUMN IF EXISTS nope, DROP COLUMN b CASCADE", "id a"),
        ("DROP a, ADD a INT", "id b a"),
        ("MODIFY b INT FIRST", "b id a"),
        ("MODIFY COLUMN a VARCHAR(20) COMMENT 'AFTER b, FIRST' AFTER b", "id b a"),
        ("CHANGE a x VARCHAR(9) CHARACTER SET utf8mb4", "id x b"),
        ("CHANGE a b INT, CHANGE b a INT", "id b a"),
        ("CHANGE COLUMN a x INT FIRST, ADD y INT AFTER x", "x y id b"),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", "id b a"),
        ("ADD FIRST_NAME INT DEFAULT (1 + (2)) AFTER id", "id FIRST_NAME a b"),
        ("ADD INDEX (a), DROP INDEX a, DROP FOREIGN KEY f, ENGINE=InnoDB, COMMENT='DROP a'", "id a b"),
        ("ORDER BY a, b DESC", "id a b"),
        ("DROP PARTITION p0, p1", "id a b"),
        ("REORGANIZE PARTITION p0, p1 INTO (PARTITION q VALUES LESS THAN MAXVALUE)", "id a b"),
        ("ADD c INT, ALGORITHM=INPLACE, LOCK=NONE", "id a b c"),
        ("ADD c INT PARTITION BY HASH (id) PARTITIONS 3", "id a b c"),
        ("/*!50100 ADD c INT, */ ADD d INT -- , ADD e INT", "id a b c d"),
    ],
)  # fmt: skip
def test_alter_table(actions: str, expected: str) -> None:
    assert columns(MADE, f"ALTER TABLE t {actions}") == expected.split()


KEYED = "my_row_id bigint unsigned NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */"


@pytest.mark.parametrize(
    ("made", "statements", "expected"),
    [
        (f"{KEYED}, a INT", ("MODIFY a INT FIRST", "ADD b INT FIRST"), "my_row_id b a"),
        (f"{KEYED}, a INT", ("ALTER my_row_id SET VISIBLE, ADD b INT FIRST",), "my_row_id b a"),
        (f"{KEYED}, a INT", ("ALTER COLUMN my_row_id SET VISIBLE", "ADD b INT FIRST"), "b my_row_id a"),
        (f"{KEYED}, a INT", ("ALTER My_Row_Id SET VISIBLE", "ALTER my_row_id SET INVISIBLE", "ADD b INT FIRST"),
         "my_row_id b a"),
        (f"{KEYED}, a INT", ("DROP PRIMARY KEY, DROP my_row_id, ADD my_row_id INT FIRST", "ADD b INT FIRST"), "b my_row_id a"),
        (f"a INT, {KEYED}", ("ADD b INT FIRST",), "b a my_row_id"),
        (f"{KEYED.replace('unsigned', '')}, a INT", ("ADD b INT FIRST",), "b my_row_id a"),
        (f"{KEYED.replace('INVISIBLE', '')}, a INT", ("ADD b INT FIRST",), "b my_row_id a"),
    ],
)  # fmt: skip
def test_the_column_of_a_generated_invisible_primary_key_stays_the_first_one(
    made: str, statements: tuple[str, ...], expected: str
) -> None:
    made = f"CREATE TABLE t ({made}, PRIMARY KEY (my_row_id))"
    assert columns(made, *(f"ALTER TABLE t {one}" for one in statements)) == expected.split()
    # also if a mirror has kept the definition between two statements
    for statement in statements:
        known = catalogue(made, f"ALTER TABLE t {statement}").known(T)
        assert known is not None
        made = create_table_text(known)
    assert columns(made) == expected.split()


def test_letters_have_one_lower_case_wherever_they_are() -> None:
    """To MySQL, ς is another letter than Σ, and σ is not."""
    made = "CREATE TABLE t (id INT, ΤΙΜΕΣ INT)"
    assert columns(made, "ALTER TABLE t DROP τιμεσ, ADD a INT") == ["id", "a"]
    assert columns(made, "ALTER TABLE t CHANGE τιμεσ b INT FIRST") == ["b", "id"]
    assert columns(made, "ALTER TABLE t ADD τιμες INT AFTER id") == ["id", "τιμες", "ΤΙΜΕΣ"]


@pytest.mark.parametrize(
    ("actions", "key"),
    [
        ("DROP PRIMARY KEY", ()),
        ("DROP PRIMARY KEY, ADD CONSTRAINT x PRIMARY KEY USING BTREE (a(3), id)", ("a", "id")),
        ("CHANGE id ident INT", ("ident",)),
        ("DROP INDEX `PRIMARY`, ADD n INT AUTO_INCREMENT PRIMARY KEY", ("n",)),
        ("DROP id", ()),
        ("ADD UNIQUE KEY (a), ADD KEY k (b)", ("id",)),
        ("ADD n INT PARTITION BY KEY (id) PARTITIONS 2", ("id",)),
        ("ADD (n INT) PARTITION BY LINEAR KEY (id)", ("id",)),
        ("DROP PRIMARY KEY, MODIFY a INT PRIMARY KEY PARTITION BY HASH (a)", ("a",)),
    ],
)
def test_keys(actions: str, key: tuple[str, ...]) -> None:
    made = catalogue(MADE, f"ALTER TABLE t {actions}").known(T)
    assert made is not None
    assert made.primary_key == key


_PERIOD = "CREATE TABLE t (id INT, s DATE, `e` DATE, v INT, PERIOD FOR `Ap` (s, `e`)"


@pytest.mark.parametrize(
    ("statements", "key"),
    [
        # the order of the server's TABLE_MAP
        ([f"{_PERIOD}, PRIMARY KEY (id, ap WITHOUT OVERLAPS))"], ("id", "e", "s")),
        ([f"{_PERIOD}, PRIMARY KEY (id))"], ("id",)),
        ([f"{_PERIOD})", "ALTER TABLE t ADD PRIMARY KEY (id, ap WITHOUT OVERLAPS)"], ()),
    ],
)
def test_a_key_without_overlaps_has_the_columns_of_its_period(
    statements: list[str], key: tuple[str, ...]
) -> None:
    made = catalogue(*statements).known(T)
    assert made is not None
    assert made.primary_key == key


def foreign_keys(*statements: str, table: tuple[str, str] = T) -> list[tuple[object, ...]]:
    found = catalogue(*statements).known(table)
    assert found is not None
    return [(key.name, key.columns, key.parent, key.on_delete) for key in found.foreign_keys]


def test_foreign_keys() -> None:
    made = (
        "CREATE TABLE t (id INT PRIMARY KEY, p INT REFERENCES o.`q` (id) ON DELETE CASCADE, r INT,"
        " FOREIGN KEY (r) REFERENCES p (id) ON UPDATE NO ACTION ON DELETE SET NULL,"
        " CONSTRAINT `c k` FOREIGN KEY `ix` (p, r) REFERENCES z (a, b) MATCH SIMPLE)"
    )
    first, second, third = (
        ("t_ibfk_1", ("p",), ("o", "q"), "CASCADE"),
        ("t_ibfk_2", ("r",), ("shop", "p"), "SET NULL"),
        ("c k", ("p", "r"), ("shop", "z"), "NO ACTION"),
    )
    assert foreign_keys(made) == [first, second, third]
    assert foreign_keys(made, "ALTER TABLE t DROP FOREIGN KEY T_IBFK_2, DROP CONSTRAINT `c k`") == [
        first
    ]
    added = "ALTER TABLE t ADD FOREIGN KEY IF NOT EXISTS (r) REFERENCES p (id) ON DELETE CASCADE"
    fourth = ("t_ibfk_3", ("r",), ("shop", "p"), "CASCADE")
    assert foreign_keys(made, added) == [first, second, third, fourth]
    renamed = foreign_keys(made, "ALTER TABLE t RENAME COLUMN r TO s", "RENAME TABLE p TO shop2.pp")
    assert renamed[1] == ("t_ibfk_2", ("s",), ("shop2", "pp"), "SET NULL")
    assert foreign_keys(made, "CREATE TABLE u LIKE t", table=("shop", "u")) == []


@pytest.mark.parametrize("sql", [
    "DROP INDEX `PRIMARY` ON t", "drop index if exists `Primary` on shop.t WAIT 3", 'DROP INDEX "PRIMARY" ON t -- key',
])  # fmt: skip
def test_an_index_that_is_the_primary_key(sql: str) -> None:
    found = catalogue(MADE, sql).known(T)
    assert found is not None
    assert found.primary_key == ()
    assert len(found.columns) == 3
    for other in (
        "DROP INDEX `PRIMARY 2` ON t",
        "DROP INDEX `PRIMARY` ON u",
        "DROP INDEX `PRIMARY`",
    ):
        kept = catalogue(MADE, other).known(T)
        assert kept is not None
        assert kept.primary_key == ("id",)


def test_character_sets() -> None:
    database = "CREATE DATABASE shop COLLATE utf8mb4_bin"
    made = "CREATE TABLE t (a CHAR(1), b CHAR(1) CHARACTER SET 'koi8r', c BLOB)"
    assert charsets(made) == [None, "koi8r", "binary"]
    assert charsets(database, made) == ["utf8mb4", "koi8r", "binary"]
    assert charsets(database, "ALTER DATABASE shop CHARSET cp1251", made)[0] == "cp1251"
    replaced = "CREATE OR REPLACE SCHEMA shop CHARSET greek"
    assert charsets(database, replaced, made) == ["greek", "koi8r", "binary"]
    assert charsets(ddl("CREATE DATABASE shop", server_charset="greek"), made)[0] == "greek"
    # whether it was made then is not logged
    assert charsets("CREATE DATABASE IF NOT EXISTS shop CHARSET greek", made)[0] is None
    assert charsets(MADE, "ALTER TABLE t CHARSET=koi8u, ADD c CHAR(1)") == [
        None, "latin1", "latin1", "koi8u",
    ]  # fmt: skip
    for alter in (
        "ADD c CHAR(1), CHARSET=koi8u",
        "CHARSET=greek, ADD c CHAR(1), COLLATE koi8u_bin",
    ):
        assert charsets(MADE, f"ALTER TABLE t {alter}") == [None, "latin1", "latin1", "koi8u"]
    assert charsets(MADE, "ALTER TABLE t MODIFY a VARCHAR(20), DEFAULT CHARACTER SET koi8u") == [
        None, "koi8u", "latin1",
    ]  # fmt: skip
    converted = "ALTER TABLE t CONVERT TO CHARACTER SET utf8, MODIFY b BLOB"
    assert charsets(MADE, converted) == [None, "utf8mb3", "binary"]
    assert (
        charsets(database, MADE, "ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT")[1] == "utf8mb4"
    )
    assert charsets("CREATE TABLE t (a TEXT COLLATE uca1400_ai_ci) CHARSET=latin1") == ["latin1"]


def test_online_schema_changes() -> None:
    gh_ost = (
        "CREATE /* gh-ost */ TABLE `shop`.`_t_gho` LIKE `shop`.`t`",
        "ALTER /* gh-ost */ TABLE `shop`.`_t_gho` ADD COLUMN c INT AFTER id",
        "RENAME /* gh-ost */ TABLE `shop`.`t` TO `shop`.`_t_del`, `shop`.`_t_gho` TO `shop`.`t`",
    )
    assert columns(MADE, *gh_ost) == ["id", "c", "a", "b"]
    assert columns(MADE, *gh_ost, table=("shop", "_t_del")) == ["id", "a", "b"]
    assert why(MADE, *gh_ost, "DROP TABLE IF EXISTS `_t_del`", table=("shop", "_t_del")) == "dropped"  # fmt: skip


def test_tables_change_names_and_databases() -> None:
    assert columns(MADE, "RENAME TABLE t TO s, s TO other.u", table=("other", "u"))[0] == "id"
    assert why(MADE, "RENAME TABLES t WAIT 3 TO s") == "dropped"
    assert columns(MADE, "ALTER TABLE t ADD c INT, RENAME AS s", table=("shop", "s"))[-1] == "c"
    assert columns(MADE, "ALTER TABLE t RENAME other.`x``y`", table=("other", "x`y"))
    assert why(MADE, "DROP DATABASE shop") == "dropped"
    assert why(MADE, "CREATE OR REPLACE DATABASE shop CHARSET greek") == "dropped"
    assert columns(MADE, "CREATE DATABASE other") == ["id", "a", "b"]
    # the old columns of a name are not those of the table that takes it
    assert "old, which was renamed to it, is unknown" in why(MADE, "RENAME TABLE old TO t")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE IF NOT EXISTS t (x INT)",
        "CREATE TEMPORARY TABLE t (x INT)",
        "ALTER TABLE IF EXISTS nowhere ADD x INT",
        "CREATE INDEX x ON t (a)",
        "CREATE VIEW v AS SELECT 'CREATE TABLE t (x INT)'",
        "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET @x = 'DROP TABLE t'",
        "DROP TEMPORARY TABLE t",
        "ALTER TABLE t COMMENT 'ADD x INT'",
    ],
)
def test_statements_without_column_changes(statement: str) -> None:
    assert columns(MADE, statement) == ["id", "a", "b"]


def test_a_temporary_table_hides_the_other_from_its_connection() -> None:
    hides = ddl("CREATE TEMPORARY TABLE t (x INT)", thread_id=7)
    inside = ddl("ALTER TABLE t ADD y INT", thread_id=7)
    outside = ddl("ALTER TABLE t ADD z INT", thread_id=8)
    assert columns(MADE, hides, inside, outside) == ["id", "a", "b", "z"]
    gone = ddl("DROP TEMPORARY TABLE IF EXISTS t", thread_id=7)
    assert columns(MADE, hides, gone, inside) == ["id", "a", "b", "y"]


def test_names_of_a_server_that_ignores_case() -> None:
    made = "CREATE TABLE Shop.Orders (id INT)"
    statements = (made, "ALTER TABLE SHOP.orders ADD a INT", "RENAME TABLE shop.ORDERS TO shop.Old")
    found = catalogue(*statements)
    assert found.spelled(("shop", "orders")) == ("shop", "orders")  # it is no more
    assert found.spelled(("shop", "old")) == ("shop", "Old")
    table = found.known(("shop", "Old"))
    assert table is not None
    assert len(table.columns) == 2
    assert catalogue(made, "DROP TABLE shop.ORDERS").known(("Shop", "Orders")) is None
    # TABLE_MAP still has the old spelling
    respelled = catalogue("CREATE TABLE t.orders (a INT)", "ALTER TABLE t.orders RENAME t.Orders")
    assert respelled.spelled(("t", "orders")) == ("t", "Orders")
    # of a server that does not: two tables
    both = catalogue(made, "CREATE TABLE Shop.orders (b INT)", "ALTER TABLE Shop.orders ADD c INT")
    counts = [both.known(("Shop", name)) for name in ("Orders", "orders", "ORDERS")]
    assert [None if one is None else len(one.columns) for one in counts] == [1, 2, None]
    assert both.spelled(("Shop", "ORDERS")) == ("Shop", "ORDERS")


def test_created_again_and_as_select() -> None:
    assert columns(MADE, "CREATE OR REPLACE TABLE t (x INT)") == ["x"]
    logged = "CREATE TABLE `t` (\n  `x` int(11) DEFAULT NULL\n) START TRANSACTION"
    assert columns(logged) == ["x"]
    assert "come from a SELECT" in why("CREATE TABLE t (y INT) AS SELECT x FROM u")
    assert "come from a SELECT" in why(MADE, "CREATE OR REPLACE TABLE t SELECT x FROM u")
    assert "the table of its LIKE, is unknown" in why("CREATE TABLE t LIKE u")
    assert columns("CREATE SEQUENCE t")[0] == "next_not_cached_value"


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD a INT",
        "ALTER TABLE t DROP nope",
        "ALTER TABLE t CHANGE nope x INT",
        "ALTER TABLE t ADD x INT AFTER nope",
        "ALTER TABLE t ADD x NUMBER(3)",
        "ALTER TABLE t FROBNICATE a",
        "ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT",
        "ALTER TABLE t ADD x INT COMMENT 'not closed",
        "ALTER TABLE `shop` . `t` ADD (x INT",
        "ALTER TABLE t RENAME COLUMN a b",
        "ALTER TABLE t ADD x INT COMMENT '\ufffd'",
        f"ALTER TABLE t ADD x INT COMMENT '{'x' * (5 << 20)}'",
    ],
)
def test_an_unreadable_statement_makes_the_table_unknown_until_it_is_created_again(
    statement: str,
) -> None:
    assert "the DDL at binlog.000001:1 is not understood" in why(MADE, statement)
    assert columns(MADE, statement, "DROP TABLE t", MADE) == ["id", "a", "b"]


def test_a_schema_is_the_state_before_the_log() -> None:
    schema = "CREATE TABLE shop.t (id INT, a INT)"
    table = catalogue("ALTER TABLE t ADD b INT", schema=schema).known(T)
    assert table is not None
    assert [column.name for column in table.columns] == ["id", "a", "b"]
    # a later dump: it contains the addition already, so this version is not used
    later = catalogue("ALTER TABLE t ADD a INT", schema=schema)
    assert later.known(T) is None
    # a statement about an unknown table has no effect
    assert catalogue("ALTER TABLE t ADD a INT").entry(T) is None


def test_strings_of_a_session_without_backslash_escapes() -> None:
    one = ddl(
        "CREATE TABLE t (a ENUM('c:\\','d'), b INT COMMENT '\\')",
        sql_mode=MODE_NO_BACKSLASH_ESCAPES,
    )
    table = catalogue(one).known(T)
    assert table is not None
    assert [column.members for column in table.columns] == [("c:\\", "d"), None]


def test_a_log_full_of_tables_is_bounded() -> None:
    made = catalogue(*(f"CREATE TABLE t{n} (id INT)" for n in range(20)), most_entries=10)
    known = [n for n in range(20) if made.known(("shop", f"t{n}")) is not None]
    assert known == list(range(10, 20))
    made = catalogue(*(f"CREATE TABLE t{n} (id INT, b INT)" for n in range(20)), most_columns=7)
    assert [n for n in range(20) if made.known(("shop", f"t{n}")) is not None] == [17, 18, 19]


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t " + "/*!" * 300_000,
        "ALTER TABLE t ADD (" + "a INT," * 100_000 + "b INT)",
        "ALTER TABLE t " + "ADD " * 100_000,
        "ALTER TABLE t " + "(" * 200_000,
        "ALTER TABLE t ADD x INT DEFAULT '" + "\\" * 300_000,
        "CREATE " * 100_000 + "TABLE t (a INT)",
    ],
    ids=lambda text: text[14:24],
)
def test_large_nonsense_takes_no_time(text: str) -> None:
    start = time.process_time()
    catalogue(MADE, text)
    assert time.process_time() - start < 60


def test_any_text_is_taken_without_an_error() -> None:
    """Damaged and hostile statements: every cut, and mutations, of real ones."""
    texts = [
        MADE,
        "ALTER TABLE t ADD (c INT, d ENUM('x','y')), CHANGE a b INT FIRST, DROP PRIMARY KEY",
        "RENAME TABLE t TO s, `a``b`.c TO d",
        "CREATE TABLE IF NOT EXISTS t (LIKE u)",
        "CREATE DATABASE d CHARACTER SET = x",
        "ALTER DATABASE d COLLATE utf8mb4_bin",
        "DROP TABLE IF EXISTS a, b.c CASCADE",
        "CREATE TABLE t (a DECIMAL(" + "9" * 5000 + "))",
    ]
    rng = random.Random(4)
    for text in texts:
        cuts = [text[:end] for end in range(0, len(text), max(1, len(text) // 200))]
        for _ in range(60):
            words = text.split()
            rng.shuffle(words)
            cuts.append(" ".join(words))
            at = rng.randrange(len(text))
            cuts.append(text[:at] + rng.choice("(),`'\"./*\x00;=ж") + text[at + 1 :])
        for cut in cuts:
            catalogue(MADE, cut)


def test_versions_know_their_place() -> None:
    made = catalogue(MADE, "CREATE TABLE u (id INT)", "ALTER TABLE t ADD c INT")
    versions = [made.entry(("shop", name)) for name in "tu"]
    assert [str(v.since) for v in versions if isinstance(v, DeclaredTable)] == [
        "binlog.000001:2",
        "binlog.000001:1",
    ]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ALTER TABLE t RENAME COLUMN a TO b, ADD c INT, RENAME COLUMN `x y` TO z", ["t.a>b", "t.x y>z"]),
        ("alter online table other.t CHANGE COLUMN IF EXISTS a b INT FIRST, CHANGE c C TEXT", ["t.a>b"]),
        ("ALTER TABLE t WAIT 5 CHANGE a b INT", ["t.a>b"]),
        ("ALTER TABLE t NOWAIT RENAME COLUMN a TO b", ["t.a>b"]),
        ("ALTER TABLE t RENAME TO u", []),
        ("ALTER TABLE t RENAME INDEX a TO b", []),
        ("ALTER USER RENAME CHANGE", []),
        ("ALTER TABLE t CHANGE a", []),
        ("ALTER TABLE t RENAME COLUMN a TO 'b", []),
    ],
)  # fmt: skip
def test_renames_of_a_statement(sql: str, expected: list[str]) -> None:
    found = renames_of(ddl(sql, 7))
    assert [f"{r.table}.{r.old}>{r.new}" for r in found] == expected
    assert all(r.pos == 7 for r in found)


@pytest.mark.parametrize(
    ("sql", "about", "surely"),
    [
        ("TRUNCATE TABLE t", True, True),
        ("TRUNCATE u -- as t", True, False),
        ("TRUNCATE TABLE t WAIT 5", True, True),
        ("TRUNCATE t NOWAIT", True, True),
        ("DROP TABLE IF EXISTS t WAIT 5 RESTRICT", True, True),
        ("DROP TABLE other, another NOWAIT", False, False),
        ("DROP TABLE IF EXISTS `u`, `shop`.`t` /* generated by server */", True, True),
        ("DROP TABLE u /* not t */", True, False),
        ("DROP TEMPORARY TABLE t", False, False),
        ("DROP DATABASE shop", True, True),
        ("drop schema if exists `SHOP` ;", True, True),
        ("DROP DATABASE `shop-2`", False, False),
        ("DROP DATABASE `a``shop`", False, False),
        ("DROP DATABASE /* shop */ other", False, False),
        ("DROP DATABASE /* other */ shop", True, True),
        ("DROP DATABASE other -- not shop", False, False),
        ("-- all of it\nDROP DATABASE shop", True, True),
        ("/*!40000 DROP DATABASE IF EXISTS `shop`*/", True, True),
        ("ALTER TABLE u COMMENT 't: #fff -- /* x */'", False, False),
        ("CREATE OR REPLACE DATABASE shop", True, True),
        ("create or replace schema `SHOP` charset latin1;", True, True),
        ("CREATE OR REPLACE DATABASE other COMMENT 'shop'", False, False),
    ],
)
def test_which_table_it_is_about(sql: str, about: bool, surely: bool) -> None:
    assert concerns(ddl(sql), *T) == about
    assert (about and concerns_certainly(ddl(sql))) == surely


@pytest.mark.parametrize("table", ["instance", "innodb", "master", "key", "t"])
def test_a_change_of_the_server_s_keys_is_about_no_table(table: str) -> None:
    assert not concerns(ddl("ALTER INSTANCE ROTATE INNODB MASTER KEY"), "shop", table)


@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        ("DROP TABLE a, b", {drops}),
        ("drop tables if exists a", {drops}),
        ("DROP SCHEMA shop", {drops}),
        ("CREATE OR REPLACE SCHEMA shop", {drops}),
        ("CREATE DATABASE shop", set()),
        ("DROP INDEX x ON a", {changes_index}),
        ("DROP INDEX `PRIMARY` ON a", set()),
        ('drop index if exists "Primary" ON a', set()),
        ("CREATE UNIQUE INDEX x ON a (id)", {changes_index}),
        ("CREATE OR REPLACE UNIQUE INDEX x ON a (id)", {changes_index}),
        ("CREATE TABLE a (id INT)", {creates}),
        ("CREATE TABLE IF NOT EXISTS a (id INT)", {creates, creates_if_new}),
        ("CREATE OR REPLACE TABLE a (id INT)", {creates, replaces}),
        ("TRUNCATE a", {truncates}),
        ("ALTER TABLE a DROP PARTITION p", set()),
        ("CREATE VIEW a AS SELECT 1", set()),
    ],
)
def test_kinds_of_statements(sql: str, kinds: set[Callable[[str], bool]]) -> None:
    known = (changes_index, creates, creates_if_new, drops, replaces, truncates)
    assert {kind for kind in known if kind(sql)} == kinds


@pytest.mark.parametrize(("sql", "reason"), [
    ("ALTER TABLE t COMMENT 'RENAME TO p'", ""),
    ("ALTER TABLE t COMMENT 'it''s\\' \n RENAME TO p', ADD c INT", ""),
    ("ALTER TABLE t COMMENT 'c:\\', RENAME TO p", "the table is renamed"),  # NO_BACKSLASH_ESCAPES
    ("ALTER TABLE t COMMENT 'c:\\', DROP PARTITION p1", "rows come or go without row events"),
])  # fmt: skip
def test_texts_do_not_hide_clauses(sql: str, reason: str) -> None:
    assert why_not_followed(sql) == reason
