"""`binlake sql --ddl` on real servers: what the script makes is what the log's server had."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from dev.servers import RefusedError, Server
from support.forked_commands import run_binlake

pytestmark = pytest.mark.server

#: Statements in the order of the log. Triggers change rows, so each would be seen if it ran again.
WORK = (
    "CREATE DATABASE script CHARACTER SET utf8mb4",
    "USE script",
    "CREATE TABLE parents (id INT PRIMARY KEY, a INT{computed}) ENGINE=InnoDB",
    "CREATE TABLE children (id INT PRIMARY KEY, p INT, CONSTRAINT up FOREIGN KEY (p) REFERENCES parents (id) ON DELETE CASCADE) ENGINE=InnoDB",
    "CREATE TABLE seen (n INT, at_least DATETIME)",
    "INSERT INTO parents (id, a) VALUES (1, 1), (2, 2)",
    "INSERT INTO children VALUES (10, 1), (20, 2)",
    "CREATE TRIGGER see AFTER INSERT ON parents FOR EACH ROW BEGIN INSERT INTO seen (n) VALUES (NEW.id); INSERT INTO seen (n) VALUES (-NEW.id); END",
    "CREATE TRIGGER see_child BEFORE UPDATE ON children FOR EACH ROW SET NEW.p = NEW.p",
    "CREATE TRIGGER gone BEFORE DELETE ON seen FOR EACH ROW SET @gone = 1",
    "INSERT INTO parents (id, a) VALUES (3, 3)",
    # the place decides: the same statement, other columns
    "ALTER TABLE parents ADD COLUMN late TIMESTAMP NULL DEFAULT '2020-02-02 02:02:02'",
    "INSERT INTO parents (id, a) VALUES (4, 4)",
    "ALTER TABLE parents ADD COLUMN made DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP",
    "UPDATE parents SET a = a * 10",
    "DELETE FROM parents WHERE id = 1",
    "DROP TRIGGER gone",
    "RENAME TABLE children TO kids",
    "INSERT INTO kids VALUES (30, 3)",
    # the session's variables: '||' concatenates, a backslash is one, another zone and character set
    "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES', time_zone = '+05:00'",
    "CREATE TABLE \"zoned\" (a VARCHAR(20) DEFAULT 'back\\slash', t TIMESTAMP NULL DEFAULT '2021-01-01 00:00:00')",
    "CREATE VIEW both_of AS SELECT p.id || 'x' AS x, k.id FROM parents p JOIN kids k ON k.p = p.id",
    "INSERT INTO zoned VALUES (DEFAULT, DEFAULT)",
    "SET SESSION sql_mode = '', time_zone = '+00:00', foreign_key_checks = 0",
    "CREATE TABLE early (id INT PRIMARY KEY, r INT, FOREIGN KEY (r) REFERENCES late_one (id)) ENGINE=InnoDB",
    "CREATE TABLE late_one (id INT PRIMARY KEY) ENGINE=InnoDB",
    "SET SESSION foreign_key_checks = 1",
    "SET NAMES latin1",
    "CREATE TABLE words (w VARCHAR(9) CHARACTER SET utf8mb4 DEFAULT 'na\xefve', n INT) COMMENT 'd\xe9j\xe0'",
    "SET NAMES utf8mb4",
    "INSERT INTO words (n) VALUES (1)",
    "CREATE TABLE copied ENGINE=InnoDB AS SELECT id, a FROM parents WHERE id > 2",
    "CREATE TABLE lost AS SELECT 1 AS one",
    "INSERT INTO lost VALUES (2)",
    "TRUNCATE TABLE lost",
    "INSERT INTO lost VALUES (3)",
    "CREATE PROCEDURE add_one(IN x INT) BEGIN INSERT INTO parents (id, a) VALUES (x, x); END",
    "CALL add_one(7)",
    "CREATE FUNCTION one_more(x INT) RETURNS INT DETERMINISTIC RETURN x + 1",
    "CREATE EVENT soon ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01 00:00:00' DO INSERT INTO seen (n) VALUES (99)",
    "CREATE EVENT never ON SCHEDULE EVERY 1 YEAR DO SET @a = 1",
    "ALTER EVENT soon ON SCHEDULE EVERY 1 YEAR STARTS '2038-01-01 00:00:00'",
    "DROP EVENT never",
    "CREATE INDEX by_a ON parents (a)",
    "DROP TABLE early, late_one",
    "CREATE USER 'reader'@'localhost' IDENTIFIED BY 'Enchantress1'",
    "GRANT SELECT ON script.* TO 'reader'@'localhost'",
    "GRANT INSERT ON seen TO 'reader'@'localhost'",
    "CREATE TABLE `odd ``name; -- x` (`a;b` INT)",
    "INSERT INTO `odd ``name; -- x` VALUES (5)",
)
TABLES = ("parents", "kids", "seen", "zoned", "words", "copied", "lost", "`odd ``name; -- x`")


def run_sql(*argv: str) -> subprocess.CompletedProcess[bytes]:
    return run_binlake("sql", *argv)


def forget(server: Server, *databases: str) -> None:
    """Drop what a script makes."""
    for database in databases:
        server.execute(f"DROP DATABASE IF EXISTS {database}")
    if server.rows("SELECT User FROM mysql.user WHERE User = 'reader'"):
        server.execute("DROP USER reader@localhost")


def state(server: Server, database: str = "script") -> dict[str, list[list[str | None]]]:
    """Definitions and contents of everything in a database, and the account's privileges."""
    found: dict[str, list[list[str | None]]] = {}
    with server.session(database) as session:
        session.execute("SET time_zone = '+00:00'")
        found["database"] = session.rows(f"SHOW CREATE DATABASE {database}")
        for table in TABLES:
            found[table] = session.rows(f"SHOW CREATE TABLE {table}")
            found[f"{table} rows"] = session.rows(f"SELECT * FROM {table} ORDER BY 1, 2" if table not in ("lost", TABLES[-1]) else f"SELECT * FROM {table} ORDER BY 1")  # fmt: skip
        found["view"] = session.rows("SHOW CREATE VIEW both_of")
        found["view rows"] = session.rows("SELECT * FROM both_of ORDER BY 1, 2")
        found["triggers"] = [row[:5] for row in session.rows("SHOW TRIGGERS")]
        found["events"] = [row[:2] + row[3:10] for row in session.rows("SHOW EVENTS")]
        for kind, name in (("PROCEDURE", "add_one"), ("FUNCTION", "one_more")):
            found[name] = session.rows(f"SHOW CREATE {kind} {name}")
        found["grants"] = session.rows("SHOW GRANTS FOR reader@localhost")
    return found


