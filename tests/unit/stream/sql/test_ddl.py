"""Which DDL statements of a log count, and when a reader receives them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from binlake.format.flags import MODE_ANSI_QUOTES, MODE_NO_BACKSLASH_ESCAPES
from binlake.source.resolve import resolve
from binlake.stream.log_reader import LogReader
from binlake.stream.sql.comments import text_without_comments, without_comments
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.ddl_targets import changed_tables, may_change, renamed_tables
from binlake.stream.sql.executed import with_if_exists
from binlake.stream.sql.statements import statement_kind, without_set_statement
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition
from support.logs.log_builder import QUERY, query_body
from support.logs.stream_log import STANDALONE, StreamLog, inner_event, outcomes

CREATE = b"CREATE TABLE t (id INT)"
ALTER = b"ALTER TABLE t ADD b INT"


def passed(path: Path, **options: object) -> list[DdlStatement | str]:
    """The DDL and, in between, the starts of the runs."""
    found: list[DdlStatement | str] = []
    chains = resolve([str(path)])
    for reader in LogReader.of_chains(chains, ReadOptions.parse(options), Ledger()):
        for run in reader.runs(found.append):
            found.append(type(run).__name__)  # noqa: PERF401 - in between the reader appends
    return found


def failed_query(sql: bytes, code: int, collation: int = 0) -> bytes:
    """The body of a QUERY event of a statement that failed with the server's error `code`; collation 0: not logged."""
    charset_code = struct.pack("<BHHH", 4, collation, collation, collation)  # Q_CHARSET_CODE
    status = charset_code if collation else b""
    body = query_body(sql)
    return body[:9] + struct.pack("<HH", code, len(status)) + status + body[13:]


def texts(path: Path, **options: object) -> list[str]:
    return [item if isinstance(item, str) else item.sql for item in passed(path, **options)]


def test_a_reader_receives_ddl_before_the_rows_after_it(tmp_path: Path) -> None:
    log = StreamLog().plain(1)
    log.gtid(2).query(CREATE).plain(3).plain(4).gtid(5).query(ALTER).plain(6)
    create, alter = CREATE.decode(), ALTER.decode()
    path = log.write(tmp_path)
    assert texts(path) == [
        "PlainRun", create, "Transaction", "PlainRun", alter, "Transaction", "PlainRun",
    ]  # fmt: skip
    first = next(item for item in passed(path) if isinstance(item, DdlStatement))
    assert (first.position.file, first.database, first.thread_id) == ("binlog.000001", "shop", 7)
    assert path.read_bytes()[first.position.offset + 4] == QUERY


@pytest.mark.parametrize(("sql", "tables"), [
    ("ALTER TABLE t RENAME COLUMN a TO p, RENAME INDEX p TO q", ["t"]),
    ("ALTER TABLE t RENAME KEY a TO p", ["t"]),
    ("ALTER TABLE t RENAME COLUMN a TO b, RENAME TO p", ["t", "p"]),
    ("ALTER TABLE p CONVERT TABLE t TO PARTITION p1 VALUES LESS THAN (9)", ["t", "p"]),
    ("ALTER TABLE p CONVERT PARTITION p1 TO TABLE t", ["t", "p"]),
    ("ALTER TABLE p CONVERT TO CHARACTER SET utf8mb4, COMMENT = 1, ADD t INT", ["p"]),
    ("CREATE SEQUENCE IF NOT EXISTS s START WITH 1", ["s"]),
    ("CREATE OR REPLACE SEQUENCE other.p", []),
    ("DROP SEQUENCE s, p", ["s", "p"]),
    ("ALTER TABLE shop.t /* by p */ ADD c INT", ["t", "p"]),
    ("ALTER TABLE shop.t /* by me */ ADD c INT", ["t"]),
    ("CREATE OR REPLACE UNIQUE INDEX p ON t (s)", ["t"]),
    ("CREATE PROCEDURE q() BEGIN DELETE FROM t; -- not p\nEND", []),
    ("CREATE OR REPLACE PACKAGE q AS /* of t */ PROCEDURE p(); END", []),
    ("ALTER DATABASE shop /* t */ UPGRADE DATA DIRECTORY NAME", ["t"]),
    ("DROP DATABASE `Shop`", ["t", "p", "s"]),
    ("DROP DATABASE t", []),
    ("DROP DATABASE t -- not shop", []),
    ("CREATE OR REPLACE DATABASE `Shop` CHARACTER SET utf8mb4 COMMENT 'p'", ["t", "p", "s"]),
    ("CREATE OR REPLACE SCHEMA t COMMENT 'shop'", []),
    ("CREATE OR REPLACE DATABASE \"shop\"", ["t", "p", "s"]),
    ("CREATE DATABASE shop", []),
    ("ALTER DATABASE shop COMMENT 't'", []),
])  # fmt: skip
def test_which_tables_a_statement_may_change(sql: str, tables: list[str]) -> None:
    ddl = DdlStatement(ChainPosition(0, "binlog.000001", 4), "shop", sql, 1, None, 0)
    assert [name for name in ("t", "p", "s") if may_change(ddl, "shop", name)] == sorted(
        tables, key="tps".index
    )


