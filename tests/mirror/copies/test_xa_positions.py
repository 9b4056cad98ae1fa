"""Positions of a MySQL server whose commits wait between the log and the tables, also with prepared XA transactions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from binlake.snapshot.chunks import SnapshotOptions, TableChunk
from binlake.snapshot.read_session import begin_snapshot, open_session, settled_position
from dev.servers import Server, running
from support.servers.archiving import until
from support.servers.live import url_of
from support.servers.source_tables import source_tables

pytestmark = pytest.mark.server

WAIT_MS = 3000


@pytest.fixture(scope="module")
def server(provisioned: Any) -> Iterator[Server]:
    """A server whose commits can be made to wait between the log and InnoDB, for a replica that does not exist."""
    with running(provisioned("mysql-9.7")) as started:
        started.execute(
            "CREATE DATABASE xa",
            "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
            f"SET GLOBAL rpl_semi_sync_source_timeout = {WAIT_MS}",
        )
        yield started


@pytest.fixture
def table(server: Server) -> Iterator[Server]:
    server.execute("CREATE TABLE xa.t (id INT PRIMARY KEY)")
    yield server
    server.execute("SET GLOBAL rpl_semi_sync_source_enabled = 0", "XA ROLLBACK 'stays'")
    server.execute("XA ROLLBACK 'changed nothing'")
    server.execute("DROP TABLE xa.t")


def prepare(server: Server, xid: str, number: int) -> None:
    server.execute(
        f"XA START '{xid}'", f"INSERT INTO xa.t VALUES ({number})", f"XA END '{xid}'",
        f"XA PREPARE '{xid}'",
    )  # fmt: skip


@pytest.mark.parametrize("statement", ["XA COMMIT 'decided'", "INSERT INTO xa.t VALUES (2)"])
@pytest.mark.parametrize("find", [settled_position, begin_snapshot])
def test_a_commit_that_the_log_has_and_a_read_does_not_see_yet(
    table: Server, statement: str, find: Any
) -> None:
    prepare(table, "stays", 1)
    table.execute(
        "XA START 'changed nothing'", "XA END 'changed nothing'", "XA PREPARE 'changed nothing'"
    )
    if statement.startswith("XA"):
        prepare(table, "decided", 2)
    before = table.position()
    table.execute("SET GLOBAL rpl_semi_sync_source_enabled = 1")
    commit = threading.Thread(target=table.execute, args=[statement])
    with open_session(url_of(table)) as reader:
        commit.start()
        until(lambda: table.position() != before)
        end = table.position()
        assert reader.rows("SELECT id FROM xa.t") == [], "it waits between the log and InnoDB"
        position = find(reader)
        assert (position.file, position.offset) == end[:2]
        assert reader.rows("SELECT id FROM xa.t") == [("2",)]
    commit.join()


def test_a_row_that_an_insert_has_appended_to_a_table_without_transactions(server: Server) -> None:
    """Other sessions see it when the table is unlocked, after the statement is logged."""
    server.execute("CREATE TABLE xa.appended (id INT PRIMARY KEY) ENGINE=MyISAM")
    (source,) = source_tables(url_of(server), ["xa.appended"])
    chunk = TableChunk(source, SnapshotOptions(), 0, None, None)
    before = server.position()
    server.execute("SET GLOBAL rpl_semi_sync_source_enabled = 1")
    insert = threading.Thread(target=server.execute, args=["INSERT INTO xa.appended VALUES (1)"])
    insert.start()
    until(lambda: server.position() != before)
    assert server.rows("SELECT id FROM xa.appended") == [], "it waits for a replica"
    with chunk.read(url_of(server)) as reading:
        rows = [row for batch in reading for row in batch.to_pylist()]
    insert.join()
    server.execute("SET GLOBAL rpl_semi_sync_source_enabled = 0", "DROP TABLE xa.appended")
    assert rows == [{"id": 1}]
