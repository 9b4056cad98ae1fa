"""`binlake sql` on real servers: undone, every table is as before; done again, as after."""

from __future__ import annotations

from pathlib import Path

import pytest

import binlake
from binlake.cli.main import main
from dev.servers import Server
from support.forked_commands import run_binlake
from support.servers.sql_workload import (
    DATABASE,
    DOCUMENT_CHANGES,
    SESSION,
    Workload,
    changed,
    contents,
    run_sql,
    schema_of,
    sql,
)

pytestmark = pytest.mark.server


def test_undo_and_redo_of_every_type(server: Server, tmp_path: Path) -> None:
    work = Workload(server, seed=1)
    _first_state(server, work)
    schema = tmp_path / "schema.sql"
    schema.write_text(f"USE {DATABASE};\n{schema_of(server)}", encoding="utf-8")
    before = contents(server)
    log = changed(server, *work.changes())
    after = contents(server)
    assert all(after[name] != before[name] for name in before if name != "changing")

    told = ["--schema", str(schema)]
    if server.name != "mysql-5.6.24":
        told = ["--generated", f"{DATABASE}.made.v", "--generated", "S"]
    undo = sql(log, "--undo", *told)
    server.run_script(undo)
    assert_same(contents(server), before)
    server.run_script(sql(log, *told, "--batch-bytes", "256k"))
    assert_same(contents(server), after)
    assert sql(log, "--undo", *told, "--batch-bytes", "256k") == undo


def test_no_member_beside_an_empty_member(server: Server, tmp_path: Path) -> None:
    """ENUM's 0 and its member '' look the same; undone and done again each row has its own number."""
    server.execute(
        f"DROP DATABASE IF EXISTS {DATABASE}",
        f"CREATE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.odd (n INT, e ENUM('x', ''))",
        f"CREATE TABLE {DATABASE}.keyed (e ENUM('x', '') PRIMARY KEY, n INT)",
    )
    if server.name != "mysql-5.6.24":
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
    schema = tmp_path / "schema.sql"
    schema.write_text(f"USE {DATABASE};\n{schema_of(server)}", encoding="utf-8")

    def numbers() -> list[list[list[str | None]]]:
        tables = (f"{DATABASE}.odd", f"{DATABASE}.keyed")
        return [server.rows(f"SELECT n, e + 0 FROM {t} ORDER BY 1, 2") for t in tables]

    lax = "SET SESSION sql_mode = ''"
    changed(server, lax, "INSERT INTO odd VALUES (1, 0), (1, ''), (2, 0), (2, 'x'), (3, ''), (4, NULL)",
            "INSERT INTO keyed VALUES (0, 1), ('', 2), ('x', 3)")  # fmt: skip
    before = numbers()
    assert ["1", "0"] in before[0]
    assert ["1", "2"] in before[0]
    log = changed(
        server, lax, "UPDATE odd SET n = 9 WHERE n = 1 AND e = 2", "DELETE FROM odd WHERE e + 0 = 0",
        "UPDATE odd SET e = 0 WHERE n = 3", "INSERT INTO odd VALUES (5, 0), (5, '')",
        "UPDATE keyed SET n = 7 WHERE e = 0", "DELETE FROM keyed WHERE e = 2",
    )  # fmt: skip
    after = numbers()
    server.run_script(sql(log, "--undo", "--schema", str(schema)))
    assert numbers() == before
    server.run_script(sql(log, "--schema", str(schema)))
    assert numbers() == after


PARTIAL = {
    "mysql-5.6.24": ("MINIMAL", "NOBLOB"),
    "mysql-9.7": ("MINIMAL", "NOBLOB"),
    "mariadb-10.11": ("MINIMAL", "NOBLOB"),
    "mariadb-11.8": ("MINIMAL", "NOBLOB", "FULL_NODUP"),
}


def test_partial_images_are_done_again(server: Server, tmp_path: Path) -> None:
    """Also JSON differences; and what such a log cannot undo is refused."""
    told = ["--generated", f"{DATABASE}.made.v", "--generated", "S"]
    for image in PARTIAL[server.name]:
        work = Workload(server, seed=2).only("integers", "temporals", "binaries", "documents")
        _first_state(server, work)
        if server.name == "mysql-5.6.24":
            schema = tmp_path / "schema.sql"
            schema.write_text(f"USE {DATABASE};\n{schema_of(server)}", encoding="utf-8")
            told = ["--schema", str(schema)]
        settings = [f"SET SESSION binlog_row_image = {image}"]
        if server.name == "mysql-9.7":
            settings += [
                "SET SESSION binlog_row_value_options = PARTIAL_JSON",
                *DOCUMENT_CHANGES[2:],
            ]
        log = changed(server, *settings, *work.changes())
        after = contents(server)
        _first_state(server, work)
        script = sql(log, *told)
        assert (b"JSON_REMOVE(`j`" in script) == (server.name == "mysql-9.7" and image == "MINIMAL")
        server.run_script(script)
        assert_same(contents(server), after)
        refused = run_sql(log, "--undo", *told)
        if image == "FULL_NODUP":
            server.run_script(refused.stdout)
            redone = contents(server)
            _first_state(server, work)
            assert_same(redone, contents(server))
        else:
            assert (refused.returncode, refused.stdout) == (1, b"")
            assert b"cannot be restored, because the log lacks its column" in refused.stderr


