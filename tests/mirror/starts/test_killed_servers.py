"""A server is killed when the mirror has read its log to the end: no event ends that log, and a new one begins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.servers import Server, running
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
