"""The blocks of the pages about mirrors run, and those of other pages that need Iceberg or Delta.

One server, one Spark session for Python and SQL, and one process for the commands.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.servers import Server, running
from dev.servers.lake_readers import duckdb_copies
from mirror.command_process import CommandProcess
from support.pages import (
    ROOT,
    RUN_PAGES,
    Block,
    Reader,
    blocks_of,
    commands_of,
    is_left_out,
    needs_lakes,
    page_url,
    statements_of,
)

pytestmark = [pytest.mark.server, pytest.mark.lakes]

MIRROR_PAGES = [page for page in RUN_PAGES if "mirror" in page and any(blocks_of(page))]
#: Pages whose commands are examples of their own: each gets an empty lake.
EXAMPLES = ("docs/mirror-options.md", "docs/mirror-modes.md")
#: How blocks of SQL begin that are for the server, not for Spark.
SERVER_STATEMENTS = ("ALTER TABLE orders", "SET binlog_row_image")
DATABASES = ("shop", "shop_1", "shop_2", "attic")
SHOP = (
    "CREATE DATABASE shop",
    (
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, customer INT NOT NULL, state VARCHAR(10),"
        " total DECIMAL(8,2), created DATETIME NOT NULL)"
    ),
    (
        "CREATE TABLE shop.customers (id INT PRIMARY KEY, name VARCHAR(40), email VARCHAR(80),"
        " phone VARCHAR(20), iban VARCHAR(34))"
    ),
    "CREATE TABLE shop.prices (id INT PRIMARY KEY, price DECIMAL(8,2))",
    "CREATE TABLE shop.log_clicks (id INT PRIMARY KEY, at DATETIME NOT NULL)",
    (
        "INSERT INTO shop.orders VALUES (1, 1, 'new', 10, '2026-10-30 08:00:00'),"
        " (815, 2, 'open', 25, '2026-11-01 09:00:00'), (900, 1, 'paid', 40, '2026-11-02 10:00:00')"
    ),
    (
        "INSERT INTO shop.customers VALUES (1, 'Ada', 'ada@example.org', '555-1', 'DE1'),"
        " (2, 'Bob', NULL, '555-2', 'DE2')"
    ),
    "INSERT INTO shop.prices VALUES (1, 2.5), (2, 3.5)",
    "INSERT INTO shop.log_clicks VALUES (1, '2026-11-01 09:00:00')",
    *(
        statement
        for shop in ("shop_1", "shop_2")
        for statement in (
            f"CREATE DATABASE {shop}",
            f"CREATE TABLE {shop}.orders (id INT PRIMARY KEY, total DECIMAL(8,2))",
            f"INSERT INTO {shop}.orders VALUES (1, 10), (2, 20)",
        )
    ),
)

#: The table of the demo logs, as the deleted orders had it.
DEMO_ORDERS = (
    "CREATE TABLE shop.orders (id BIGINT UNSIGNED PRIMARY KEY, customer_id INT UNSIGNED,"
    " state ENUM('new','paid','shipped','delivered','returned'), channel VARCHAR(10),"
    " placed_at DATETIME(6), total DECIMAL(14,2), note TEXT)"
)


@pytest.fixture(scope="module")
def server(provisioned: Any) -> Iterator[Server]:
    with running(
        provisioned("mysql-9.7"), ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
    ) as started:
        yield started


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandProcess]:
    with CommandProcess(tmp_path_factory.mktemp("commands")) as process:
        yield process


@pytest.fixture
def lake(iceberg_spark: Any) -> Path:
    """The folder of the catalog `lake`, empty."""
    folder = Path(iceberg_spark.conf.get("test.lake"))
    empty(folder)
    return folder


def empty(folder: Path) -> None:
    for entry in folder.iterdir():
        shutil.rmtree(entry)


@pytest.fixture
def reader(
    server: Server,
    iceberg_spark: Any,
    commands: CommandProcess,
    lake: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Reader:
    monkeypatch.chdir(tmp_path)
    server.execute(*(f"DROP DATABASE IF EXISTS {name}" for name in DATABASES))
    logs = str(ROOT / "demo" / "mysql-9.7")
    paths = {
        "/var/lib/mysql/binlog.000012": "binlog.000012",
        "/var/lib/mysql/": f"{logs}/",
        "/backup/binlogs": logs,
        "/etc/binlake/": f"{tmp_path}/etc/",
        "/lake": str(lake),
        "lake/": f"{tmp_path}/lake/",
        "mirror.toml": str(tmp_path / "mirror.toml"),
    }
    url = page_url(server, tmp_path)
    return Reader(tmp_path, paths, url, iceberg_spark.sql, commands.mirror)


class MirrorSteps:
    """Changes the server between the blocks of a page."""

    def __init__(self, server: Server, reader: Reader, lake: Path) -> None:
        self.server, self.reader, self.lake = server, reader, lake

    def run(self, block: Block) -> None:
        match block.page, block.code:
            case "docs/mirror-operations.md", code:
                self._operations(code)
            case "docs/mirror-schema-changes.md", code:
                self._schema_changes(code)
            case page, code if page in EXAMPLES and re.search(r"mysql://", code):
                empty(self.lake)

    def _operations(self, code: str) -> None:
        if "verify" in code:
            self.server.execute(
                "SET sql_log_bin = 0",
                "INSERT INTO shop.orders VALUES (4711, 1, 'new', 1, '2026-11-03')",
                "UPDATE shop.orders SET state = 'paid' WHERE id = 815",
            )
            self.reader.exit_codes["binlake mirror verify /lake"] = 1
        else:
            self.mirror("--table", "shop.orders,shop.customers")

    def _schema_changes(self, code: str) -> None:
        if code.startswith("ALTER TABLE"):
            self.server.execute("ALTER TABLE shop.orders DROP COLUMN state")
            self.mirror("--table", "shop.*")
        elif "renamed away" in code:
            self.mirror("--table", "shop.*")
            assert self.states() == [("open",)]
            self.server.execute(
                "CREATE DATABASE attic", "CREATE TABLE shop.orders_2024 (id INT PRIMARY KEY)"
            )
            self.mirror("--table", "shop.*")
            self.server.execute("RENAME TABLE shop.orders_2024 TO attic.orders_2024")
            self.mirror("--table", "shop.*")

    def states(self) -> list[tuple[str]]:
        found: Any = self.reader.sql("SELECT DISTINCT state FROM lake.shop.orders")
        return [tuple(row) for row in found.collect()]

    def mirror(self, *options: str) -> None:
        assert self.reader.mirror is not None
        done = self.reader.mirror([self.reader.url({}), str(self.lake), *options])
        assert done.code == 0, done


@pytest.mark.parametrize("page", MIRROR_PAGES)
def test_blocks_of_the_pages_about_mirrors_run(
    server: Server, reader: Reader, lake: Path, page: str, tmp_path: Path
) -> None:
    server.execute(*SHOP)
    if page == "docs/mirror-delta.md":  # rounds into Delta tables are slow
        server.execute("DROP TABLE shop.customers, shop.prices, shop.log_clicks")
    steps = MirrorSteps(server, reader, lake)
    for block in blocks_of(page):
        if block.language == "python" and is_left_out(page, block.code):
            continue
        steps.run(block)
        if block.language == "sql" and block.code.startswith(SERVER_STATEMENTS):
            with server.session("shop") as session:
                for statement in statements_of(block.code):
                    session.execute(statement)
        elif "INSTALL iceberg" in block.code:
            query = f"SELECT count(*) AS n FROM iceberg_scan('{reader.names['newest']}')"
            duckdb_copies({query: tmp_path / "counted.parquet"})
        else:
            reader.run(block)
    if page == "docs/mirror-options.md":
        found: Any = reader.sql("SELECT email FROM lake.shop.customers WHERE id = 1")
        assert found.collect()[0][0] == reader.names["hashed"]


def test_mirrors_on_the_page_of_commands_run(server: Server, reader: Reader) -> None:
    server.execute(*SHOP, "CREATE TABLE shop.carts (id INT PRIMARY KEY)")
    [block] = (block for block in blocks_of("docs/commands.md") if "binlake mirror" in block.code)
    for command, _ in commands_of(block.code):
        if "mirror add" in command:
            server.execute("CREATE TABLE shop.returns (id INT PRIMARY KEY)")
        reader.run(Block(block.page, block.line, "", command))
    found: Any = reader.sql("SELECT count(*) FROM lake.shop.orders")
    assert found.collect()[0][0] == 3


def test_the_first_commands_of_the_readme_run(
    server: Server, reader: Reader, tmp_path: Path
) -> None:
    """With the log of the demo, and a table on the server into which the undo puts the deleted rows."""
    logs = ROOT / "demo" / "mysql-9.7"
    (tmp_path / "binlog.000012").symlink_to(logs / "binlog.000001")
    client = tmp_path / "bin" / "mysql"
    client.parent.mkdir()
    words = [*server.kind.client_command(), f"--socket={server.run / 'server.sock'}", "--user=root"]
    client.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    client.chmod(0o755)
    server.execute("CREATE DATABASE shop", DEMO_ORDERS)
    (first,) = (block for block in blocks_of("README.md") if needs_lakes(block))
    reader.run(first)
    found: Any = reader.sql("SELECT id FROM lake.shop.orders")
    assert 2 in [row.id for row in found.collect()]


def test_blocks_of_the_spark_page_that_write_iceberg_tables_run(
    reader: Reader, iceberg_spark: Any
) -> None:
    from binlake.spark import prepare

    reader.names["spark"] = prepare(iceberg_spark)
    for block in filter(needs_lakes, blocks_of("docs/spark.md")):
        reader.run(block)
    assert iceberg_spark.table("lake.shop.order_changes").count() == 687


def test_blocks_of_the_streaming_page_that_write_lake_tables_run(
    reader: Reader, iceberg_spark: Any, tmp_path: Path
) -> None:
    from binlake.spark import prepare

    spark = prepare(iceberg_spark)
    stream = spark.readStream.format("binlog").option("table", "shop.orders")
    orders = stream.load(str(ROOT / "demo" / "mysql-9.7"))
    reader.names |= {"spark": spark, "orders": orders}
    empty_table = spark.createDataFrame([], orders.schema)
    empty_table.writeTo("lake.shop.orders").using("iceberg").create()
    spark.sql(f"CREATE TABLE orders (id INT) USING delta LOCATION '{tmp_path}/delta'")
    try:
        for block in filter(needs_lakes, blocks_of("docs/streaming.md")):
            reader.run(block)
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()
    finally:
        spark.conf.unset("spark.sql.storeAssignmentPolicy")
        spark.sql("DROP TABLE orders")
    assert spark.table("lake.shop.orders").count() == 687