SERVER_CHANGES = (
    ("CREATE DATABASE other", "DDL"),
    ("CREATE VIEW v AS SELECT 1", "DDL"),
    ("CREATE TRIGGER tr BEFORE INSERT ON seen FOR EACH ROW SET NEW.a = 1", "DDL"),
    ("CREATE PROCEDURE p() SELECT 1", "DDL"),
    ("CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1", "DDL"),
    ("CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DISABLE DO SELECT 1", "DDL"),
    ("CREATE INDEX i ON seen (a)", "DDL"),
    ("TRUNCATE TABLE seen", "TRUNCATE"),
    ("CREATE USER ada IDENTIFIED BY 'Enchantress1'", "account management"),
    ("GRANT SELECT ON *.* TO ada", "account management"),
    ("SET PASSWORD FOR ada = {password}", "account management"),
    ("REVOKE SELECT ON *.* FROM ada", "account management"),
    ("CREATE ROLE reader", "account management"),
    ("RENAME USER ada TO eve", "account management"),
    ("DROP USER eve", "account management"),
    ("DROP ROLE reader", "account management"),
    ("DROP EVENT e", "DDL"),
    ("DROP DATABASE other", "DDL"),
)


def test_every_change_that_the_script_lacks_is_counted(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    server.execute(
        f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.seen (a INT)",
    )  # fmt: skip
    hashed = "'Countess123'" if server.name == "mysql-9.7" else "PASSWORD('Countess123')"
    for statement, kind in SERVER_CHANGES:
        if "ROLE" in statement and server.name == "mysql-5.6.24":
            continue
        log = changed(server, statement.format(password=hashed))
        assert main(["sql", log]) == 0
        assert capfd.readouterr() == ("", f"changes that rows cannot show: {kind}: 1\n"), statement
        assert main(["sql", log, "--start", "4", "--on-unshown", "error"]) == 1
        assert f"the log contains a change that rows cannot show: {kind}" in capfd.readouterr().err
        assert main(["sql", log, "--start", "4"]) == 0
        assert "nothing matches" not in capfd.readouterr().err
    log = changed(server, "CREATE USER ada", "DROP USER ada")
    assert main(["sql", log, "--table", f"{DATABASE}.*", "--on-unshown", "error"]) == 0
    assert "nothing matches" in capfd.readouterr().err


@pytest.mark.not_on("mysql-5.6.24")  # it has none
def test_generated_columns_are_never_set(server: Server, tmp_path: Path) -> None:
    """No metadata tells them: DDL before the start, a schema of `binlake schema`, the server do."""
    server.execute(
        "SET GLOBAL binlog_row_metadata = FULL",
        f"DROP DATABASE IF EXISTS {DATABASE}",
        f"CREATE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.made (id INT PRIMARY KEY, a INT, v INT AS /* so */ (a + 1),"
        f" s VARCHAR(20) GENERATED ALWAYS AS (concat(a, ')''x', id)) STORED)",
        f"CREATE TABLE {DATABASE}.keyless (a INT, v INT AS (a * 2) VIRTUAL, b VARCHAR(5))",
    )

    def held() -> list[list[list[str | None]]]:
        return [
            server.rows(f"SELECT * FROM {DATABASE}.{t} ORDER BY 1") for t in ("made", "keyless")
        ]

    changed(server, "INSERT INTO made (id, a) VALUES (1, 1), (2, 2)", "INSERT INTO keyless (a) VALUES (1), (2)")  # fmt: skip
    before = held()
    log = changed(server, "UPDATE made SET a = 7 WHERE id = 1", "DELETE FROM made WHERE id = 2",
                  "INSERT INTO made (id, a) VALUES (3, 3)", "UPDATE keyless SET b = 'x' WHERE a = 1",
                  "DELETE FROM keyless WHERE a = 2")  # fmt: skip
    after = held()
    all_logs = [str(path) for path in server.log_files()]
    schema = tmp_path / "schema.sql"
    printed = run_binlake("schema", *all_logs).stdout
    assert b"`v` int GENERATED ALWAYS AS (a + 1) VIRTUAL" in printed
    schema.write_bytes(printed)
    name = Path(log).name
    url = f"mysql://root@127.0.0.1:{server.port}/"
    ways = (
        [*all_logs, "--start", f"{name}:4", "--stop", f"{name}:{Path(log).stat().st_size}"],
        [log, "--schema", str(schema)],
        [log, "--schema", url],
        [f"{url}{name}", "--stop", f"{name}:{Path(log).stat().st_size}"],
    )
    for way in ways:
        server.run_script(sql(*way, "--undo"))
        assert held() == before
        server.run_script(sql(*way))
        assert held() == after


def _fresh(server: Server, *tables: str) -> None:
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")
    if server.name != "mysql-5.6.24":
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
    changed(server, *tables)


ACTIONS = (
    ("ON DELETE CASCADE", "DELETE FROM parent WHERE id = 1"),
    ("ON DELETE SET NULL", "DELETE FROM parent WHERE id = 1"),
    ("ON UPDATE SET NULL", "UPDATE parent SET id = 9 WHERE id = 1"),
    ("ON UPDATE CASCADE", "UPDATE parent SET id = 9 WHERE id = 1"),
)


@pytest.mark.parametrize(("action", "change"), ACTIONS)
def test_undo_refuses_unlogged_changes_of_cascades(
    server: Server, tmp_path: Path, action: str, change: str
) -> None:
    """MySQL 9.7 logs what they did; where it is not logged, the undo is refused. An ON UPDATE CASCADE
    runs backwards when the key gets its old value.
    """
    child = f"CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) {action})"  # fmt: skip
    _fresh(
        server, "CREATE TABLE parent (id INT PRIMARY KEY, a INT)", child,
        "INSERT INTO parent VALUES (1, 1), (2, 2)", "INSERT INTO child VALUES (10, 1), (20, 2)",
    )  # fmt: skip
    before = _held(server, "parent", "child")
    log = changed(server, change)
    assert _held(server, "parent", "child") != before
    logs = [str(path) for path in server.log_files()]
    place = ["--start", f"{Path(log).name}:4"]
    schema = tmp_path / "schema.sql"
    schema.write_text(f"USE {DATABASE};\n{schema_of(server)}", encoding="utf-8")
    url = f"mysql://root@127.0.0.1:{server.port}/"
    for way in ([*logs, *place], [log, "--schema", str(schema)], [log, "--schema", url]):
        run = run_sql(*way, "--undo")
        if server.name == "mysql-9.7" or action == "ON UPDATE CASCADE":
            assert run.returncode == 0, run.stderr.decode()
            continue
        assert (run.returncode, run.stdout) == (1, b""), way
        assert f"foreign key child_ibfk_1 of {DATABASE}.child is {action}" in run.stderr.decode()
        run = run_sql(*way, "--undo", "--force")
        assert run.returncode == 0
        assert run.stdout.count(b"`parent`") == 1
        assert b"cannot be restored" in run.stderr
    if server.name == "mysql-9.7" or action == "ON UPDATE CASCADE":
        server.run_script(run.stdout)
        assert _held(server, "parent", "child") == before
    # nothing is lost where no child can have changed
    harmless = changed(server, "UPDATE parent SET a = 7 WHERE id = 2", "INSERT INTO parent VALUES (3, 3)")  # fmt: skip
    server.run_script(sql(harmless, "--undo", "--schema", str(schema)))


def test_later_changes_of_undone_rows_are_counted_and_named(server: Server) -> None:
    _fresh(
        server, "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "CREATE TABLE u (a INT, b INT)",
        "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO u VALUES (1, 1), (2, 2)",
    )  # fmt: skip
    log = changed(
        server, "UPDATE t SET a = 10 WHERE id < 3", "UPDATE u SET b = 5 WHERE a = 1",
        "UPDATE t SET a = 11 WHERE id = 1", "UPDATE t SET a = 30 WHERE id = 3",
        "DELETE FROM u WHERE a = 1", "ALTER TABLE t ADD COLUMN c INT", "UPDATE t SET a = 12 WHERE id = 1",
    )  # fmt: skip
    first, second, third, *_ = binlake.open(log).transactions()
    logs = [str(path) for path in server.log_files()]
    both = ["--start", str(first.start), "--stop", str(third.start), "--undo"]
    run = run_sql(*logs, *both)
    assert run.returncode == 0, run.stderr.decode()
    told = run.stderr.decode()
    assert (
        f"{DATABASE}.t: 2 later changes of the same rows, which the undo ignores: `id` = 1 at"
        in told
    )
    assert f"{DATABASE}.u: 1 later change of the same rows" in told
    assert f"{DATABASE}.t: later DDL at {Path(log).name}:" in told
    quiet = run_sql(*logs, *both, "--no-check-later")
    assert (quiet.stdout, b"later" in quiet.stderr) == (run.stdout, False)
    single = run_sql(*logs, "--at", str(second.start), "--undo")
    assert f"{DATABASE}.t" not in single.stderr.decode()
    assert single.stderr.count(b"later") == 1


def test_undo_is_compared_with_the_server_first(server: Server) -> None:
    _fresh(
        server, "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), f FLOAT)", "CREATE TABLE u (a INT, b INT)",
        "INSERT INTO t VALUES (1, 'x', 1.1), (2, 'y', 2.2), (3, NULL, NULL)", "INSERT INTO u VALUES (1, 1)",
    )  # fmt: skip
    before = _held(server, "t", "u")
    log = changed(
        server, "UPDATE t SET a = 'X' WHERE id = 1", "UPDATE t SET id = 20 WHERE id = 2",
        "DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (4, 'it''s', 0.1)", "UPDATE u SET b = 2",
        "UPDATE t SET f = 7 WHERE id = 1",
    )  # fmt: skip
    logs = [str(path) for path in server.log_files()]
    url = f"mysql://root@127.0.0.1:{server.port}/"
    stop = str(list(binlake.open(log).transactions())[-1].end)
    undo = [*logs, "--start", f"{Path(log).name}:4", "--stop", stop, "--undo", "--verify", url]
    script = sql(*undo)
    for name, event in (("noisy", "UPDATE"), ("quiet", "DELETE")):  # the script updates u
        server.execute(f"CREATE TRIGGER {DATABASE}.{name} BEFORE {event} ON {DATABASE}.u FOR EACH ROW SET @x = 1")  # fmt: skip
    noisy = run_sql(*undo)
    assert (noisy.returncode, noisy.stdout) == (0, script)
    assert f"{DATABASE}.u: its triggers fire when the script runs" in noisy.stderr.decode()
    assert "changed: noisy. Drop them first" in noisy.stderr.decode()
    server.execute(f"DROP TRIGGER {DATABASE}.noisy", f"DROP TRIGGER {DATABASE}.quiet")
    with server.session(DATABASE) as session:
        session.execute("UPDATE t SET a = 'x' WHERE id = 1", "INSERT INTO t VALUES (2, 'y', 2.2), (3, 'z', 1)", "UPDATE u SET b = 3")  # fmt: skip
    run = run_sql(*undo)
    assert (run.returncode, run.stdout) == (1, b"")
    told = run.stderr.decode()
    assert "`id` = 1 has changed or is gone" in told
    assert "`id` = 2 exists" in told
    assert "`id` = 3 exists" in told
    assert f"{DATABASE}.u: 1 row on 127.0.0.1" in told
    assert "`id` = 4" not in told
    forced = run_sql(*undo, "--force")
    assert (forced.returncode, forced.stdout) == (1, script)
    with server.session(DATABASE) as session:
        session.execute("UPDATE t SET a = 'X' WHERE id = 1", "DELETE FROM t WHERE id IN (2, 3)", "UPDATE u SET b = 2")  # fmt: skip
    server.run_script(sql(*undo))
    assert _held(server, "t", "u") == before


def _held(server: Server, *tables: str) -> list[list[list[str | None]]]:
    return [server.rows(f"SELECT * FROM {DATABASE}.{name} ORDER BY 1") for name in tables]


@pytest.mark.not_on("mysql-5.6.24", "mysql-9.7")  # they have none
@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_sequences_go_forward_only(server: Server, metadata: str) -> None:
    server.execute(
        f"SET GLOBAL binlog_row_metadata = {metadata}",
        f"CREATE OR REPLACE DATABASE {DATABASE}",
    )
    kind = "AS SMALLINT " if server.name == "mariadb-11.8" else ""
    log = changed(
        server,
        "CREATE TABLE rows_of (id INT PRIMARY KEY)",
        "CREATE SEQUENCE `s 1` START WITH 10 CACHE 5",
        f"CREATE SEQUENCE s2 {kind}START WITH 3 INCREMENT BY -1 MINVALUE 1 MAXVALUE 3 CYCLE"
        " NOCACHE",
        "INSERT INTO rows_of VALUES (NEXTVAL(`s 1`)), (NEXTVAL(`s 1`))",
        "INSERT INTO rows_of SELECT -NEXTVAL(s2) FROM seq_1_to_5 LIMIT 1",
        "SELECT NEXTVAL(s2)", "SELECT NEXTVAL(s2)", "SELECT NEXTVAL(s2)",
        "SELECT SETVAL(`s 1`, 40)",
    )  # fmt: skip

    def held() -> list[list[list[str | None]]]:
        return [server.rows(f"SELECT * FROM {DATABASE}.{name} ORDER BY 1") for name in ("`s 1`", "s2", "rows_of")]  # fmt: skip

    after = held()
    run = run_sql(log, "--undo", "--table", f"{DATABASE}.*", "--start", _behind_ddl(log))
    assert run.returncode == 0, run.stderr.decode()
    assert b"does not set back sequences: work.s 1 (2 changes), work.s2" in run.stderr
    server.run_script(run.stdout)
    assert held() == [*after[:2], []]
    server.execute(
        f"DROP SEQUENCE {DATABASE}.`s 1`, {DATABASE}.s2",
        f"CREATE SEQUENCE {DATABASE}.`s 1` START WITH 10 CACHE 5",
        f"CREATE SEQUENCE {DATABASE}.s2 {kind}START WITH 3 INCREMENT BY -1 MINVALUE 1 MAXVALUE"
        " 3 CYCLE NOCACHE",
    )
    server.run_script(sql(log))
    assert held() == after


def _behind_ddl(log: str) -> str:
    """The first place of a log behind its DDL."""
    changes = [t for t in binlake.open(log).transactions() if any(s.kind == "DDL" for s in t.statements)]  # fmt: skip
    return str(changes[-1].end)


def _first_state(server: Server, work: Workload) -> None:
    server.execute(
        f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4"
    )
    if server.name != "mysql-5.6.24":
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
    documents = DOCUMENT_CHANGES[:2] if server.name == "mysql-9.7" else ()
    with server.session(DATABASE) as session:
        session.execute(*SESSION, *work.tables(), *documents, *work.first_rows())


def assert_same(found: dict[str, object], expected: dict[str, object]) -> None:
    assert found.keys() == expected.keys()
    for name, held in expected.items():
        assert found[name] == held, name


def test_children_of_rows_that_an_undo_deletes(server: Server) -> None:
    """A later transaction put rows under an inserted one: its undo says so."""
    server.execute(
        f"DROP DATABASE IF EXISTS {DATABASE}",
        f"CREATE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.parent (id INT PRIMARY KEY)",
        f"CREATE TABLE {DATABASE}.child (n INT, p INT, CONSTRAINT up FOREIGN KEY (p)"
        f" REFERENCES {DATABASE}.parent (id) ON DELETE CASCADE)",
    )
    start = "{}:{}".format(*server.position())
    server.execute(
        f"INSERT INTO {DATABASE}.parent VALUES (1), (2)",
        f"INSERT INTO {DATABASE}.parent VALUES (3)",
        f"INSERT INTO {DATABASE}.child VALUES (1, 1), (2, 2), (3, 3), (4, NULL)",
        f"UPDATE {DATABASE}.child SET p = 2 WHERE n = 3",
    )
    log = str(server.log_files()[-1])
    run = run_sql(log, "--undo", "--at", start)
    assert run.returncode == 0, run.stderr.decode()
    told = run.stderr.decode()
    assert (
        f"{DATABASE}.child: 3 later changes refer to rows of {DATABASE}.parent that the undo"
        " deletes"
        " (foreign key up, ON DELETE CASCADE)"
    ) in told
    for flags in (["--start", start], ["--at", start, "--no-check-later"]):
        run = run_sql(log, "--undo", *flags)
        assert (run.returncode, b"refer to rows" in run.stderr) == (0, False)
    # with only some tables, the changes of the others stay
    run = run_sql(log, "--undo", "--start", start, "--table", f"{DATABASE}.parent")
    assert run.returncode == 0, run.stderr.decode()
    assert f"{DATABASE}.child: 4 later changes refer to rows of {DATABASE}.parent" in (
        run.stderr.decode()
    )
    run = run_sql(log, "--undo", "--start", start, "--exclude-table", "x.y")
    assert (run.returncode, b"refer to rows" in run.stderr) == (0, False)
    ran = run_binlake("history", f"{DATABASE}.parent", "2", log, "--undo", "1")
    assert ran.returncode == 0, ran.stderr.decode()
    assert f"{DATABASE}.child: 2 later changes refer to rows" in ran.stderr.decode()
