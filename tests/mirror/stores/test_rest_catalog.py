"""A mirror into a REST catalog: the commands, kills, and what Spark, PyIceberg and DuckDB read."""

from __future__ import annotations

import json
import random
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow.parquet as pq
import pytest

from binlake.errors import BinlogError, SourceError
from binlake.mirror import compact, resync
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


class Forgetful(ThreadingHTTPServer):
    """A proxy of a catalog. When `loses` is set, it sends the next commit of a table twice: the second is refused."""

    def __init__(self, address: str) -> None:
        super().__init__(("127.0.0.1", 0), Forwarding)
        self.address = address
        self.loses = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Forwarding(BaseHTTPRequestHandler):
    server: Forgetful

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(
            self.server.address.rstrip("/") + self.path,
            body if self.command == "POST" else None,
            {"Content-Type": "application/json"},
            method=self.command,
        )
        again = bool(self.server.loses) and self.command == "POST"
        again = again and self.path.endswith(self.server.loses)
        for _ in range(1 + again):
            try:
                with urlopen(request) as answer:
                    status, content = answer.status, answer.read()
            except HTTPError as error:
                status, content = error.code, error.read()
        if again:
            self.server.loses = ""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_POST = do_HEAD = do_DELETE = _forward  # noqa: N815 - names of http.server

    def log_message(self, *_: object) -> None:
        """Write no line for each request."""


@pytest.fixture
def forgetful_catalog(rest_catalog_address: str) -> Iterator[Forgetful]:
    with Forgetful(rest_catalog_address) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        yield proxy
        proxy.shutdown()
        thread.join()


def test_a_commit_that_was_made_and_is_reported_as_failed(
    shop: Server, iceberg_spark: Any, forgetful_catalog: Forgetful, tmp_path: Path
) -> None:
    """Its files stay: the table has them."""
    lake = RestLake(
        iceberg_spark, tmp_path / "lake", shop, forgetful_catalog.url, tables=("shop.*",)
    )
    lake.catch_up()
    shop.execute("UPDATE shop.keyed SET v = v + 1 WHERE id < 700")
    forgetful_catalog.loses = "/tables/keyed"
    with pytest.raises(SourceError, match="has refused a commit that the table has"):
        lake.catch_up()
    assert forgetful_catalog.loses == ""
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source("shop.*") == ["shop.keyed", "shop.keyless"]
    shop.execute("DELETE FROM shop.keyed WHERE id % 2 = 0")  # leaves files that are compacted
    lake.catch_up()
    forgetful_catalog.loses = "/tables/keyed"
    with pytest.raises(BinlogError):
        compact(lake.folder, ["shop.keyed"], spark=iceberg_spark, catalog=lake.catalog)
    assert forgetful_catalog.loses == ""
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source("shop.*") == ["shop.keyed", "shop.keyless"]


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
