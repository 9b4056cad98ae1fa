"""Positions of a MariaDB server that run ahead of the rows, or that its log does not have."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from binlake.snapshot.chunks import SnapshotOptions, TableChunk
from binlake.snapshot.read_session import begin_snapshot, open_session, settled_position
from binlake.source.replica.connection import ServerConnection
from binlake.values.position import Position
from dev.servers import Server, running
from support.servers.archiving import until
from support.servers.live import tcp_url, url_of
from support.servers.source_tables import source_tables

pytestmark = pytest.mark.server

WAIT_MS = 700
LOG_BYTES = 4096


@pytest.fixture(scope="module")
def server(provisioned: Any) -> Iterator[Server]:
    """A server whose commits can be made to wait between the log and the tables, for a replica that does not exist."""
    with running(provisioned("mariadb-11.8")) as started:
        started.execute(
            "CREATE DATABASE ahead",
            "CREATE USER few@'127.0.0.1' IDENTIFIED BY 'secret'",
            "GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO few@'127.0.0.1'",
            f"SET GLOBAL rpl_semi_sync_master_timeout = {WAIT_MS}",
            f"SET GLOBAL max_binlog_size = {LOG_BYTES}",
        )
        yield started


@pytest.fixture(params=["with PROCESS", "without PROCESS"])
def url(server: Server, request: pytest.FixtureRequest) -> str:
    if request.param == "with PROCESS":
        return url_of(server)
    return tcp_url(server, "few", "secret", ssl_mode="preferred")


@pytest.fixture
def table(server: Server) -> Iterator[Server]:
    server.execute(
        "CREATE TABLE ahead.t (id INT PRIMARY KEY, v VARCHAR(2000))",
        "CREATE TABLE ahead.appended (id INT PRIMARY KEY) ENGINE=MyISAM",
        "CREATE TABLE ahead.logged (id INT PRIMARY KEY) ENGINE=Aria",
    )
    yield server
    server.execute("SET GLOBAL rpl_semi_sync_master_enabled = 0")
    server.execute("DROP TABLE IF EXISTS ahead.t, ahead.appended, ahead.logged, ahead.made")


def fill_log(server: Server, up_to: int = LOG_BYTES - 500) -> None:
    """Begin a log, and write nearly as much into it as a log may have."""
    server.execute("FLUSH BINARY LOGS")
    server.settle()
    size = up_to - server.position()[1] - 250
    server.execute(f"REPLACE INTO ahead.t VALUES (-1, REPEAT('x', {size // 2}))")
    server.execute(f"REPLACE INTO ahead.t VALUES (-2, REPEAT('x', {size // 2}))")


@contextmanager
def committing(server: Server, statement: str, wait_point: str = "AFTER_SYNC") -> Iterator[None]:
    """A statement in another session, whose commit waits for a replica."""
    server.execute(
        f"SET GLOBAL rpl_semi_sync_master_wait_point = '{wait_point}'",
        "SET GLOBAL rpl_semi_sync_master_enabled = 1",
    )
    before = server.position()
    commit = threading.Thread(target=server.execute, args=[statement])
    commit.start()
    try:
        until(lambda: server.position() != before)
        yield
    finally:
        commit.join()


def is_in_log(server: ServerConnection, position: Position) -> bool:
    gtids = server.value(f"SELECT BINLOG_GTID_POS('{position.file}', {position.offset})")
    sizes = {log.name: log.size_bytes for log in server.logs()}
    return gtids is not None and position.offset <= sizes[position.file]


@pytest.mark.parametrize("find", [settled_position, begin_snapshot])
def test_the_last_transaction_of_a_log_is_visible_before_the_next_log(
    table: Server, url: str, find: Callable[[ServerConnection], Position]
) -> None:
    """The server begins a log before the transaction that has filled the old one is visible."""
    fill_log(table)
    log = table.position()[0]
    with (
        open_session(url) as reader,
        committing(table, "INSERT INTO ahead.t VALUES (1, REPEAT('y', 900))"),
    ):
        until(lambda: table.position()[0] != log)
        assert reader.rows("SELECT id FROM ahead.t WHERE id > 0") == [], "it waits for a replica"
        position = find(reader)
        seen = reader.rows("SELECT id FROM ahead.t WHERE id > 0")
        is_before = position.file == log
        assert is_in_log(reader, position)
    if find is begin_snapshot:
        assert seen == ([] if is_before else [("1",)])
    else:
        assert is_before or seen == [("1",)]


@pytest.mark.parametrize("find", [settled_position, begin_snapshot])
def test_a_statement_that_fills_a_log(
    table: Server, url: str, find: Callable[[ServerConnection], Position]
) -> None:
    """The server reports the name of the new log with the offset in the old one."""
    fill_log(table)
    log = table.position()[0]
    with open_session(url) as reader, table.session() as other:
        while table.position()[0] == log:
            other.execute("ANALYZE TABLE ahead.t")
        position = find(reader)
        assert is_in_log(reader, position)


@pytest.mark.parametrize("name", ["appended", "logged"])
def test_rows_that_an_insert_has_appended(table: Server, url: str, name: str) -> None:
    """Other sessions see them when the table is unlocked, after the statement is logged."""
    (source,) = source_tables(url, [f"ahead.{name}"])
    chunk = TableChunk(source, SnapshotOptions(), 0, None, None)
    with committing(table, f"INSERT INTO ahead.{name} VALUES (1)", "AFTER_COMMIT"):
        end = table.position()
        with chunk.read(url) as reading:
            rows = [row["id"] for batch in reading for row in batch.to_pylist()]
            position = (reading.position.file, reading.position.offset)
    assert rows == [1] or position < end