def work(server: Server) -> str:
    """Do the work, and return the path of a log with nothing else in it."""
    if server.name != "mysql-5.6.24":
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
    forget(server, "script", "restored")
    server.execute("FLUSH BINARY LOGS")
    log = str(server.log_files()[-1])
    old = server.name == "mysql-5.6.24"
    computed = "" if old else ", c INT AS (a * 2), d INT AS (id + 1) STORED"
    with server.session() as session:
        session.execute(*(text.format(computed=computed) for text in WORK))
    server.execute("FLUSH BINARY LOGS")
    return log


def test_the_script_makes_the_same_server(server: Server) -> None:
    log = work(server)
    held = state(server)
    assert {row[0] for row in held["triggers"]} == {"see", "see_child"}
    assert len(held["seen rows"]) == 6  # of 3, 4 and 7: the triggers ran once
    made = run_sql(log, "--ddl", "--on-unshown", "error")
    assert made.returncode == 0, made.stderr.decode()
    assert b"cannot show" not in made.stderr
    forget(server, "script")
    server.run_script(made.stdout)
    assert state(server) == held
    assert run_sql(log, "--ddl", "--batch-bytes", "4k").stdout == made.stdout


def test_a_part_of_the_log_after_a_backup_without_triggers(server: Server) -> None:
    """Triggers of the backup that the log drops need not be there."""
    if server.name != "mysql-5.6.24":
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
    forget(server, "script")
    tables = ("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE seen (n INT)")
    trigger = "CREATE TRIGGER see AFTER INSERT ON t FOR EACH ROW INSERT INTO seen VALUES (NEW.id)"
    server.execute("CREATE DATABASE script")
    with server.session("script") as session:
        session.execute(*tables, trigger)
        start = "{}:{}".format(*server.position())
        session.execute(
            "INSERT INTO t VALUES (1)",
            "DROP TRIGGER see",
            "INSERT INTO t VALUES (2)",
            trigger,
            "INSERT INTO t VALUES (3)",
            "ALTER TABLE t RENAME TO u, ADD COLUMN note VARCHAR(5) DEFAULT 'x'",
            "INSERT INTO u (id) VALUES (4)",
        )
        held = [session.rows(f"SELECT * FROM {name} ORDER BY 1") for name in ("u", "seen")]
        text = session.rows("SHOW CREATE TRIGGER see")[0][2]
    logs = [str(path) for path in server.log_files() if path.name >= start.partition(":")[0]]
    made = run_sql(*logs, "--ddl", "--start", start)
    assert made.returncode == 0, made.stderr.decode()
    forget(server, "script")
    server.execute("CREATE DATABASE script")
    with server.session("script") as session:
        session.execute(*tables)
        server.run_script(made.stdout)
        assert [session.rows(f"SELECT * FROM {n} ORDER BY 1") for n in ("u", "seen")] == held
        made_text = session.rows("SHOW CREATE TRIGGER see")[0][2]
        session.execute("INSERT INTO u (id) VALUES (9)")
        assert session.rows("SELECT COUNT(*) FROM seen WHERE n = 9") == [["1"]]
    assert (made_text or "").replace("`script`.`u`", "`u`").split() == (text or "").split()


