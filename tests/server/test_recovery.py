"""docs/recovery.md on real servers: a dump and the logs since, restored to any moment."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import binlake as binlog
from binlake.values.options import parse_file_position
from dev.servers import Server

pytestmark = pytest.mark.server

TABLES = ("orders", "notes")
PAUSED = 6  # before this transaction a second passes: some servers log whole seconds only
Contents = list[list[list[str | None]]]


def binlake(command: str, *argv: str) -> str:
    """What a command prints; it must succeed."""
    run = subprocess.run(
        [sys.executable, "-m", "binlake.cli.main", command, *argv], capture_output=True, check=False
    )
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout.decode()


class Shop:
    """A database with a dump, logs since in several files, and what it held in between.

    `held[i]` is what it held before transaction `i` since the dump, whose first row change is
    `changes[i]`.
    """

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        if server.name != "mysql-5.6.24":
            server.execute("SET GLOBAL binlog_row_metadata = FULL")
        self._create()
        server.execute(
            "CREATE TABLE shop.orders (id INT PRIMARY KEY, state VARCHAR(20), price DECIMAL(9,2))",
            "CREATE TABLE shop.notes (t TEXT)",
            "INSERT INTO shop.orders VALUES (1, 'new', 9.99)",
            "INSERT INTO shop.notes VALUES ('old'), ('old'), (NULL)",
        )
        file, pos = server.position()
        self.dump_position = f"{file}:{pos}"
        self.dump, schema = _dumped(server)
        self.schema = folder / "schema.sql"
        self.schema.write_bytes(b"USE shop;\n" + schema)
        self.held = [self.contents()]
        for number in range(4):
            self._change(
                f"INSERT INTO orders VALUES ({number + 10}, 'it''s', {number}.50)",
                f"UPDATE orders SET state = 'round {number}' WHERE id < 12",
            )
            self._change("DELETE FROM notes LIMIT 1")
            self._change(f"INSERT INTO notes VALUES ('n{number}'), ('n')")
            if number % 2:
                server.execute("FLUSH BINARY LOGS")
        server.execute("DROP TABLE shop.orders")
        self.logs = []
        for path in server.log_files():  # what comes later is not of this shop
            (folder / path.name).write_bytes(path.read_bytes())
            self.logs.append(str(folder / path.name))
        since = parse_file_position(self.dump_position)
        *self.changes, self.drop = binlog.open(self.logs, start=since).transactions()
        assert len(self.changes) == len(self.held) - 1
        assert self.drop.statements
        assert len({change.start.file for change in self.changes}) == 2

    def _create(self) -> None:
        self.server.execute(
            "DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop CHARACTER SET utf8mb4"
        )

    def _change(self, *statements: str) -> None:
        if len(self.held) - 1 == PAUSED:
            time.sleep(1.1)
        with self.server.session("shop") as session:
            session.execute("BEGIN", *statements, "COMMIT")
        self.held.append(self.contents())

    def contents(self) -> Contents:
        with self.server.session("shop") as session:
            return [session.rows(f"SELECT * FROM {table} ORDER BY 1, 1") for table in TABLES]

    def sql(self, *options: str) -> str:
        """What `binlake sql` prints of the logs."""
        return binlake("sql", *self.logs, "--schema", str(self.schema), *options)

    def restored(self, *options: str) -> Contents:
        """Load the dump and apply the logs as the options say."""
        script = self.sql("--start", self.dump_position, *options)
        self._create()
        self.server.run_script(self.dump, "shop")
        self.server.run_script(script.encode())
        return self.contents()


def test_point_in_time_recovery(server: Server, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path)
    before, after = shop.held[PAUSED : PAUSED + 2]
    at, following = shop.changes[PAUSED : PAUSED + 2]

    # just before the DROP TABLE
    assert shop.restored("--stop", str(shop.drop.start), "--on-unshown", "error") == shop.held[-1]
    # a position: exclusive, and inclusive
    assert shop.restored("--stop", str(at.start)) == before
    assert shop.restored("--stop", str(following.start)) == after
    # a time: exclusive; inclusive is the next moment
    until = f"@{at.commit_us // 1_000_000}.{at.commit_us % 1_000_000:06}"
    assert shop.restored("--until", until) == before
    if server.name == "mysql-9.7":
        until = f"@{at.commit_us // 1_000_000}.{at.commit_us % 1_000_000 + 1:06}"
        assert shop.restored("--until", until) == after
    # a GTID: inclusive, and exclusive
    if at.gtid is not None:
        through = _through(at.gtid)
        assert shop.restored("--gtid", through) == after
        assert shop.restored("--gtid", through, "--exclude-gtid", at.gtid) == before


def test_undo_instead_of_a_restore(server: Server, tmp_path: Path) -> None:
    """The server's own table is taken back; the DROP TABLE after it cannot be."""
    shop = Shop(server, tmp_path)
    start = str(shop.changes[PAUSED].start)
    with pytest.raises(AssertionError, match="rows cannot show: DDL"):
        shop.sql("--undo", "--start", start)
    assert shop.restored() == shop.held[-1]
    undo = shop.sql("--undo", "--start", start, "--stop", str(shop.drop.start))
    server.run_script(undo.encode())
    assert shop.contents() == shop.held[PAUSED]


def _dumped(server: Server) -> tuple[bytes, bytes]:
    """A dump, and one without data."""
    if (
        server.name == "mysql-5.6.24"
    ):  # it comes without a mysqldump, and the others need newer servers
        with server.session("shop") as session:
            schema = "".join(f"{session.rows(f'SHOW CREATE TABLE {t}')[0][1]};\n" for t in TABLES)
        data = "INSERT INTO orders VALUES (1, 'new', 9.99);\nINSERT INTO notes VALUES ('old'), ('old'), (NULL);\n"
        return (schema + data).encode(), schema.encode()
    options = ["--set-gtid-purged=OFF"] if server.flavour == "mysql" else []
    return server.dump("shop", *options), server.dump("shop", "--no-data", *options)


def _through(gtid: str) -> str:
    """The GTID set of everything up to a GTID."""
    if ":" in gtid:
        source, _, number = gtid.rpartition(":")
        return f"{source}:1-{number}"
    domain, server_id, number = gtid.split("-")
    return f"{domain}-{server_id}:1-{number}"
