"""`binlake sql` on real servers: undone, every table is as before; done again, as after."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dev.servers import Server
from sql_workload import DATABASE, SESSION, Workload, contents, schema_of

pytestmark = pytest.mark.server


def sql(*argv: str) -> bytes:
    """What `binlake sql` prints."""
    command = [sys.executable, "-m", "binlake.cli.main", "sql", *argv]
    run = subprocess.run(command, capture_output=True, check=False)
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
    server.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    if server.name != "mysql-5.6.24":
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
    with server.session(DATABASE) as session:
        session.execute(*SESSION, *work.tables(), *work.first_rows())
    schema = tmp_path / "schema.sql"
    schema.write_text(f"USE {DATABASE};\n{schema_of(server)}", encoding="utf-8")
    before = contents(server)
    log = changed(server, *work.changes())
    after = contents(server)
    assert all(after[name] != before[name] for name in before)

    told = ["--schema", str(schema)]
    if server.name != "mysql-5.6.24":
        told = ["--generated", f"{DATABASE}.made.v", "--generated", "S"]
    undo = sql(log, "--undo", *told)
    server.run_script(undo)
    assert_same(contents(server), before)
    small = sql(log, *told, "--batch-bytes", "16k")
    assert small == sql(log, *told)
    server.run_script(small)
    assert_same(contents(server), after)
    server.run_script(sql(log, "--undo", *told, "--batch-bytes", "16k"))
    assert_same(contents(server), before)


def assert_same(found: dict[str, object], expected: dict[str, object]) -> None:
    assert found.keys() == expected.keys()
    for name, held in expected.items():
        assert found[name] == held, name