def test_into_a_database_of_another_name(server: Server) -> None:
    """Also where statements name it; where that could be another name, the script is refused."""
    if server.name != "mysql-5.6.24":
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
    forget(server, "script", "restored")
    server.execute("FLUSH BINARY LOGS")
    log = str(server.log_files()[-1])
    server.execute(
        "CREATE DATABASE IF NOT EXISTS script",
        "CREATE TABLE script.t (id INT PRIMARY KEY)",
        "CREATE TABLE script.k (r INT, FOREIGN KEY (r) REFERENCES `script`.t (id))",
        "INSERT INTO script.t VALUES (1)",
        "ALTER TABLE script.t ADD COLUMN script VARCHAR(20) DEFAULT 'script.t'",
        "RENAME TABLE script.k TO script.l",
        "INSERT INTO script.l VALUES (1)",
        "CREATE TRIGGER script.tr BEFORE INSERT ON script.t FOR EACH ROW SET @a = 1",
        "CREATE USER reader@localhost IDENTIFIED BY 'Enchantress1'",
        "GRANT SELECT ON `script`.* TO reader@localhost",
    )
    with server.session("script") as session:
        session.execute("CREATE VIEW v AS SELECT id FROM t")
    made = run_sql(log, "--ddl", "--rewrite-db", "script->restored")
    assert made.returncode == 0, made.stderr.decode()
    forget(server)
    server.run_script(made.stdout)
    assert server.rows("SELECT * FROM restored.t") == [["1", "script.t"]]
    assert server.rows("SELECT * FROM restored.l") == [["1"]]
    assert server.rows("SELECT * FROM restored.v") == [["1"]]
    assert [row[0] for row in server.rows("SHOW TRIGGERS FROM restored")] == ["tr"]
    assert any(
        "`restored`.*" in (r[0] or "") for r in server.rows("SHOW GRANTS FOR reader@localhost")
    )
    assert server.rows("SELECT COUNT(*) FROM script.t") == [["1"]]

    at = "{}:{}".format(*server.position())
    alias = "SELECT MAX(script.r) FROM script.l AS script"
    server.execute(
        f"CREATE TRIGGER script.other AFTER DELETE ON script.t FOR EACH ROW SET @a = ({alias})"
    )
    refused = run_sql(log, "--ddl", "--rewrite-db", "script->restored", "--start", at)
    assert refused.returncode == 1
    assert b"--rewrite-db: binlake cannot determine whether script" in refused.stderr
    assert f"/{at.partition(':')[0]}, event at".encode() in refused.stderr


#: Statements that fail, and yet drop tables or views: (servers that know them, statement).
FAILING = (
    ("", "DROP TABLE dropped, nowhere, dropped_too"),
    ("", "DROP VIEW seen_through, nowhere"),
    (
        "mariadb",
        "CREATE OR REPLACE TABLE doubled (PRIMARY KEY (x)) SELECT 1 AS x UNION ALL SELECT 1",
    ),
    (
        "mariadb",
        "CREATE OR REPLACE TABLE refused (a INT, FOREIGN KEY (a) REFERENCES nowhere (b)) ENGINE=InnoDB",
    ),
    (
        "mariadb",
        'CREATE OR REPLACE TABLE "in ansi" ("a" INT, FOREIGN KEY ("a") REFERENCES nowhere (b)) ENGINE=InnoDB',
    ),
)


def test_statements_that_failed_after_they_had_dropped_tables(server: Server) -> None:
    forget(server, "script")
    server.execute("FLUSH BINARY LOGS")
    log = str(server.log_files()[-1])
    names = ("kept", "dropped", "dropped_too", "doubled", "refused", "`in ansi`")
    server.execute("CREATE DATABASE script CHARACTER SET utf8mb4")
    with server.session("script") as session:
        session.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in names))
        session.execute("CREATE VIEW seen_through AS SELECT 1 AS one")
        session.execute("DROP VIEW  IF EXISTS nowhere", "DROP VIEW /* c */ IF EXISTS nowhere")
        session.execute("SET SESSION sql_mode = 'ANSI_QUOTES'")
        for flavour, statement in FAILING:
            if server.flavour.startswith(flavour):
                with pytest.raises(RefusedError):
                    session.execute(statement)
        session.execute("INSERT INTO kept VALUES (1)")
        held = session.rows("SHOW TABLES")
    server.execute("FLUSH BINARY LOGS")
    made = run_sql(log, "--ddl", "--on-unshown", "error")
    assert made.returncode == 0, made.stderr.decode()
    forget(server, "script")
    server.run_script(made.stdout)
    assert server.rows("SHOW TABLES FROM script") == held
    left = {name for (name,) in held} - {"seen_through"}
    assert _names_of_the_schema(log) == left


def _names_of_the_schema(log: str) -> set[str | None]:
    """The tables that the output of `binlake schema` leaves at its end."""
    command = [sys.executable, "-m", "binlake.cli.main", "schema", log]
    text = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    return {
        name
        for name in re.findall(r"CREATE TABLE `script`\.`([\w ]+)`", text)
        if not re.search(rf"`script`\.`{name}` is not known: dropped", text)
    }
