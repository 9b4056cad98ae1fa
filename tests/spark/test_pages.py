"""The blocks of the pages about Spark, streams and exports run; those that need Iceberg or Delta in tests/mirror."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.servers import Server, running
from dev.servers.ports import ReservedPort
from support.pages import ROOT, Block, Reader, blocks_of, needs_lakes, page_url

pytestmark = pytest.mark.server

SECONDS = 300  # a deadline only


@pytest.fixture(scope="module")
def server(provisioned: Any) -> Iterator[Server]:
    with running(provisioned("mysql-9.7")) as started:
        yield started


@pytest.fixture
def port() -> Iterator[int]:
    reserved = ReservedPort()
    yield reserved.number
    reserved.release()


@pytest.fixture
def reader(
    server: Server, spark: Any, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Reader:
    monkeypatch.chdir(tmp_path)
    logs = ROOT / "demo" / "mysql-9.7"
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    (tmp_path / "binlog.000012").symlink_to(logs / "binlog.000001")
    paths = {
        "/var/lib/mysql/binlog.000012": "binlog.000012",
        "/var/lib/mysql/": f"{logs}/",
        "/backup/binlogs": str(logs),
        "demo/": f"{ROOT}/demo/",
        "lake/": f"{tmp_path}/lake/",
        "history.sql": f"{tmp_path}/history.sql",
        "9464": str(port),
    }
    return Reader(tmp_path, paths, page_url(server, tmp_path), spark.sql)


def blocks(page: str) -> Iterator[Block]:
    return (block for block in blocks_of(page) if not needs_lakes(block))


def test_blocks_of_the_readme_run(reader: Reader) -> None:
    for block in blocks("README.md"):
        reader.run(block)


def test_blocks_of_the_export_page_run(reader: Reader, spark: Any) -> None:
    import duckdb

    reader.names["spark"] = spark
    for block in blocks("docs/export.md"):
        if block.language == "sql":
            query = reader.text(block.code)
            found = duckdb.sql(f"SELECT count(*) FROM ({query})")
            assert found is not None
            assert found.fetchall() > [(0,)]
            continue
        if "binlake export /var/lib/mysql/ lake/" in block.code:
            shutil.rmtree(reader.folder / "lake")
        reader.run(block)


def test_blocks_of_the_spark_page_run(reader: Reader, spark: Any) -> None:
    for block in blocks("docs/spark.md"):
        if "CREATE TABLE orders USING binlog" in block.code:
            spark.catalog.dropTempView("orders")
        elif "CREATE VIEW orders" in block.code:
            spark.sql("DROP TABLE orders")
        reader.run(block)
    for name in ("VIEW orders", "TABLE changes", "TABLE orders_columns"):
        spark.sql(f"DROP {name}")


def test_blocks_of_the_streaming_page_run(reader: Reader, server: Server, spark: Any) -> None:
    server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT)")
    names: dict[str, Any] = reader.names
    try:
        for block in blocks("docs/streaming.md"):
            if "lastProgress" in block.code:
                names["query"].processAllAvailable()
            reader.run(block)
        assert spark.read.parquet(str(reader.folder / "lake" / "orders")).count() == 687
        of_server = names["changes"].writeStream.format("noop")
        of_server = of_server.option("checkpointLocation", str(reader.folder / "server"))
        assert of_server.trigger(availableNow=True).start().awaitTermination(SECONDS)
    finally:
        for query in spark.streams.active:
            query.stop()