def test_a_quoted_name_may_contain_to() -> None:
    sql = "RENAME TABLE `a to b` TO c, d TO `e\tto f`"
    ddl = DdlStatement(ChainPosition(0, "binlog.000001", 4), "shop", sql, 1, None, 0)
    assert changed_tables(ddl) == [("shop", name) for name in ("a to b", "c", "d", "e\tto f")]


SWAP = "RENAME TABLE t TO old.`t 2`, p TO t, old.`t 2` TO p"
GHOST = "rename /* gh-ost */ table `shop`.`t` to `shop`.`_t_del`, `shop`.`_t_gho` to `shop`.`t`"


@pytest.mark.parametrize(("sql", "renamed"), [
    ("RENAME TABLE t TO p", {"shop.t": "shop.p"}),
    ("RENAME TABLES IF EXISTS t TO away.t;", {"shop.t": "away.t"}),
    (SWAP, {"shop.t": "shop.p", "shop.p": "shop.t"}),
    ("RENAME TABLE t TO p, p TO t", {}),
    (GHOST, {"shop.t": "shop._t_del", "shop._t_gho": "shop.t"}),
    ("ALTER TABLE t RENAME p", {"shop.t": "shop.p"}),
    ("ALTER TABLE t RENAME = p", {"shop.t": "shop.p"}),
    ("ALTER ONLINE TABLE other.t RENAME AS `a``b`", {"other.t": "shop.a`b"}),
    ("ALTER TABLE t ADD c INT, RENAME TO p, COMMENT = 1", {"shop.t": "shop.p"}),
    ("ALTER TABLE t RENAME COLUMN a TO b, RENAME INDEX c TO d", {}),
    ("ALTER TABLE t RENAME p, RENAME COLUMN a TO b", {"shop.t": "shop.p"}),
    ("ALTER TABLE t RENAME q, ADD c INT, RENAME TO p ; ", {"shop.t": "shop.p"}),
    ("ALTER TABLE t RENAME q, RENAME TO `p`", {"shop.t": "shop.p"}),
    ("ALTER TABLE t RENAME p, RENAME q r", None),
    ("ALTER TABLE t ADD COLUMN (a INT, rename INT, b INT)", None),
    ("ALTER TABLE t COMMENT ', RENAME TO p'", None),
    ("RENAME TABLE t TO p -- really", {"shop.t": "shop.p"}),
    ("RENAME TABLE t TO p /* open", None),
    ("RENAME TABLE t WAIT 5 TO p", {"shop.t": "shop.p"}),
    ("RENAME TABLE t NOWAIT TO a, p wait 5 TO t, a WAIT 0.5 TO p", {"shop.t": "shop.p", "shop.p": "shop.t"}),
    ("RENAME TABLE wait WAIT 5 TO `nowait`", {"shop.wait": "shop.nowait"}),
    ("ALTER TABLE t NOWAIT RENAME TO p", {"shop.t": "shop.p"}),
    ("ALTER TABLE t WAIT 5 ADD c INT, RENAME p", {"shop.t": "shop.p"}),
    ("ALTER TABLE nowait RENAME p", {"shop.nowait": "shop.p"}),
    ("RENAME TABLE t LATER TO p", None),
    ("DROP TABLE t", {}),
])  # fmt: skip
def test_which_tables_a_statement_renames(sql: str, renamed: dict[str, str] | None) -> None:
    ddl = DdlStatement(ChainPosition(0, "binlog.000001", 4), "shop", sql, 1, None, 0)
    found = renamed_tables(without_comments(ddl))
    named = None if found is None else {".".join(a): ".".join(b) for a, b in found.items()}
    assert named == renamed


