"""A mirror into a REST catalog: the commands, kills, and what Spark, PyIceberg and DuckDB read."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from binlake.mirror import resync
from dev.servers import Server
from mirror.killed_mirror import OF_A_REQUEST, Kill, killed
from support.servers.live import url_of
from support.spark.mirror_commands import MirrorCommands
from support.spark.mirrored import (
    RestLake,
    Writer,
    iceberg_jar,
    quarantined,
    rows_of,
    states,
)

pytestmark = [
    pytest.mark.server,
    pytest.mark.lakes,
    # the catalog makes the difference
    pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11"),
]

CATALOG = "spark.sql.catalog.prod"
KILLS = (
    Kill("tasks of a copy", 1, after=True),
    Kill("commit", 1, after=False),
    Kill("commit", 2, after=True),
    Kill("properties", 1, after=False),
    Kill("row of a round", 1, after=True),
    Kill("commit of a compaction", 1, after=True),
)


@pytest.fixture
def shop(server: Server) -> Iterator[Server]:
    """A server with the database `shop`."""
    server.execute("CREATE DATABASE shop")
    with server.session("shop") as session:
        session.execute(
            "CREATE TABLE keyed (id INT PRIMARY KEY, v INT, t VARCHAR(20) CHARACTER SET utf8mb4)",
            "CREATE TABLE keyless (v INT, t VARCHAR(20))",
            "INSERT INTO keyed VALUES " + ", ".join(f"({i}, 0, 'é')" for i in range(2000)),
            "INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (2, 'y')",
        )
    yield server
    server.execute("DROP DATABASE shop")


def read_by_pyiceberg(address: str, name: str) -> tuple[list[str], str]:
    """The rows of a table, and the place of its metadata."""
    from pyiceberg.catalog import load_catalog

    table = load_catalog("prod", type="rest", uri=address).load_table(name)
    return rows_of(table.scan().to_arrow()), table.metadata_location


def read_by_duckdb(metadata: str, target: Path) -> list[str]:
    """The rows of a table, which DuckDB writes to a file."""
    from dev.servers.lake_readers import duckdb_copies

    duckdb_copies({f"SELECT * FROM iceberg_scan('{metadata}')": target})
    return rows_of(pq.read_table(target))


def test_the_commands(
    shop: Server, iceberg_spark: Any, rest_catalog_address: str, tmp_path: Path
) -> None:
    settings = {f"{CATALOG}.type": "rest", f"{CATALOG}.uri": rest_catalog_address}
    words = [str(tmp_path / "lake"), "--catalog", "prod", "--iceberg-jar", str(iceberg_jar())]
    commands = MirrorCommands([*words, "--master", "local[2]"], settings)
    commands.mirror(url_of(shop), "--once", "--table", "shop.*")
    with shop.session("shop") as session:
        session.execute(
            "UPDATE keyed SET v = v + 1 WHERE id < 700",
            "DELETE FROM keyed WHERE id BETWEEN 1900 AND 1950",
            "ALTER TABLE keyed ADD COLUMN n INT NULL, CHANGE t name VARCHAR(30)",
            "INSERT INTO keyed VALUES (9999, 1, NULL, 7)",
            "DELETE FROM keyless WHERE v = 1 LIMIT 1",
        )
    found = json.loads(commands.of_lake("verify", "--json"))
    tables = {one["table"]: (one["state"], one["lake_rows"]) for one in found["tables"]}
    assert tables == {"shop.keyed": ("equal", 1950), "shop.keyless": ("equal", 2)}
    commands.of_lake("compact")
    there = json.loads(commands.of_lake("status", "--json"))["tables"]
    expected = {("shop.keyed", 1950, 0, 1), ("shop.keyless", 2, 0, 1)}
    assert {(t["table"], t["rows"], t["deleted_rows"], t["files"]) for t in there} == expected
    lake = RestLake(iceberg_spark, tmp_path / "lake", shop, rest_catalog_address)
    assert lake.equals_source("shop.*") == ["shop.keyed", "shop.keyless"]
    assert lake.table("shop.keyed").column_names == ["id", "v", "name", "n"]


def test_kills_and_readers(
    shop: Server, iceberg_spark: Any, rest_catalog_address: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"tables": ("shop.*",), "round_bytes": 64 << 10, "compact_files": 4}
    lake = RestLake(iceberg_spark, tmp_path / "lake", shop, rest_catalog_address, **options)
    with Writer(shop, random.Random(7)):
        for kill in KILLS:
            if kill.place in OF_A_REQUEST:
                resync(lake.folder, ["shop.keyed"], spark=iceberg_spark, catalog=lake.catalog)
            assert killed(lake, kill) == -signal.SIGKILL, kill
    lake.catch_up()
    assert quarantined(lake) == {}
    assert states(lake) == {"shop.keyed": "equal", "shop.keyless": "equal"}
    shop.execute("UPDATE shop.keyed SET v = -1 WHERE id % 7 = 0")  # leaves deleted rows
    lake.catch_up()
    assert lake.equals_source("shop.*") == ["shop.keyed", "shop.keyless"]
    for name in ("shop.keyed", "shop.keyless"):
        expected = rows_of(lake.table(name))
        found, metadata = read_by_pyiceberg(rest_catalog_address, name)
        assert found == expected
        assert read_by_duckdb(metadata, tmp_path / f"{name}.parquet") == expected
