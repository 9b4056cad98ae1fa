"""Every type of the matrix, read as a snapshot: the values of the log's reader, and the server's own."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import binlake
from binlake.snapshot.chunks import SnapshotOptions, chunks_of
from binlake.snapshot.tables import SourceTable
from binlake.values.options import ReadOptions
from dev.golden.oracle import snapshot
from dev.golden.types import Table, families
from dev.servers import Server
from support.oracles.oracle import differences, snapshot_of
from support.oracles.typed_rows import shown_rows, without_partial_dates
from support.servers.live import url_of
from support.servers.source_tables import source_tables
from support.values.random_values import with_random_values

pytestmark = pytest.mark.server

DATABASE = "types"
EDGES = 24
_TYPES: tuple[dict[str, str], ...] = ({}, {"zero_date": "text", "time": "text"}, {"time": "micros"})


@pytest.fixture(scope="module")
def filled(server: Server) -> list[Table]:
    """A table of each family, with edge values, NULLs and random values."""
    rng = random.Random(4711)
    tables = [with_random_values(table, rng, 6) for table in families(server)]
    server.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    with server.session(DATABASE) as session:
        session.execute("SET SESSION sql_mode = ''", "SET SESSION time_zone = '+00:00'")
        for table in tables:
            session.execute(table.create(), f"INSERT INTO `{table.name}` VALUES {', '.join(table.rows(EDGES))}")  # fmt: skip
    server.settle()
    return tables


def read(server: Server, table: SourceTable, options: SnapshotOptions) -> pa.Table:
    batches = []
    for chunk in chunks_of(url_of(server), table, options):
        with chunk.read(url_of(server)) as reading:
            batches += list(reading)
    return pa.Table.from_batches(batches, table.arrow_schema).sort_by("id")


@pytest.mark.parametrize("given", _TYPES, ids=str)
def test_a_snapshot_has_the_values_of_the_log(
    server: Server, filled: list[Table], given: dict[str, str]
) -> None:
    options = ReadOptions.parse(given)
    log = url_of(server, server.position()[0])
    for table in source_tables(url_of(server), [f"{DATABASE}.*"], options):
        logged = binlake.open(log, metadata=False, **given).to_arrow(table.full_name)
        logged = logged.sort_by("id")
        found = read(server, table, SnapshotOptions(chunk_rows=7, batch_rows=5))
        assert found.schema.equals(logged.schema), table.full_name
        assert found.equals(logged), table.full_name


def test_a_snapshot_has_the_values_of_select(server: Server, filled: list[Table]) -> None:
    compared = 0
    for table in source_tables(url_of(server), [f"{DATABASE}.*"]):
        with server.session(DATABASE) as session:
            seen = snapshot(session, DATABASE, table.name)
        wanted = without_partial_dates(snapshot_of({"label": "now", "file": "", "pos": 0, **seen}))
        key = wanted.key()
        assert key is not None
        by_key = {int(row[key.place]): row for row in wanted.rows}
        for batch in read(server, table, SnapshotOptions()).to_batches():
            for row in shown_rows(batch):
                want = by_key.pop(row["id"])
                for column in wanted.columns:
                    assert differences(column, want, row[column.name]) is None
                    compared += 1
        assert not by_key
    assert compared > 1000
