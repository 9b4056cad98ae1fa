"""`binlake sql` on real servers: undone, every table is as before; done again, as after."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dev.servers import Server
from sql_workload import DATABASE, DOCUMENT_CHANGES, SESSION, Workload, contents, schema_of

pytestmark = pytest.mark.server


def run_sql(*argv: str) -> subprocess.CompletedProcess[bytes]:
    """Run `binlake sql`."""
    command = [sys.executable, "-m", "binlake.cli.main", "sql", *argv]
    return subprocess.run(command, capture_output=True, check=False)


def sql(*argv: str) -> bytes:
    """What `binlake sql` prints."""
    run = run_sql(*argv)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


def changed(server: Server, *statements: str) -> str:
    """Run statements with a log of their own; the log's path."""
    server.execute("FLUSH BINARY LOGS")
    log = server.log_files()[-1]
    with server.session(DATABASE) as session:
        session.execute(*SESSION, *statements)
    server.execute("FLUSH BINARY LOGS")
    return str(log)


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
            assert b"cannot be restored: the log lacks its column" in refused.stderr


@pytest.mark.not_on("mysql-5.6.24", "mysql-9.7")  # they have none
def test_history_of_versioned_tables_is_refused(server: Server) -> None:
    server.execute(
        "SET GLOBAL binlog_row_metadata = FULL",
        f"CREATE OR REPLACE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.kept (id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING",
    )
    log = changed(server, "INSERT INTO kept VALUES (1, 1)", "UPDATE kept SET a = 2")
    run = run_sql(log)
    assert (run.returncode, run.stdout) == (1, b"")
    assert b"work.kept is a system-versioned table" in run.stderr
    assert sql(log, "--exclude-table", f"{DATABASE}.kept") == b""


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
