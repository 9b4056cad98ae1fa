"""`binlake mirror` as a program of spark-submit, on a cluster of two workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dev.servers import Server
from support.servers.live import url_of
from support.spark.mirrored import Lake, iceberg_jar
from support.spark.spark_processes import SPARK_HOME, Cluster, environment

pytestmark = [
    pytest.mark.server,
    pytest.mark.lakes,
    # a cluster takes minutes
    pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11"),
]

PROGRAM = Path(__file__).resolve().parents[3] / "deploy" / "spark" / "mirror_tables.py"
PATIENCE_S = 800


class SubmittedMirror:
    """The program in deploy/, with the jar and the catalog as options of spark-submit."""

    def __init__(self, master: str, lake: Path) -> None:
        settings = {
            "spark.cores.max": "2",
            "spark.ui.enabled": "false",
            "spark.sql.catalog.prod.type": "hadoop",
            "spark.sql.catalog.prod.warehouse": str(lake),
        }
        self._words: list[str] = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master]
        self._words += ["--jars", str(iceberg_jar())]
        self._words += [
            w for name, value in settings.items() for w in ("--conf", f"{name}={value}")
        ]
        self._words.append(str(PROGRAM))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Submit the program, and wait for its end."""
        return subprocess.run(
            [*self._words, *words, "--catalog", "prod"],
            env=environment(PYSPARK_PYTHON=sys.executable, SPARK_HOME=str(SPARK_HOME)),
            capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip


def test_a_submitted_mirror(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    server.execute(
        "CREATE DATABASE sent",
        "CREATE TABLE sent.keyed (id INT PRIMARY KEY, v INT)",
        "INSERT INTO sent.keyed VALUES " + ", ".join(f"({i}, {i})" for i in range(2000)),
    )
    place = tmp_path / "lake"
    cluster = Cluster(tmp_path)
    try:
        submitted = SubmittedMirror(cluster.url, place)
        once = (url_of(server), str(place), "--once", "--table", "sent.*", "--round-bytes", "64k")
        done = submitted.run(*once)
        assert done.returncode == 0, done.stderr
        server.execute(
            "UPDATE sent.keyed SET v = v + 1 WHERE id < 700",
            "ALTER TABLE sent.keyed ADD COLUMN n INT NULL",
            "INSERT INTO sent.keyed VALUES (9999, 1, 7)",
        )
        found = submitted.run("verify", str(place), "--json")
        assert found.returncode == 0, found.stderr
        # both programs had executors of the cluster
        assert len({folder.name for folder in tmp_path.glob("work*/app-*")}) == 2
    finally:
        cluster.stop()
    # spark-submit writes the messages of its program to stdout, too
    [report] = (line for line in found.stdout.splitlines() if line.startswith("{"))
    [table] = json.loads(report)["tables"]
    assert (table["table"], table["state"], table["lake_rows"]) == ("sent.keyed", "equal", 2001)
    lake = Lake(iceberg_spark, place, server, tables=("sent.*",))
    assert lake.equals_source("sent.*") == ["sent.keyed"]
    server.execute("DROP DATABASE sent")
