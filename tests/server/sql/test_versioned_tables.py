"""`binlake sql` and MariaDB's system-versioned tables: their changes are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.servers import Server
from support.forked_commands import run_binlake
from support.servers.live import url_of
from support.servers.sql_workload import DATABASE, changed, run_sql, sql

pytestmark = [
    pytest.mark.server,
    pytest.mark.not_on("mysql-5.6.24", "mysql-9.7"),  # they have none
]


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


def test_versioned_tables_whose_period_has_other_names_are_refused(
    server: Server, tmp_path: Path
) -> None:
    """The server logs a DELETE as an update of the end of the period, which no statement can set."""
    server.execute(
        "SET GLOBAL binlog_row_metadata = FULL",
        f"CREATE OR REPLACE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.kept (id INT PRIMARY KEY, valid_from TIMESTAMP(6) GENERATED ALWAYS AS ROW START,"
        " `Valid To` TIMESTAMP(6) generated always as row end, PERIOD FOR SYSTEM_TIME (valid_from, `Valid To`))"
        " WITH SYSTEM VERSIONING",
        f"CREATE TABLE {DATABASE}.spelled (id INT PRIMARY KEY, ROW_START TIMESTAMP(6) GENERATED ALWAYS AS ROW START,"
        " Row_End TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (ROW_START, Row_End))"
        " WITH SYSTEM VERSIONING",
        f"CREATE TABLE {DATABASE}.bare (id INT PRIMARY KEY)",
        f"CREATE TABLE {DATABASE}.plain (id INT PRIMARY KEY, row_start INT, row_end INT)",
    )
    plain = changed(server, "INSERT INTO plain VALUES (1, 2, 3)")
    assert run_sql(plain).returncode == 1, "nothing shows that it is not versioned"
    assert b"INSERT INTO" in sql(plain, "--schema", url_of(server))
    schema = tmp_path / "schema.sql"
    printed = run_binlake("schema", *server.log_files())
    assert printed.returncode == 0, printed.stderr
    schema.write_bytes(printed.stdout)
    for table in ("kept", "spelled"):
        changed(server, f"INSERT INTO {table} (id) VALUES (1)")
        log = changed(server, f"DELETE FROM {table}")
        for options in ([], ["--schema", url_of(server)], ["--schema", str(schema)]):
            if not options and table == "kept":
                continue  # nothing shows that it is versioned
            for undo in ([], ["--undo"]):
                run = run_sql(log, *undo, *options)
                assert (run.returncode, run.stdout) == (1, b""), (table, options, undo)
                assert f"work.{table} is a system-versioned table".encode() in run.stderr
    # the schema that binlake prints is one that a server accepts
    server.execute(f"CREATE OR REPLACE DATABASE {DATABASE}")
    newest = printed.stdout.decode().rpartition("CREATE TABLE `work`.`kept`")[2].partition(";")[0]
    server.execute(f"CREATE TABLE {DATABASE}.kept{newest}")
    shown = server.rows(f"SHOW CREATE TABLE {DATABASE}.kept")[0][1] or ""
    assert "PERIOD FOR SYSTEM_TIME (`valid_from`, `Valid To`)" in shown
