"""A lake in an object store that speaks S3, written by a cluster of two workers that share no directory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import missing
from dev.servers import Server
from support.servers.live import url_of
from support.spark.mirror_commands import MirrorCommands
from support.spark.mirrored import iceberg_jar
from support.spark.spark_processes import Cluster

pytestmark = [pytest.mark.server, pytest.mark.lakes]

CATALOG = "spark.sql.catalog.prod"


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """An S3 server with the bucket `lake`: the environment that finds it."""
    from dev.servers.lake_jars import LAKE_STORE_JARS
    from dev.servers.object_store import OBJECT_STORE, object_store
    from dev.servers.packages import home

    for needed in (OBJECT_STORE, LAKE_STORE_JARS):
        if not (home() / "roots" / needed).exists():
            missing(f"not provisioned: python -m dev.servers provision {needed}")
    with object_store("lake") as variables:
        yield variables


def commands_of(store: dict[str, str], master: str, folder: Path) -> MirrorCommands:
    """`binlake mirror` with a catalog in a file, and the tables in the store."""
    from dev.servers.lake_jars import lake_store_jars

    jars = [str(jar) for jar in (iceberg_jar(), *lake_store_jars())]
    settings = {
        f"{CATALOG}.type": "jdbc",
        f"{CATALOG}.uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
        f"{CATALOG}.jdbc.schema-version": "V1",
        f"{CATALOG}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        f"{CATALOG}.s3.endpoint": store["AWS_ENDPOINT_URL"],
        f"{CATALOG}.s3.path-style-access": "true",
        f"{CATALOG}.client.region": "us-east-1",
        # tasks are Python: executors need none of the classes
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.cores.max": "2",
    }
    state = str(folder / "state")
    lake = ["s3://lake/warehouse", "--state", state, "--catalog", "prod", "--master", master]
    return MirrorCommands(lake, settings, store)


def test_a_lake_in_s3_written_by_a_cluster(
    server: Server, store: dict[str, str], tmp_path: Path
) -> None:
    server.execute(
        "CREATE DATABASE depot",
        "CREATE TABLE depot.keyed (id INT PRIMARY KEY, v INT, t VARCHAR(20))",
        "CREATE TABLE depot.keyless (v INT)",
        "INSERT INTO depot.keyless VALUES (1), (1), (2)",
        "INSERT INTO depot.keyed VALUES " + ", ".join(f"({i}, {i}, 'é')" for i in range(2000)),
    )
    cluster = Cluster(tmp_path, **store)
    try:
        commands = commands_of(store, cluster.url, tmp_path)
        commands.mirror(url_of(server), "--once", "--table", "depot.*")
        server.execute(
            "UPDATE depot.keyed SET v = v + 1 WHERE id < 700",
            "UPDATE depot.keyed SET id = id + 5000 WHERE id BETWEEN 800 AND 820",
            "DELETE FROM depot.keyed WHERE id BETWEEN 1900 AND 1950",
            "DELETE FROM depot.keyless WHERE v = 1 LIMIT 1",
            "ALTER TABLE depot.keyed ADD COLUMN n INT NULL",
            "INSERT INTO depot.keyed VALUES (9999, 1, NULL, 7)",
        )
        found = json.loads(commands.of_lake("verify", "--json"))
    finally:
        cluster.stop()
    tables = {one["table"]: (one["state"], one["lake_rows"]) for one in found["tables"]}
    assert tables == {"depot.keyed": ("equal", 1950), "depot.keyless": ("equal", 2)}
    server.execute("DROP DATABASE depot")


# two million rows take a minute
@pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11", "mariadb-11.8")
def test_a_cluster_reads_the_keys_of_a_lost_index(
    server: Server, store: dict[str, str], tmp_path: Path
) -> None:
    """The driver starts on another machine: without the state directory of the one before."""
    server.execute(
        "CREATE DATABASE moved",
        "CREATE TABLE moved.large (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
        "INSERT INTO moved.large (v) VALUES (1), (2)",
        *["INSERT INTO moved.large (v) SELECT v + 1 FROM moved.large"] * 20,
    )
    cluster = Cluster(tmp_path, **store)
    try:
        commands = commands_of(store, cluster.url, tmp_path)
        commands.mirror(url_of(server), "--once", "--table", "moved.*")
        shutil.rmtree(tmp_path / "state")
        server.execute(
            "UPDATE moved.large SET v = v + 1 WHERE id % 1000 = 0",
            "DELETE FROM moved.large WHERE id % 1000 = 7",
        )
        found = json.loads(commands.of_lake("verify", "--json"))
    finally:
        cluster.stop()
    assert "moved.large: Spark's tasks read the keys of 2,097,152 rows " in commands.messages
    assert "moved.large: its row index was completed in " in commands.messages
    [table] = found["tables"]
    [[count]] = server.rows("SELECT COUNT(*) FROM moved.large")
    assert (table["table"], table["state"]) == ("moved.large", "equal")
    assert str(table["lake_rows"]) == count
    server.execute("DROP DATABASE moved")
