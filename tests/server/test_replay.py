"""The output of `binlake mysqlbinlog`, replayed on a second server, creates the same databases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from binlake.cli.main import main
from dev.servers.server import Server, Session, running

pytestmark = pytest.mark.server

FLAVOURS = ["mysql-9.7", "mysql-5.6.24", "mariadb-11.8", "mariadb-10.11"]
_USER_DATABASES = """SELECT table_schema, table_name FROM information_schema.tables
    WHERE table_schema LIKE 'app%' AND table_type = 'BASE TABLE' ORDER BY 1, 2"""


@pytest.fixture(scope="module")
def target(server: Server) -> Iterator[Server]:
    """A second server of the same kind."""
    with running(server.name) as second:
        yield second


@pytest.fixture(autouse=True)
def _as_new(server: Server, target: Server) -> None:
    for each in (server, target):
        for (database,) in each.rows("SHOW DATABASES LIKE 'app%'"):
            each.execute(f"DROP DATABASE {database}")
        each.execute(each.kind.reset_statement)


def contents(server: Server) -> dict[str, object]:
    """Definition, checksum and number of rows of every table of ours."""
    found: dict[str, object] = {}
    for database, table in server.rows(_USER_DATABASES):
        name = ".".join("`" + str(part).replace("`", "``") + "`" for part in (database, table))
        ((_, definition),) = server.rows(f"SHOW CREATE TABLE {name}")
        found[name] = (
            re.sub(r" AUTO_INCREMENT=\d+", "", definition or ""),  # rows leave no gaps in it
            server.rows(f"CHECKSUM TABLE {name} EXTENDED"),
            server.rows(f"SELECT COUNT(*) FROM {name}"),
        )
    return found


def printed(capfdbinary: pytest.CaptureFixture[bytes], server: Server, *options: str) -> bytes:
    """The text of all logs of the server."""
    code = main(["mysqlbinlog", *options, *map(str, server.log_files())])
    out, err = capfdbinary.readouterr()
    assert code == 0, err
    return out


def assert_replays(
    capfdbinary: pytest.CaptureFixture[bytes],
    source: Server,
    target: Server,
    *options: str,
    expected_errors: frozenset[str] = frozenset(),
) -> None:
    """The text replays, without errors but the expected, to the same contents."""
    text = printed(capfdbinary, source, *options)
    done = target.feed(text, *(["--force"] if expected_errors else []))
    errors = re.findall(rb"^ERROR (\d+)", done.stderr, re.MULTILINE)
    assert {number.decode() for number in errors} == expected_errors, done.stderr
    before, after = contents(source), contents(target)
    assert before, "the workload made tables"
    assert after == before


def workload(server: Server, steps: Callable[[Server, Session, Session], None]) -> None:
    """Two sessions at work, whose events are mixed in the log."""
    server.execute("CREATE DATABASE app CHARACTER SET utf8mb4")
    with server.session("app") as one, server.session("app") as two:
        steps(server, one, two)


def statements(server: Server, one: Session, two: Session) -> None:
    for session in (one, two):
        session.execute("SET SESSION binlog_format = 'STATEMENT'")
    one.execute(
        "CREATE TABLE s (id INT AUTO_INCREMENT PRIMARY KEY, a BIGINT, b VARCHAR(200), r DOUBLE)",
        "CREATE TABLE m (id INT PRIMARY KEY, v INT) ENGINE=MyISAM",
        "CREATE TABLE times (id INT AUTO_INCREMENT PRIMARY KEY, ts TIMESTAMP(6) NULL,"
        " dt DATETIME(6), name VARCHAR(40))",
        "CREATE TABLE `o``dd` (`a``b` INT PRIMARY KEY, `sel ect` INT)",
        # variables of every type, and what a statement hands out
        "SET @i = -5, @u = 18446744073709551615, @d = 0.1e0, @dec = -12.345678, @n = NULL,"
        " @`we``ird` = 'x', @bytes = x'00ff27', @text = _utf8mb4'na\u00efve \u8868'",
        "INSERT INTO s (a, b, r) VALUES (@i, @text, @d), (1, @`we``ird`, @dec), (@n, HEX(@bytes), 0)",
        "INSERT INTO s (a, b) VALUES (NULL, @u)",
        "INSERT INTO s (a, r) SELECT FLOOR(RAND() * 1000000), RAND() FROM s",
        "UPDATE s SET a = LAST_INSERT_ID() WHERE id = 1",
        "INSERT INTO `o``dd` VALUES (1, 2)",
    )
    # temporary tables of the same name belong to their sessions
    one.execute("CREATE TEMPORARY TABLE t (v INT)", "INSERT INTO t VALUES (1)")
    two.execute("CREATE TEMPORARY TABLE t (v INT)", "INSERT INTO t VALUES (2)")
    one.execute("INSERT INTO t VALUES (10)", "INSERT INTO s (a) SELECT v FROM t")
    two.execute("INSERT INTO s (a) SELECT v * 100 FROM t", "DROP TEMPORARY TABLE t")
    one.execute("INSERT INTO s (a) SELECT SUM(v) FROM t")
    # the session's modes, character sets, time zone and locale
    one.execute(
        "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'",
        """INSERT INTO s (b) VALUES ('a' || 'b')""",
        "UPDATE \"s\" SET b = b || '!' WHERE id = 2",
        "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'",
        r"INSERT INTO s (b) VALUES ('C:\new')",
        "SET SESSION sql_mode = ''",
        "SET SESSION time_zone = '+05:30', SESSION timestamp = 1700000000.123456",
        "INSERT INTO times (ts, dt) VALUES (NOW(6), NOW(6))",
        "SET SESSION time_zone = '-11:00', SESSION lc_time_names = 'de_DE'",
        "INSERT INTO times (ts, dt, name) VALUES (NOW(6), NOW(6), DATE_FORMAT(NOW(), '%W %M'))",
        "SET SESSION timestamp = DEFAULT, SESSION time_zone = DEFAULT",
        "SET SESSION auto_increment_increment = 10, SESSION auto_increment_offset = 3",
        "INSERT INTO s (b) VALUES ('ten'), ('by ten')",
        "SET SESSION auto_increment_increment = 1, SESSION auto_increment_offset = 1",
        "SET SESSION foreign_key_checks = 0, SESSION unique_checks = 0",
        "INSERT INTO s (b) VALUES ('line\r\nend\t\x01')",
        "SET SESSION foreign_key_checks = 1, SESSION unique_checks = 1",
        "CREATE PROCEDURE p(n INT) BEGIN INSERT INTO s (a) VALUES (n); END",
        "CALL p(9)",
        "CREATE TRIGGER g BEFORE INSERT ON m FOR EACH ROW SET NEW.v = NEW.v + 1",
        "INSERT INTO m VALUES (1, 1)",
        "DROP PROCEDURE p",
        "START TRANSACTION",
        "INSERT INTO s (b) VALUES ('kept')",
        "SAVEPOINT `s p`",
        "INSERT INTO s (b) VALUES ('undone')",
        "ROLLBACK TO `s p`",
        "COMMIT",
    )
    # bytes that are no text in the character set that the text is read with
    with one.connection.cursor() as cursor:
        cursor.execute("SET NAMES latin1")
    one.connection.encoding = "latin1"
    one.execute("INSERT INTO s (b) VALUES ('na\u00efve')")
    with one.connection.cursor() as cursor:
        cursor.execute("SET NAMES gbk")
    one.connection.encoding = "gbk"
    one.execute("INSERT INTO s (b) VALUES ('\u8868')")
    one.connection.encoding = "utf8"
    one.execute("SET NAMES utf8mb4")


@pytest.mark.parametrize("server", FLAVOURS, indirect=True)
def test_statements(
    server: Server, target: Server, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    workload(server, statements)
    assert_replays(capfdbinary, server, target)


@pytest.mark.parametrize("server", FLAVOURS, indirect=True)
def test_load_data(
    server: Server, target: Server, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    """Files in several blocks, with what makes names and values awkward."""
    lines = "".join(f"{i},row {i}\u00e9\n" for i in range(30_000))
    data = tmp_path / "it's, a \\file.csv"
    data.write_text(lines, encoding="utf-8")
    quoted = str(data).replace("\\", "\\\\").replace("'", "\\'")

    def load(_server: Server, one: Session, _two: Session) -> None:
        one.execute(
            "SET SESSION binlog_format = 'STATEMENT'",
            "CREATE TABLE l (n INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(50), UNIQUE (a))"
            " CHARACTER SET utf8mb4",
            f"LOAD DATA INFILE '{quoted}' INTO TABLE l FIELDS TERMINATED BY ',' (a, b)",
            f"LOAD DATA INFILE '{quoted}' REPLACE INTO TABLE l FIELDS TERMINATED BY ','"
            " (a, @b) SET b = UPPER(@b)",
            "SET SESSION binlog_format = 'ROW'",
            f"LOAD DATA INFILE '{quoted}' IGNORE INTO TABLE l FIELDS TERMINATED BY ',' (a, b)",
        )

    workload(server, load)
    folder = tmp_path / "files"
    folder.mkdir()
    assert_replays(capfdbinary, server, target, f"--local-load={folder}")
    assert all(
        re.fullmatch(r"SQL_LOAD_MB-[0-9a-f]+-[0-9a-f]+", path.name) for path in folder.iterdir()
    )


@pytest.mark.parametrize("server", FLAVOURS, indirect=True)
def test_rows(server: Server, target: Server, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    old = server.name == "mysql-5.6.24"
    compression = {
        "mysql": "DO 0" if old else "SET SESSION binlog_transaction_compression = ON",
        "mariadb": "SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10",
    }[server.flavour]
    json_type = "TEXT" if old else "JSON"

    def rows(_server: Server, one: Session, two: Session) -> None:
        one.execute(
            "CREATE TABLE k (id INT PRIMARY KEY, c CHAR(10) CHARACTER SET latin1, b BINARY(4),"
            f" t LONGTEXT, j {json_type}, g GEOMETRY, e ENUM('a', 'it''s'), s SET('x', 'y', 'z'), bits BIT(9),"
            " d DECIMAL(30, 10), f FLOAT, y YEAR, ts TIMESTAMP(3) NULL, u BIGINT UNSIGNED)",
            "INSERT INTO k VALUES (1, 'caf\u00e9', x'00', 'it''s', '{\"a\": [1, null]}',"
            " ST_GeomFromText('POINT(1 2)'), 'it''s', 'x,z', b'101', -1.5, 0.1, 0,"
            " '2026-11-21 10:00:00.125', 18446744073709551615)",
            "INSERT INTO k (id) VALUES (2), (3)",
            "UPDATE k SET t = REPEAT('x', 100000) WHERE id > 1",
            "DELETE FROM k WHERE id = 3",
            "CREATE TABLE k2 LIKE k",
        )
        two.execute(
            "START TRANSACTION",
            "INSERT INTO k2 SELECT * FROM k",
            "UPDATE k, k2 SET k.t = 'both', k2.t = 'both' WHERE k.id = k2.id AND k.id = 1",
            "SAVEPOINT one",
            "DELETE FROM k2",
            "ROLLBACK TO one",
            "COMMIT",
            compression,
        )
        two.execute(
            "INSERT INTO k2 (id, t) VALUES (50, REPEAT('compressed ', 1000))",
            "UPDATE k2 SET t = CONCAT(t, '!')",
        )
        with server.session("app") as third:
            third.execute("INSERT INTO k2 (id, t) VALUES (51, REPEAT('compressed ', 1000))")
        two.execute(
            "XA START 'one', x'00ff27'",
            "INSERT INTO k2 (id) VALUES (60)",
            "XA END 'one', x'00ff27'",
            "XA PREPARE 'one', x'00ff27'",
            "XA COMMIT 'one', x'00ff27'",
        )

    workload(server, rows)
    assert_replays(capfdbinary, server, target, "-vv")


@pytest.mark.parametrize("server", FLAVOURS, indirect=True)
def test_a_statement_that_failed_fails_again(
    server: Server, target: Server, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The log contains the effect of a failed statement on a table without transactions, with its error."""

    def failing(_server: Server, one: Session, _two: Session) -> None:
        one.execute(
            "SET SESSION binlog_format = 'STATEMENT'",
            "CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM",
            "INSERT INTO m VALUES (3)",
        )
        with pytest.raises(Exception, match="Duplicate"):
            one.execute("INSERT INTO m VALUES (1), (2), (3), (4)")

    workload(server, failing)
    text = printed(capfdbinary, server)
    assert b"error_code=1062" in text
    assert_replays(capfdbinary, server, target, expected_errors=frozenset({"1062"}))


