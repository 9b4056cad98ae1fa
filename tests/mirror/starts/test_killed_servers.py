"""A server is killed when the mirror has read its log to the end: no event ends that log, and a new one begins."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.servers import RefusedError, Server, running
from proof.mirror_victims import DURABLE
from support.servers.archiving import archive, url_of
from support.spark.mirrored import Lake, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]


@pytest.fixture(params=["mysql-9.7", "mysql-5.6.24", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param), DURABLE) as started:
        yield started


@pytest.mark.parametrize("of", ["server", "archive", "compressed archive"])
@pytest.mark.parametrize("round_bytes", [1, 64 << 20])
def test_a_log_without_an_end_that_was_read_completely(
    server: Server, iceberg_spark: Any, tmp_path: Path, of: str, round_bytes: int
) -> None:
    server.execute(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO shop.t VALUES (1, 1), (2, 2)",
    )
    lake = Lake(
        iceberg_spark, tmp_path / "lake", server, tables=("shop.*",), round_bytes=round_bytes
    )
    logs = None if of == "server" else str(tmp_path / "archive")
    options = ["--compress", "zstd"] if of == "compressed archive" else []

    def catch_up() -> None:
        if logs is not None:
            done = archive(url_of(server), logs, *options)
            assert done.returncode == 0, done.stderr
        lake.catch_up(logs)
        assert quarantined(lake) == {}
        assert lake.equals_source("shop.*") == ["shop.t"]

    catch_up()
    for number in (3, 4):  # also a log without a change
        server.execute(f"INSERT INTO shop.t VALUES ({number}, 0)", "UPDATE shop.t SET v = v + 1")
        catch_up()
        server.kill()
        server.start(DURABLE)
        if number == 3:
            server.execute("DELETE FROM shop.t WHERE id = 1")
        catch_up()


_MORE_MB = 48
_PATIENCE_S = 60


def killed_in_a_transaction(server: Server, key: int) -> Path:
    """Kill a server that writes a large transaction into its log; return that log."""
    newest = max(server.data.glob("binlog.0*[0-9]"))
    before = newest.stat().st_size

    def insert() -> None:
        keys = range(key, key + _MORE_MB)
        rows = (f"INSERT INTO t VALUES ({one}, 0, REPEAT('a', 1048576))" for one in keys)
        with contextlib.suppress(RefusedError, OSError), server.session("shop") as session:
            session.execute("BEGIN", *rows, "COMMIT")

    writer = threading.Thread(target=insert)
    writer.start()
    deadline = time.monotonic() + _PATIENCE_S
    while newest.stat().st_size < before + (4 << 20):
        assert time.monotonic() < deadline, "nothing is written"
    server.kill()
    writer.join()
    return newest


@pytest.mark.parametrize("of", ["server", "archive"])
def test_a_log_that_ends_inside_of_a_transaction(
    server: Server, iceberg_spark: Any, tmp_path: Path, of: str
) -> None:
    """MySQL cuts the transaction off when it starts again. MariaDB does not, and refuses to send the end of that log."""
    large = (*DURABLE, "--max-allowed-packet=64M")
    server.stop()
    server.start(large)
    server.execute(
        "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT, b LONGTEXT)"
    )
    lake = Lake(iceberg_spark, tmp_path / "lake", server, tables=("shop.*",))
    logs = None if of == "server" else str(tmp_path / "archive")
    torn = 0

    def catch_up() -> None:
        if logs is not None:
            done = archive(url_of(server), logs)
            assert done.returncode == 0, done.stderr
        lake.catch_up(logs)
        assert quarantined(lake) == {}
        assert lake.equals_source("shop.*") == ["shop.t"]

    for number in range(1, 4):
        server.execute(
            f"INSERT INTO shop.t VALUES ({number}, 0, 'x')", "UPDATE shop.t SET v = v + 1"
        )
        if number != 2:
            catch_up()
        log = killed_in_a_transaction(server, 1000 * number)
        size = log.stat().st_size
        server.start(large)
        torn += log.stat().st_size == size
        if number == 3:
            server.execute("UPDATE shop.t SET v = v + 1 WHERE id < 3")
        catch_up()
    assert bool(torn) == (server.flavour == "mariadb")
    assert server.rows("SELECT COUNT(*) FROM shop.t") == [["3"]]