@pytest.mark.parametrize(("sql", "text"), [
    ("DROP /* a */ TABLE/* 'b */t", "DROP   TABLE t"),
    ('DROP TABLE `/* a */`, "/* b */"', 'DROP TABLE `/* a */`, "/* b */"'),
    ("ALTER TABLE t COMMENT '''/* a */'", "ALTER TABLE t COMMENT '''/* a */'"),
    (r"ALTER TABLE t COMMENT '\' /* a */'", r"ALTER TABLE t COMMENT '\' /* a */'"),
    ("ALTER TABLE t COMMENT '-- # a', ADD b INT # b", "ALTER TABLE t COMMENT '-- # a', ADD b INT  "),
    ("-- one\nDROP TABLE t, --\tu\nv--w", " \nDROP TABLE t,  \nv--w"),
    ("DROP TABLE t --", "DROP TABLE t  "),
    ("/*!40000 DROP DATABASE IF EXISTS `shop`*/", " DROP DATABASE IF EXISTS `shop` "),
    ("DROP TABLE t /*!50100 , p /* not q */ , r */ /*! , s */", "DROP TABLE t  , p   , r    , s  "),
    ("DROP TABLE t /* open -- a", "DROP TABLE t /* open -- a"),
    ("DROP TABLE `t -- a", "DROP TABLE `t -- a"),
    ("SELECT 4 */ 2 -- a", "SELECT 4 */ 2  "),
])  # fmt: skip
def test_comments_are_ignored_or_executed(sql: str, text: str) -> None:
    assert text_without_comments(sql) == text


def test_the_sql_mode_decides_where_a_comment_begins() -> None:
    text = r"ALTER TABLE t COMMENT '\' -- '"
    assert text_without_comments(text) == text
    plain = r"ALTER TABLE t COMMENT '\'  "
    assert text_without_comments(text, MODE_NO_BACKSLASH_ESCAPES) == plain
    name = r'DROP TABLE "\" -- "'
    assert text_without_comments(name) == name
    assert text_without_comments(name, MODE_ANSI_QUOTES) == r'DROP TABLE "\"  '


def test_only_mariadb_executes_its_own_comments() -> None:
    sql = "DROP TABLE t /*M!100100 , p */"
    assert text_without_comments(sql, flavour="mariadb") == "DROP TABLE t  , p  "
    assert text_without_comments(sql, flavour="mysql") == "DROP TABLE t  "


def test_filters_do_not_lose_it(tmp_path: Path) -> None:
    log = StreamLog().gtid(1).query(CREATE).plain(2).gtid(3).query(ALTER).plain(4)
    path = log.write(tmp_path)
    everything = [CREATE.decode(), ALTER.decode()]
    for options in ({"thread": "999"}, {"since": "2100-01-01"}, {"server_id": "77"}):
        assert texts(path, **options) == everything


def test_failed_and_rolled_back_ddl_is_ignored(tmp_path: Path) -> None:
    log = StreamLog(version="10.11.6-MariaDB-log")
    log.maria(1, STANDALONE).add(QUERY, failed_query(CREATE, 1050))
    log.maria(2).query(CREATE).query(b"ROLLBACK")
    assert texts(log.write(tmp_path)) == ["Transaction"]


