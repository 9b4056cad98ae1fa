"""Scripts made of hostile logs, run by the servers' own clients: nothing but the changes happens."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.cli.main import main
from dev.servers.server import Server
from support.logs.hostile_log import DROP, MARIADB, MARK, MYSQL, SHELL, TEXTS, all_logs

pytestmark = pytest.mark.server

_FINE = 64  # the most characters of a name
_WITH_CRLF = 3  # the one of TEXTS that a client does not read as it is


@pytest.fixture
def canary(server: Server) -> Iterator[Server]:
    """A server with a database that must survive, which is in no log."""
    with server.session() as session:
        session.execute(
            "SET sql_log_bin = 0",
            "DROP DATABASE IF EXISTS canary",
            "CREATE DATABASE canary",
            "CREATE TABLE canary.t (a INT)",
        )
    yield server
    assert server.rows("SHOW TABLES IN canary") == [["t"]]


def run_client(server: Server, script: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    """The server's own client on a script; it goes on after errors, as an attacker hopes."""
    command = [
        *server.kind.client_command(), f"--socket={server.run / 'server.sock'}", "--user=root",
        "--force", *options,
    ]  # fmt: skip
    return subprocess.run(command, input=script, capture_output=True, check=False)


def printed(capfdbinary: pytest.CaptureFixture[bytes], *command: str) -> bytes:
    """The output of a command, whether it ends in an error or not."""
    code = main(list(command))
    out, err = capfdbinary.readouterr()
    assert code in (0, 1), err
    assert b"\x1b" not in err
    return out


def test_made_up_logs(
    canary: Server, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    version = MARIADB if canary.flavour == "mariadb" else MYSQL
    scripts = []
    for number, (name, data) in enumerate(all_logs(version)):
        path = tmp_path / f"binlog.{number + 1:06d}"
        path.write_bytes(data)
        options = ["-vv", "--print-table-metadata"]
        scripts.append((name, printed(capfdbinary, "mysqlbinlog", *options, str(path))))
        scripts += [
            (name, printed(capfdbinary, "sql", *undo, str(path))) for undo in ([], ["--undo"])
        ]
    for name, script in scripts:
        if script:
            done = run_client(canary, script)  # without --binary-mode, which forbids commands
            assert MARK.encode() not in done.stdout, (name, script)
            assert canary.rows("SHOW DATABASES LIKE 'canary'"), (name, script)


def test_names_that_servers_allow(
    canary: Server, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Made by the server, replayed by its client: the same tables and rows, and nothing else."""
    for (database,) in canary.rows("SHOW DATABASES LIKE 'app%'"):
        canary.execute(f"DROP DATABASE {_quoted(str(database))}")
    canary.execute(canary.kind.reset_statement)
    if canary.name != "mysql-5.6.24":
        canary.execute("SET GLOBAL binlog_row_metadata = FULL")
    names = [text[:_FINE] for text in TEXTS]
    for number, name in enumerate(names):
        with canary.session() as session:
            session.execute(
                f"CREATE DATABASE app{number} CHARACTER SET utf8mb4",
                f"USE app{number}",
                f"CREATE TABLE {_quoted(name)} (id INT PRIMARY KEY, {_quoted('c' + name[:60])} TEXT)",
            )
    canary.execute("FLUSH BINARY LOGS")
    for number, name in enumerate(names):
        with canary.session(f"app{number}") as session:
            session.execute(
                f"INSERT INTO {_quoted(name)} VALUES (1, {_literal(name)}), (2, {_literal(SHELL)})",
                f"UPDATE {_quoted(name)} SET {_quoted('c' + name[:60])} = {_literal(DROP)} WHERE id = 2",
                f"SAVEPOINT {_quoted(name)}",
            )
    canary.execute("FLUSH BINARY LOGS")  # replays go to another log
    files = list(map(str, canary.log_files()[:-1]))
    script = printed(capfdbinary, "mysqlbinlog", "-vv", "--skip-gtids", *files) \
        if canary.flavour == "mysql" else printed(capfdbinary, "mysqlbinlog", "-vv", *files)  # fmt: skip
    before = _contents(canary)
    assert len(before) == len(names)
    for number in range(len(names)):
        canary.execute(f"DROP DATABASE app{number}")
    done = run_client(canary, script, "--default-character-set=gbk", "--binary-mode")
    assert not done.stderr, done.stderr
    assert MARK.encode() not in done.stdout
    assert _contents(canary) == before
    schema = tmp_path / "schema.sql"
    schema.write_bytes(printed(capfdbinary, "schema", *files))
    for number in range(len(names)):
        canary.execute(f"DROP DATABASE app{number}", f"CREATE DATABASE app{number}")
    done = run_client(canary, schema.read_bytes(), "--default-character-set=gbk", "--binary-mode")
    assert not done.stderr, done.stderr
    assert list(_contents(canary)) == list(before)
    refused = main(["sql", "--schema", str(schema), *files])
    assert (refused, b"CR LF" in capfdbinary.readouterr()[1]) == (1, True)
    told = ["--schema", str(schema), "--exclude-table", f"app{_WITH_CRLF}.*"]
    done = run_client(
        canary, printed(capfdbinary, "sql", *told, *files), "--default-character-set=gbk"
    )
    assert not done.stderr, done.stderr
    for name in before:
        rows = [] if name.startswith(f"app{_WITH_CRLF}.") else before[name][1]
        assert canary.rows(f"SELECT * FROM {name}") == rows
    done = run_client(canary, printed(capfdbinary, "sql", "--undo", *told, files[-1]))
    assert not done.stderr, done.stderr
    for name in before:
        assert canary.rows(f"SELECT * FROM {name}") == []


def _contents(server: Server) -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[Any, Any]] = {}
    for database, table in server.rows(
        "SELECT table_schema, table_name FROM information_schema.tables"
        " WHERE table_schema LIKE 'app%' ORDER BY 1"
    ):
        name = f"{database}.{_quoted(str(table))}"
        found[name] = (
            server.rows(f"SHOW CREATE TABLE {name}"),
            server.rows(f"SELECT * FROM {name}"),
        )
    return found


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
