"""A lake in an object store that speaks S3, written by a cluster of two workers that share no directory."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from dev.servers import Server
from support.servers.live import url_of
from support.spark.mirror_commands import MirrorCommands
from support.spark.spark_processes import Cluster
from support.spark.store_lakes import (
    CATALOG,
    LOCATION,
    newest_metadata,
    pyiceberg_properties,
    running_store,
    store_settings,
)

pytestmark = [pytest.mark.server, pytest.mark.lakes]


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with running_store() as variables:
        yield variables


def commands_of(store: dict[str, str], master: str, folder: Path) -> MirrorCommands:
    """`binlake mirror` with a catalog in a file, and the tables in the store."""
    state = str(folder / "state")
    lake = [LOCATION, "--state", state, "--catalog", CATALOG, "--master", master]
    return MirrorCommands(lake, store_settings(store, folder), store)


def test_a_lake_in_s3_written_by_a_cluster(
    server: Server, store: dict[str, str], tmp_path: Path
) -> None:
    server.execute(
        "CREATE DATABASE depot",
        "CREATE TABLE depot.keyed (id INT PRIMARY KEY, v INT, t VARCHAR(20))",
        "CREATE TABLE depot.keyless (v INT)",
        "INSERT INTO depot.keyless VALUES (1), (1), (2)",
        'CREATE TABLE depot.`größe "2"` (id INT PRIMARY KEY, v INT)',  # no part of a URI
        'INSERT INTO depot.`größe "2"` VALUES (1, 1), (2, 2)',
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
            'UPDATE depot.`größe "2"` SET v = 3 WHERE id = 1',
            "ALTER TABLE depot.keyed ADD COLUMN n INT NULL",
            "INSERT INTO depot.keyed VALUES (9999, 1, NULL, 7)",
        )
        found = json.loads(commands.of_lake("verify", "--json"))
    finally:
        cluster.stop()
    tables = {one["table"]: (one["state"], one["lake_rows"]) for one in found["tables"]}
    assert tables == {
        "depot.keyed": ("equal", 1950),
        "depot.keyless": ("equal", 2),
        'depot.größe "2"': ("equal", 2),
    }
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


# more than 32 MiB of row events: 1800 rows of 2000, before and after the statement
LONG_TEXT = 12_000
PATIENCE_S = 300
DECODING = "1.0"  # the stage after the login that the mirror tries


def kill_the_decoding_executor(cluster: Cluster, folder: Path, run: Future[Any]) -> Path:
    """Kill the executor that decodes the log for a new application; return the executor's log."""
    known = set(folder.glob("work*/app-*/*/stderr"))
    deadline = time.monotonic() + PATIENCE_S
    while not run.done() and time.monotonic() < deadline:
        for log in set(folder.glob("work*/app-*/*/stderr")) - known:
            if f"Running task 0.0 in stage {DECODING} " in log.read_text():
                cluster.kill_executor(log.parent.parent.name, log.parent.name)
                return log
        time.sleep(0.02)
    if run.done():
        run.result()  # raises the error of the run
    raise AssertionError("no executor has decoded the log")


def finished_tasks(logs: Iterable[Path]) -> Counter[str]:
    """How many tasks of each stage executors have finished, by their logs."""
    text = "".join(log.read_text() for log in logs)
    return Counter(re.findall(r"Finished task \S+ in stage (\S+) ", text))


def rows_in_store(store: Mapping[str, str], folder: Path) -> list[list[str]]:
    """The rows that PyIceberg reads of the only followed table, by `id`, with the SHA-256 hash of the text."""
    from pyiceberg.table import StaticTable

    metadata = newest_metadata(folder)["bulk.large"]
    found = StaticTable.from_metadata(metadata, pyiceberg_properties(store))
    rows = found.scan().to_arrow().to_pylist()
    return [
        [str(row["id"]), str(row["v"]), sha256(row["t"].encode()).hexdigest()]
        for row in sorted(rows, key=itemgetter("id"))
    ]


@pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11", "mariadb-11.8")
def test_tasks_of_a_cluster_apply_a_large_transaction(
    server: Server, store: dict[str, str], tmp_path: Path
) -> None:
    """An executor is killed while it decodes the log; then a compaction, and another reader."""
    server.execute(
        "CREATE DATABASE bulk",
        "CREATE TABLE bulk.large (id INT PRIMARY KEY, v INT, t LONGTEXT)",
        "INSERT INTO bulk.large VALUES " + ", ".join(f"({i}, {i}, NULL)" for i in range(2000)),
        f"UPDATE bulk.large SET t = REPEAT(CHAR(65 + id % 26), {LONG_TEXT})",
    )
    cluster = Cluster(tmp_path, **store)
    try:
        commands = commands_of(store, cluster.url, tmp_path)
        words = (url_of(server), "--once", "--table", "bulk.*", "--compact", "off")
        commands.mirror(*words)
        server.execute("UPDATE bulk.large SET v = v + 1, t = CONCAT(t, 'é') WHERE id % 10 > 0")
        with ThreadPoolExecutor(1) as pool:
            run = pool.submit(commands.mirror, *words)
            killed = kill_the_decoding_executor(cluster, tmp_path, run)
            run.result(2 * PATIENCE_S)
        assert DECODING not in finished_tasks([killed])
        finished = finished_tasks(tmp_path.glob(f"work*/{killed.parts[-3]}/*/stderr"))
        assert finished == {"0.0": 1, DECODING: 1, "2.0": 2}, "the third one writes two shares"
        there = server.rows("SELECT id, v, SHA2(t, 256) FROM bulk.large ORDER BY id")
        assert rows_in_store(store, tmp_path) == there
        commands.of_lake("compact")
        assert "bulk.large: 3 data files compacted in " in commands.messages
        [table] = json.loads(commands.of_lake("verify", "--json"))["tables"]
    finally:
        cluster.stop()
    assert (table["state"], table["lake_rows"]) == ("equal", 2000)
    assert rows_in_store(store, tmp_path) == there
    server.execute("DROP DATABASE bulk")