def test_a_drop_counts_although_its_group_ends_in_rollback(tmp_path: Path) -> None:
    """MariaDB logs it so after a failed CREATE OR REPLACE TABLE."""
    drop = b"DROP TABLE IF EXISTS `shop`.`t`/* Generated to handle failed CREATE OR REPLACE */"
    log = StreamLog(version="11.8.9-MariaDB-log")
    log.maria(1).query(drop).query(b"ROLLBACK")
    log.maria(2).rows().query(drop).query(b"ROLLBACK")
    assert texts(log.write(tmp_path)) == [drop.decode(), "Transaction"]


@pytest.mark.parametrize("log", [
    StreamLog(version="8.0.36").gtid(1).query(b"BEGIN").query(b"DROP TABLE IF EXISTS t"),
    StreamLog(version="5.5.68-MariaDB-log").query(b"BEGIN").query(b"DROP TABLE IF EXISTS t"),
    StreamLog(version="11.8.9-MariaDB-log").maria(1).query(b"SAVEPOINT a").query(b"DROP TABLE IF EXISTS t").query(b"ROLLBACK TO a"),
], ids=["MySQL", "no GTID", "undone"])  # fmt: skip
def test_any_other_drop_does_not_count_if_its_group_ends_in_rollback(
    tmp_path: Path, log: StreamLog
) -> None:
    path = log.query(b"ROLLBACK").write(tmp_path)
    assert outcomes(path) == ["rolled back"]
    assert texts(path) == []


@pytest.mark.parametrize(("code", "failed", "executed"), [
    (1051, "DROP TABLE `a`,`b` /* generated by server */", "DROP TABLE IF EXISTS `a`,`b` /* generated by server */"),
    (1051, "drop temporary table a, b", "drop temporary table IF EXISTS a, b"),
    (4092, "DROP VIEW v, w", "DROP VIEW IF EXISTS v, w"),
    (4092, "/* by a tool */ DROP VIEW v, w", "DROP VIEW IF EXISTS v, w"),
    (4092, "DROP VIEW /* old */ v, w", "DROP VIEW IF EXISTS /* old */ v, w"),
    (1217, "DROP TABLE `a`,`b`", None),  # one of them is a parent: the log does not show which
    (1005, "CREATE OR REPLACE TABLE `sh``op`.t(a INT)", "DROP TABLE IF EXISTS `sh``op`.t"),
    (1050, 'CREATE OR REPLACE TABLE "sh""op" . "t (1)" (a INT)', 'DROP TABLE IF EXISTS "sh""op"."t (1)"'),
    (1005, "CREATE /* a */ OR REPLACE -- b\n TABLE t (a INT)", "DROP TABLE IF EXISTS t"),
    (1062, "SET STATEMENT sql_mode='' FOR CREATE OR REPLACE TEMPORARY TABLE t SELECT 1", "DROP TEMPORARY TABLE IF EXISTS t"),
    (1005, "CREATE OR REPLACE TABLE t/*c*/(a INT)", "DROP TABLE IF EXISTS t"),
    (1005, "CREATE OR REPLACE TABLE d/**/. # x\n t (a INT)", "DROP TABLE IF EXISTS d.t"),
    (1005, "CREATE OR REPLACE TABLE`t`SELECT 1", "DROP TABLE IF EXISTS `t`"),
    (1005, "CREATE OR REPLACE TABLE t/*!50000 (a INT) */", "DROP TABLE IF EXISTS t"),
    (1005, "CREATE OR REPLACE TABLE t-- c\n(a INT)", "DROP TABLE IF EXISTS t"),
    (1005, "CREATE OR REPLACE TABLE d/*!.t*/ (a INT)", None),
    (1005, "CREATE OR REPLACE TABLE /*!50000 d.*/t (a INT)", None),
    (1005, "CREATE OR REPLACE TABLE `d`.'t' (a INT)", None),
    (1050, "CREATE TABLE t (a INT)", None),
])  # fmt: skip
def test_the_part_of_a_failed_statement_that_took_effect_counts(
    tmp_path: Path, code: int, failed: str, executed: str | None
) -> None:
    log = StreamLog(version="11.8.9-MariaDB-log").maria(1, STANDALONE)
    log.add(QUERY, failed_query(failed.encode(), code))
    assert texts(log.write(tmp_path)) == [*([executed] if executed else []), "Transaction"]


