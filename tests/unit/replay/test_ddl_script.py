"""The statements that `binlake sql --ddl` prints: their bytes, and the comments that a client removes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from binlake.cli.main import main
from support.logs.hostile_log import GBK, LATIN1, NO_BACKSLASH_ESCAPES, query
from support.logs.log_builder import QUERY
from support.logs.stream_log import STANDALONE, StreamLog

TRIGGER = "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET @a = 1"
ON_ROWS = "TRIGGER tr BEFORE INSERT ON t FOR EACH ROW BEGIN"
UTF8MB4 = 45


def script(
    capfdbinary: pytest.CaptureFixture[bytes],
    folder: Path,
    *statements: bytes,
    collation: int = UTF8MB4,
    sql_mode: int = 0,
) -> tuple[int, bytes, str]:
    """The exit code of `sql --ddl` for a log of these statements, its script, and its messages."""
    log = StreamLog(version="11.8.9-MariaDB-log")
    for number, sql in enumerate(statements, 1):
        log.maria(number, STANDALONE)
        log.add(QUERY, query(sql, b"shop", collation=collation, sql_mode=sql_mode))
    code = main(["sql", "--ddl", str(log.write(folder))])
    out, err = capfdbinary.readouterr()
    return code, out, err.decode()


@pytest.mark.parametrize("sql", [
    f"CREATE DEFINER=`root`@`localhost` {ON_ROWS} /* x */ SET @a = 1; END",
    f"CREATE DEFINER=CURRENT_USER() {ON_ROWS} -- x\nSET @a = 1; END",
    f"/* head */ CREATE OR REPLACE {ON_ROWS} # x\nSET @a = 1; END",
    "CREATE DEFINER=`a(b`@`h` PROCEDURE p() BEGIN /* x */ END",
    "CREATE AGGREGATE FUNCTION IF NOT EXISTS f(x INT) RETURNS INT BEGIN /* x */ RETURN 1; END",
    "CREATE PACKAGE BODY pack AS /* x */ END",
    "CREATE EVENT event ON SCHEDULE EVERY 1 DAY DO /* x */ SET @a = 1",
    "ALTER EVENT event DO /* x */ SET @a = 1",
])  # fmt: skip
def test_comments_that_the_server_stores_are_reported(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, sql: str
) -> None:
    code, out, err = script(capfdbinary, tmp_path, sql.encode())
    assert (code, sql.encode() in out) == (0, True)
    assert "run it with the client's option --comments" in err


@pytest.mark.parametrize("sql", [
    "CREATE VIEW v AS SELECT 1 AS x FROM event /* c */",
    "ALTER DATABASE d /* event x */",
    "CREATE USER event IDENTIFIED BY 'x' /* c */",
    "CREATE TABLE event (a INT /* c */)",
    "DROP TRIGGER /* c */ tr",
    "ALTER PROCEDURE p /* c */ SQL SECURITY INVOKER",
    "CREATE PROCEDURE p() SELECT '/* text */ -- x', \"# \\\" /* */\", `/* x */`, 1--1",
    "CREATE PROCEDURE p() SELECT /*+ NO_ICP(t) */ 1 /*!50000 + 1 */ FROM t",
])  # fmt: skip
def test_other_comments_are_not_reported(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, sql: str
) -> None:
    code, _, err = script(capfdbinary, tmp_path, sql.encode())
    assert code == 0
    assert "--comments" not in err


@pytest.mark.parametrize(("sql", "collation", "sql_mode", "reported"), [
    (b"CREATE PROCEDURE p() SELECT 'a\\' /* x */", UTF8MB4, NO_BACKSLASH_ESCAPES, True),
    (b"CREATE PROCEDURE p() SELECT 'a\\' /* x */'", UTF8MB4, 0, False),
    (b"CREATE PROCEDURE p() SELECT '\x81\\' /* x */", GBK, 0, True),
    (b"CREATE PROCEDURE p() SELECT '\x81\\' /* x */'", LATIN1, 0, False),
])  # fmt: skip
def test_where_a_text_ends_depends_on_the_session(
    capfdbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
    sql: bytes,
    collation: int,
    sql_mode: int,
    reported: bool,
) -> None:
    code, _, err = script(capfdbinary, tmp_path, sql, collation=collation, sql_mode=sql_mode)
    assert (code, "--comments" in err) == (0, reported)


@pytest.mark.parametrize("body", [
    b"'" + b'\\"' * 500_000 + b"\\'",
    b"'" + b"\\'\\\"" * 250_000 + b"\\'",
    b"1" + b" + 'a' + \"b\"" * 90_000,
    b"1" + b" --1" * 250_000,
], ids=["quotes", "escapes", "texts", "dashes"])  # fmt: skip
@pytest.mark.parametrize(
    "head", [TRIGGER[:-1].encode(), b"CREATE PROCEDURE p() SELECT "], ids=["trigger", "routine"]
)
def test_a_statement_of_1_mb_takes_little_time(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, head: bytes, body: bytes
) -> None:
    begun = time.process_time()
    script(capfdbinary, tmp_path, head + body, sql_mode=NO_BACKSLASH_ESCAPES)
    assert time.process_time() - begun < 10  # 40 kB took 5 seconds


@pytest.mark.parametrize(("old", "new", "charset", "collation"), [
    ("café", "other", "utf-8", UTF8MB4),
    ("voilà", "été", "utf-8", UTF8MB4),
    ("voilà", "été", "latin-1", LATIN1),
    ("`乣`", "俙", "gbk", GBK),  # the second byte of each character is that of a backquote
])  # fmt: skip
def test_a_trigger_of_a_renamed_table_with_any_name(
    capfdbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
    old: str,
    new: str,
    charset: str,
    collation: int,
) -> None:
    trigger = TRIGGER.replace("ON t ", f"ON {old} ") + ", @b = 'é'"
    rename = f"RENAME TABLE {old} TO `{new}`"
    made = [text.encode(charset) for text in (trigger, rename)]
    code, out, err = script(capfdbinary, tmp_path, *made, collation=collation)
    assert code == 0, err
    assert trigger.replace(f"ON {old} ", f"ON `{new}` ").encode(charset) + b"\n" in out


def test_the_body_of_a_trigger_may_have_bytes_that_are_not_text(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    trigger = TRIGGER.encode() + b", @b = _binary'\xff\xfe'"
    code, out, err = script(capfdbinary, tmp_path, trigger, b"RENAME TABLE t TO `\xc3\xa9`")
    assert code == 0, err
    assert trigger.replace(b"ON t ", b"ON `\xc3\xa9` ") in out


def test_a_trigger_of_the_time_before_the_log_with_any_name(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    code, out, _ = script(capfdbinary, tmp_path, b"DROP TRIGGER \xe9t\xe9", collation=LATIN1)
    assert (code, b"DROP TRIGGER IF EXISTS `shop`.`\xe9t\xe9`\n" in out) == (0, True)


@pytest.mark.parametrize(("database", "first", "second"), [
    ("shop", (TRIGGER, LATIN1), ("RENAME TABLE t TO `Ω`", UTF8MB4)),
    ("Ω", ("DROP TRIGGER tr", LATIN1), ("SELECT 1", UTF8MB4)),
])  # fmt: skip
def test_a_name_that_the_statement_cannot_hold(
    capfdbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
    database: str,
    first: tuple[str, int],
    second: tuple[str, int],
) -> None:
    log = StreamLog(version="11.8.9-MariaDB-log").maria(1, STANDALONE)
    place = len(log.data)
    for number, (sql, collation) in enumerate((first, second), 2):
        log.add(QUERY, query(sql.encode(), database.encode(), collation=collation))
        log.maria(number, STANDALONE)
    assert main(["sql", "--ddl", str(log.write(tmp_path))]) == 1
    err = capfdbinary.readouterr().err.decode()
    assert "has characters that the statement's character set latin1 does not have" in err
    assert f"(file {tmp_path}/binlog.000001, event at {place})" in err
    assert "leave --ddl out, and run the statement separately" in err


def test_a_table_that_is_not_text_in_the_statement(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    made = TRIGGER.encode().replace(b" tr ", b" `\xff` ")
    code, _, err = script(capfdbinary, tmp_path, made, b"RENAME TABLE t TO u")
    assert code == 1
    assert "binlake cannot find its name in the statement as text in utf8mb4 (file " in err
