"""`binlake sql --ddl` and triggers, events, routines and views: after the replay, SHOW CREATE prints the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.servers import Server, Session
from support.forked_commands import run_binlake

pytestmark = pytest.mark.server

Shown = dict[str, list[list[str | None]]]

#: Statements in the order of the log. The triggers change rows, so each would be seen if it ran again.
WORK = (
    "CREATE DATABASE objects DEFAULT CHARSET utf8mb4",
    "USE objects",
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, d VARCHAR(20))",
    "CREATE TABLE u (id INT PRIMARY KEY, n INT)",
    "CREATE TABLE `log;x` (n INT, w VARCHAR(200))",
    "INSERT INTO t VALUES (1, 1, 'x')",
    (
        "CREATE DEFINER='ops'@'%' TRIGGER t1 AFTER INSERT ON t FOR EACH ROW BEGIN /* ; */ INSERT INTO `log;x` VALUES (NEW.id, 'a;b\\'c'); -- remark;\n"
        " IF NEW.a > 3 THEN INSERT INTO `log;x` VALUES (NEW.a, 'big'); END IF; END"
    ),
    "CREATE TRIGGER gone BEFORE UPDATE ON t FOR EACH ROW SET NEW.d = UPPER(NEW.d)",
    "INSERT INTO t VALUES (2, 5, 'y'), (3, 2, 'z')",
    "UPDATE t SET d = 'low' WHERE id = 1",
    "DROP TRIGGER gone",
    "UPDATE t SET d = 'low' WHERE id = 2",
    "CREATE SQL SECURITY INVOKER VIEW v1 AS SELECT id, CONCAT(d, ';') AS c FROM t WHERE a > 0 WITH CHECK OPTION",
    "CREATE OR REPLACE ALGORITHM=TEMPTABLE DEFINER='ops'@'%' VIEW v2 AS SELECT v1.id, u.n FROM v1 LEFT JOIN u ON u.id = v1.id",
    "ALTER VIEW v2 AS SELECT v1.id FROM v1",
    "CREATE VIEW v3 AS SELECT 1 AS one",
    "DROP VIEW v3",
    (
        "CREATE DEFINER='ops'@'%' PROCEDURE p1(IN x INT, OUT y INT) COMMENT 'it''s; a // b' SQL SECURITY INVOKER BEGIN"
        " DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET y = -1; INSERT INTO u VALUES (x, x); SET y = x; END"
    ),
    "CALL p1(7, @y)",
    "ALTER PROCEDURE p1 COMMENT 'new'",
    "CREATE PROCEDURE p2() SELECT 1",
    "DROP PROCEDURE p2",
    "CREATE FUNCTION f1(x VARCHAR(10) CHARSET latin1) RETURNS VARCHAR(20) CHARSET utf8mb4 DETERMINISTIC RETURN CONCAT(x, 'é;')",
    "CREATE EVENT e1 ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01 00:00:00' ON COMPLETION PRESERVE COMMENT 'c;c' DO BEGIN DELETE FROM u; DELETE FROM t; END",
    "CREATE EVENT e2 ON SCHEDULE AT '2037-01-01 00:00:00' DO DELETE FROM u",
    "ALTER EVENT e2 RENAME TO e3",
    "ALTER EVENT e3 DISABLE",
    "CREATE EVENT e4 ON SCHEDULE EVERY 1 HOUR DO SET @x = 1",
    "DROP EVENT e4",
    "CREATE TABLE tt (id INT)",
    "CREATE TRIGGER ttt BEFORE INSERT ON tt FOR EACH ROW SET @q = 1",
    "DROP TABLE tt",
    "CREATE TRIGGER t4 BEFORE DELETE ON u FOR EACH ROW SET @q = 1",
    "RENAME TABLE u TO u2",
    "INSERT INTO u2 VALUES (50, 1)",
    "CREATE TABLE café (id INT)",
    "CREATE TRIGGER t5 BEFORE INSERT ON café FOR EACH ROW SET @q = 'é'",
    "RENAME TABLE café TO voilà",
    # these bytes are UTF-8, and the server reads them as latin1
    "SET NAMES latin1",
    "CREATE TABLE `crème` (id INT)",
    "CREATE TRIGGER t6 BEFORE INSERT ON `crème` FOR EACH ROW SET @q = 'é'",
    "SET NAMES utf8mb4",
    "RENAME TABLE `crÃ¨me` TO flan",
    "SET SESSION sql_mode='ANSI_QUOTES,PIPES_AS_CONCAT'",
    "CREATE FUNCTION f2() RETURNS VARCHAR(9) DETERMINISTIC RETURN 'a' || 'b'",
    'CREATE DEFINER="root"@"localhost" TRIGGER "odd ""name" BEFORE INSERT ON "t" FOR EACH ROW SET NEW."a" = NEW."a" + 1',
    'CREATE TRIGGER "dropped" AFTER INSERT ON "t" FOR EACH ROW INSERT INTO "log;x" VALUES (-1, "objects"."f2"())',
    "INSERT INTO t VALUES (4, 10, 'ansi')",
    'DROP TRIGGER "dropped"',
    'CREATE EVENT "e 5" ON SCHEDULE EVERY 1 DAY STARTS \'2037-01-01 00:00:00\' DO DELETE FROM "t"',
    "SET SESSION sql_mode=DEFAULT",
    "CREATE TRIGGER t2 AFTER INSERT ON t FOR EACH ROW FOLLOWS t1 INSERT INTO `log;x` VALUES (-NEW.id, 't2')",
    "CREATE TRIGGER t0 AFTER INSERT ON t FOR EACH ROW PRECEDES t1 INSERT INTO `log;x` VALUES (0, 't0')",
    "INSERT INTO t VALUES (9, 9, 'order')",
)
_CREATED = {"TRIGGER": 6}  # the column of SHOW CREATE that has the time


def names(session: Session) -> list[tuple[str, str]]:
    """The kind and the name of every object of the database."""
    schema = "information_schema"
    asked = {
        "TRIGGER": f"SELECT trigger_name FROM {schema}.triggers WHERE trigger_schema = 'objects'",
        "EVENT": f"SELECT event_name FROM {schema}.events WHERE event_schema = 'objects'",
        "PROCEDURE": f"SELECT routine_name FROM {schema}.routines WHERE routine_schema = 'objects' AND routine_type = 'PROCEDURE'",
        "FUNCTION": f"SELECT routine_name FROM {schema}.routines WHERE routine_schema = 'objects' AND routine_type = 'FUNCTION'",
        "VIEW": f"SELECT table_name FROM {schema}.views WHERE table_schema = 'objects'",
        "TABLE": f"SELECT table_name FROM {schema}.tables WHERE table_schema = 'objects' AND table_type = 'BASE TABLE'",
    }
    return [(kind, str(row[0])) for kind, query in asked.items() for row in session.rows(query)]


def shown(server: Server) -> Shown:
    """SHOW CREATE of every object, the order of triggers, and the rows."""
    found: Shown = {}
    with server.session("objects") as session:
        for kind, name in names(session):
            row = session.rows(f"SHOW CREATE {kind} `{name}`")[0]
            at = _CREATED.get(kind)
            found[f"{kind} {name}"] = [[one for i, one in enumerate(row) if i != at]]
        found["triggers"] = [row[:5] for row in session.rows("SHOW TRIGGERS")]
        for table in ("t", "u2", "`log;x`"):
            found[f"rows of {table}"] = session.rows(f"SELECT * FROM {table} ORDER BY 1, 2")
    return found


def script_of(server: Server) -> tuple[bytes, str]:
    """Do the work; the script of its log, and what the command prints on stderr."""
    server.execute("SET GLOBAL binlog_row_metadata = FULL", "DROP DATABASE IF EXISTS objects")
    if not server.rows("SELECT User FROM mysql.user WHERE User = 'ops'"):
        server.execute("CREATE USER ops@'%'", "GRANT ALL ON *.* TO ops@'%'")
    server.execute("FLUSH BINARY LOGS")
    log: Path = server.log_files()[-1]
    with server.session() as session:
        session.execute(*WORK)
    made = run_binlake("sql", log, "--ddl")
    assert made.returncode == 0, made.stderr.decode()
    return made.stdout, made.stderr.decode()


@pytest.mark.not_on("mysql-5.6.24")  # allows one trigger of each kind for a table
def test_objects_are_equal_after_a_replay(server: Server) -> None:
    script, remarks = script_of(server)
    assert "run it with the client's option --comments" in remarks
    held = shown(server)
    server.execute("DROP DATABASE objects")
    run = server.feed(script, "--comments")
    assert run.returncode == 0, run.stderr.decode()
    assert shown(server) == held


@pytest.mark.parametrize("server", ["mysql-9.7"], indirect=True)
def test_a_script_without_comments_in_objects_needs_no_option(server: Server) -> None:
    server.execute("DROP DATABASE IF EXISTS plain", "FLUSH BINARY LOGS")
    log = server.log_files()[-1]
    server.execute(
        "CREATE DATABASE plain",
        "CREATE TABLE plain.event (id INT /* here */, w VARCHAR(9) DEFAULT '--')",
        "CREATE TRIGGER plain.t BEFORE INSERT ON plain.event FOR EACH ROW SET NEW.w = '/* text */ -- '",
        "CREATE PROCEDURE plain.p() SELECT \"# a text\", '-- \\' x'",
    )
    made = run_binlake("sql", log, "--ddl")
    assert made.returncode == 0, made.stderr.decode()
    assert b"--comments" not in made.stderr