LATIN1, UTF8MB4, GBK = 8, 45, 28


@pytest.mark.parametrize(("collation", "failed", "executed"), [
    (LATIN1, "CREATE OR REPLACE TABLE gr\xfc\xdfe (a INT)".encode("latin1"), "DROP TABLE IF EXISTS gr\xfc\xdfe"),
    (LATIN1, "CREATE OR REPLACE TABLE t (a INT COMMENT '\xfc')".encode("latin1"), "DROP TABLE IF EXISTS t"),
    (UTF8MB4, b"CREATE OR REPLACE TABLE t (a BLOB DEFAULT '\xfc')", "DROP TABLE IF EXISTS t"),
    (0, b"CREATE OR REPLACE TABLE t (a BLOB DEFAULT '\xfc')", "DROP TABLE IF EXISTS t"),
    (UTF8MB4, b"CREATE OR REPLACE TABLE t\xfc (a INT)", None),
    (GBK, b"CREATE OR REPLACE TABLE `\x81\x60` (a INT)", "DROP TABLE IF EXISTS `\u4e63`"),
])  # fmt: skip
def test_a_failed_statement_is_read_in_its_character_set(
    tmp_path: Path, collation: int, failed: bytes, executed: str | None
) -> None:
    log = StreamLog(version="11.8.9-MariaDB-log").maria(1, STANDALONE)
    log.add(QUERY, failed_query(failed, 1005, collation))
    assert texts(log.write(tmp_path)) == [*([executed] if executed else []), "Transaction"]


@pytest.mark.parametrize("sql", [
    "DROP VIEW IF EXISTS v", "DROP VIEW  IF EXISTS v", "DROP VIEW /* c */ IF EXISTS w", "DROP VIEW -- c\nIF/**/EXISTS v",
    "DROP TABLE /*!50000 IF EXISTS */ t", "DROP SEQUENCE # c\n\tif exists s", "DROP TABLESPACE t", "DROP DATABASE d",
])  # fmt: skip
def test_a_drop_that_has_if_exists_is_unchanged(sql: str) -> None:
    assert with_if_exists(sql.encode()) == sql.encode()


@pytest.mark.parametrize(("sql", "completed"), [
    ("DROP TABLES a, b", "DROP TABLES IF EXISTS a, b"),
    ("DROP TABLE`if`", "DROP TABLE IF EXISTS`if`"),
    ("DROP SEQUENCE  iffy", "DROP SEQUENCE IF EXISTS  iffy"),
    ("DROP/**/VIEW # IF EXISTS\n v", "DROP/**/VIEW IF EXISTS # IF EXISTS\n v"),
])  # fmt: skip
def test_a_drop_without_if_exists_gets_it(sql: str, completed: str) -> None:
    assert with_if_exists(sql.encode()) == completed.encode()


def test_mysql_has_no_create_or_replace_table(tmp_path: Path) -> None:
    log = StreamLog(version="8.0.36").gtid(1)
    log.add(QUERY, failed_query(b"CREATE OR REPLACE TABLE t (a INT)", 1317))
    assert texts(log.write(tmp_path)) == ["Transaction"]


