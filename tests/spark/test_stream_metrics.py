"""Metrics and readiness of real queries: they run, fail in the first batch, start again, stop."""

from __future__ import annotations

import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="needs the extra [server]")

from prometheus_client.parser import text_string_to_metric_families
from pyspark.errors import StreamingQueryException

from binlake.spark import stream_metrics
from dev.servers.ports import ReservedPort
from support.oracles.reading import row_lines
from support.servers.serving import eventually

LOG = Path(__file__).parents[1] / "golden" / "mysql-9.7" / "transactions" / "binlog.000001"
SECONDS = 120


class Port:
    """The answer of a metrics port."""

    def __init__(self, number: int) -> None:
        self._url = f"http://127.0.0.1:{number}"

    def metrics(self) -> dict[str, dict[str, float]]:
        """The metrics of each query."""
        found: dict[str, dict[str, float]] = {}
        with urllib.request.urlopen(f"{self._url}/metrics", timeout=60) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                for sample in family.samples:
                    name = sample.name.removeprefix("binlake_stream_")
                    found.setdefault(sample.labels["query"], {})[name] = sample.value
        return found

    def ready(self) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self._url}/readyz", timeout=60) as answer:
                return answer.status, answer.read().decode().strip()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode().strip()


@pytest.fixture
def port(spark: Any) -> Iterator[Port]:
    reserved = ReservedPort()
    metrics = stream_metrics(spark, reserved.number)
    yield Port(reserved.number)
    metrics.close()
    reserved.release()


def started(spark: Any, name: str, logs: Path, checkpoint: Path) -> Any:
    into = spark.readStream.format("binlog").load(str(logs)).writeStream.format("noop")
    return into.queryName(name).option("checkpointLocation", str(checkpoint)).start()


def test_a_query_that_runs_and_stops(spark: Any, port: Port, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    shutil.copy(LOG, logs)
    assert port.ready() == (503, "no query runs")
    query = started(spark, "orders", logs, tmp_path / "checkpoint")
    rows = len(list(row_lines(LOG)))
    try:
        eventually(lambda: port.ready() == (200, "ok"), "ready", SECONDS)
        eventually(
            lambda: port.metrics()["orders"]["rows_total"] == rows, "the first batch", SECONDS
        )
        found = port.metrics()["orders"]
        assert (found["active"], found["failed"], found["batches_total"]) == (1, 0, 1)
        assert found["commit_timestamp_seconds"] > 0
    finally:
        query.stop()
    eventually(lambda: port.metrics()["orders"]["active"] == 0, "its end", SECONDS)
    assert port.metrics()["orders"]["failed"] == 0
    assert port.ready() == (503, "no query runs")


def test_a_query_that_fails_in_its_first_batch(spark: Any, port: Port, tmp_path: Path) -> None:
    logs, checkpoint = tmp_path / "logs", tmp_path / "checkpoint"
    logs.mkdir()
    damaged = bytearray(LOG.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (logs / LOG.name).write_bytes(damaged)
    query = started(spark, "orders", logs, checkpoint)
    with pytest.raises(StreamingQueryException, match="MalformedError"):
        query.awaitTermination()
    eventually(lambda: port.metrics()["orders"]["failed"], "the end of the query", SECONDS)
    found = port.metrics()["orders"]
    assert (found["active"], found["batches_total"]) == (0, 0)
    assert port.ready() == (503, "queries that ended with an error: orders")

    shutil.copy(LOG, logs)  # the log is repaired, and the query starts again
    query = started(spark, "orders", logs, checkpoint)
    try:
        eventually(lambda: port.metrics()["orders"]["batches_total"], "a batch", SECONDS)
        assert port.ready() == (200, "ok")
        assert port.metrics()["orders"]["failed"] == 0
    finally:
        query.stop()


def test_a_query_of_another_source(spark: Any, port: Port, tmp_path: Path) -> None:
    into = spark.readStream.format("rate").load().writeStream.format("noop").queryName("other")
    query = into.option("checkpointLocation", str(tmp_path)).start()
    try:
        eventually(lambda: "other" not in port.metrics(), "its first batch", SECONDS)
    finally:
        query.stop()
    eventually(lambda: port.ready() == (503, "no query runs"), "its end", SECONDS)