@pytest.mark.parametrize("server", FLAVOURS, indirect=True)
def test_a_part_of_a_log_and_another_name(
    server: Server, target: Server, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """From a position on, of one database, under another name, with new GTIDs."""
    server.execute(
        "CREATE DATABASE app",
        "CREATE DATABASE app_other",
        "CREATE TABLE app.a (id INT PRIMARY KEY)",
        "CREATE TABLE app_other.b (id INT PRIMARY KEY)",
    )
    _, start = server.position()
    with server.session() as session:
        session.execute(
            "START TRANSACTION",
            "INSERT INTO app.a VALUES (1), (2)",
            "INSERT INTO app_other.b VALUES (1)",
            "COMMIT",
            "DELETE app.a, app_other.b FROM app.a, app_other.b WHERE app.a.id = 1",
        )
    # MariaDB's tool takes the old name, MySQL's the new one
    chosen = "-dapp" if server.flavour == "mariadb" else "-dapp2"
    text = printed(
        capfdbinary, server, f"-j{start}", chosen, "--rewrite-db=app->app2", "--skip-gtids"
    )
    target.execute("CREATE DATABASE app2", "CREATE TABLE app2.a (id INT PRIMARY KEY)")
    done = target.feed(text)
    assert not done.stderr
    assert target.rows("SELECT id FROM app2.a") == [["2"]]


@pytest.mark.parametrize("server", FLAVOURS, indirect=True)
def test_database_leaves_out_statements_without_a_default_database(
    server: Server, target: Server, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """`-d` chooses the statements that the server's own tool chooses, and drops no other table."""
    both = ("CREATE DATABASE app_keep", "CREATE DATABASE app")
    keep = "CREATE TABLE app_keep.t (id INT PRIMARY KEY)"
    target.execute("CREATE DATABASE app_keep", keep)
    server.execute(
        *both,
        keep,
        "CREATE TABLE app_keep.emptied (id INT PRIMARY KEY)",
        "CREATE TRIGGER app_keep.g BEFORE INSERT ON app_keep.t FOR EACH ROW SET @a = 1",
        "DROP TRIGGER app_keep.g",
        "TRUNCATE app_keep.emptied",
        "DROP TABLE app_keep.t",
        "CREATE TABLE app.nowhere (id INT PRIMARY KEY)",
        "DROP TABLE app.nowhere",
        "SET SESSION binlog_format = 'STATEMENT'",
        "SET @x = 3",
        "INSERT INTO app_keep.emptied VALUES (@x)",
    )
    with server.session("app") as session:
        session.execute("CREATE TABLE here (id INT PRIMARY KEY)", "INSERT INTO here VALUES (1)")
    logs = [str(path) for path in server.log_files()]
    for options in (["-dapp"], ["-dapp_keep"], ["-dnone"], ["-dapp", "--rewrite-db=app->app2"],
                    ["-dapp2", "--rewrite-db=app->app2"]):  # fmt: skip
        theirs = server.read_log(*options, *logs).stdout
        assert main(["mysqlbinlog", *options, *logs]) == 0
        text, err = capfdbinary.readouterr()
        if server.name != "mysql-5.6.24" or len(options) == 1:  # it cannot rename
            assert _changing(text) == _changing(theirs), options
        assert b"without a default database" in err
    text = printed(capfdbinary, server, "-dapp", "--skip-gtids")
    done = target.feed(text)
    assert not done.stderr
    assert target.rows("SHOW TABLES FROM app_keep") == [["t"]]
    assert target.rows("SELECT * FROM app.here") == [["1"]]


_VERBS = (b"CREATE", b"DROP", b"TRUNCATE", b"INSERT", b"use ")


def _changing(text: bytes) -> list[bytes]:
    """The statements of a text that change something, and how many rows events it has."""
    lines = [line for line in text.splitlines() if line.startswith(_VERBS)]
    return [*lines, b"%d" % text.count(b"_rows: table id")]