def test_a_two_phase_alter_counts_when_it_commits(tmp_path: Path) -> None:
    log = StreamLog(version="10.11.6-MariaDB-log")
    start, commit, rollback = b"\x02", b"\x04" + bytes(8), b"\x08" + bytes(8)
    for seq, extra in enumerate((start, rollback, start, commit)):
        log.add(162, seq.to_bytes(8, "little") + bytes(4) + b"\x21" + extra + bytes(8))
        log.query(ALTER if extra != commit else ALTER + b" -- committed")
    assert texts(log.write(tmp_path)).count(ALTER.decode() + " -- committed") == 1
    assert ALTER.decode() not in texts(tmp_path / "binlog.000001")


def test_inside_a_payload_it_stands_where_the_payload_does(tmp_path: Path) -> None:
    log = StreamLog().gtid(1)
    offset = len(log.data)
    log.payload(inner_event(QUERY, query_body(CREATE)))
    (statement,) = [item for item in passed(log.write(tmp_path)) if isinstance(item, DdlStatement)]
    assert statement.position.offset == offset


def test_set_statement_has_the_kind_of_its_statement() -> None:
    text = b"SET STATEMENT lock_wait_timeout=5, sql_mode=' FOR ' FOR ALTER TABLE t ADD a INT"
    assert without_set_statement(text) == b"ALTER TABLE t ADD a INT"
    assert statement_kind(text) == "DDL"
    assert statement_kind(b"SET STATEMENT a=1 FOR INSERT INTO t VALUES (1)") == "statement DML"
    assert statement_kind(b"SET STATEMENT a=1") == "maintenance"
    assert without_set_statement(CREATE) == CREATE


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        (
            "/* ApplicationName=DBeaver */ SET STATEMENT a=5 FOR TRUNCATE TABLE t",
            "TRUNCATE TABLE t",
        ),
        ("-- x\nSET STATEMENT a=5 FOR TRUNCATE t", "TRUNCATE t"),
        ("# x\nset /* x */ statement -- FOR\n a=5 for TRUNCATE t", "TRUNCATE t"),
        ("SET STATEMENT a=5 FOR/* x */ALTER TABLE t ADD b INT", "/* x */ALTER TABLE t ADD b INT"),
        ("SET STATEMENT a=5 /* FOR x */ FOR TRUNCATE t", "TRUNCATE t"),
        ('SET STATEMENT a=\'FOR b\\\' FOR \',b="FOR "" FOR "FOR TRUNCATE t', "TRUNCATE t"),
        ("SET STATEMENT a=SUBSTRING('abc' FROM 1 FOR 2), `FOR `=1 FOR TRUNCATE t", "TRUNCATE t"),
        ("SET STATEMENT @for=1, a.for=2 FOR TRUNCATE t", "TRUNCATE t"),
        ("SET STATEMENT a=1 FOR SET STATEMENT b=2 FOR TRUNCATE t", "TRUNCATE t"),
        ("/*!100100 SET STATEMENT a=5 FOR */ TRUNCATE t", "TRUNCATE t"),
        ("/*M!100100 SET */ STATEMENT a=5 FOR TRUNCATE t", "TRUNCATE t"),
        ("/*!100100 SET STATEMENT a=5 FOR TRUNCATE t */", "/*!100100 TRUNCATE t */"),
        ("/*M! SET STATEMENT */ a=/*! 5 FOR DROP */ TABLE t", "/*! DROP */ TABLE t"),
    ],
)
def test_comments_around_set_statement(text: str, statement: str) -> None:
    assert without_set_statement(text.encode()) == statement.encode()
    assert (
        statement_kind(text.encode()) == statement_kind(statement.encode()) in ("DDL", "TRUNCATE")
    )


@pytest.mark.parametrize(
    "text",
    [
        "SET STATEMENT a='b\\' FOR TRUNCATE t",  # with sql_mode NO_BACKSLASH_ESCAPES
        "SET STATEMENT a=(1 FOR TRUNCATE t",
        "SET STATEMENT a=1 /* FOR TRUNCATE t",
        f"SET STATEMENT a='{'x' * 70_000}' FOR TRUNCATE t",
    ],
)
def test_a_set_statement_that_is_not_understood_may_change_rows(text: str) -> None:
    assert statement_kind(text.encode()) == "statement DML"
