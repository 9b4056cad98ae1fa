"""Metrics of streams, from progress as Spark reports it."""

from __future__ import annotations

import json
import math
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")
pytest.importorskip("prometheus_client", reason="needs the extra [server]")

from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from binlake.errors import SourceError
from binlake.spark.streaming.metrics import StreamMetrics, stream_metrics
from dev.servers.ports import ReservedPort

RUN, QUERY = str(uuid.uuid4()), str(uuid.uuid4())


class Streams:
    """A session's queries: who listens."""

    def __init__(self) -> None:
        self.listeners: list[StreamMetrics] = []
        self.active: list[Any] = []

    def addListener(self, listener: StreamMetrics) -> None:  # noqa: N802
        self.listeners.append(listener)

    def removeListener(self, listener: StreamMetrics) -> None:  # noqa: N802
        self.listeners.remove(listener)


class Session:
    def __init__(self) -> None:
        self.streams = Streams()


def progress(commit_s: float, *, rows: int = 5, run: str = RUN, **offset: Any) -> Any:
    commit = datetime.fromtimestamp(commit_s, UTC).isoformat().replace("+00:00", "Z")
    end = {
        "version": 1, "server_uuid": "u", "file": "binlog.000001", "offset": 4, "gtid_set": "",
        "commit_time": commit, "ledger": {"unshown": 3, "skipped_bytes": 70}, **offset,
    }  # fmt: skip
    source: dict[str, Any] = {
        "description": "binlog", "startOffset": None, "endOffset": json.dumps(end),
        "latestOffset": None, "numInputRows": rows, "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 2.5, "metrics": {},
    }  # fmt: skip
    return QueryProgressEvent.fromJson(
        {
            "progress": {
                "id": QUERY, "runId": run, "name": "orders", "timestamp": "", "batchId": 1,
                "batchDuration": 2000, "durationMs": {"triggerExecution": 2000},
                "eventTime": {}, "stateOperators": [], "sources": [source], "observedMetrics": {},
                "sink": {"description": "x", "numOutputRows": rows, "metrics": {}},
                "numInputRows": rows, "inputRowsPerSecond": 1.0, "processedRowsPerSecond": 2.5,
            }
        }
    )  # fmt: skip


def started(run: str = RUN, name: str | None = "orders") -> Any:
    return QueryStartedEvent.fromJson(
        {"id": QUERY, "runId": run, "name": name, "timestamp": "", "jobTags": []}
    )


def terminated(error: str | None) -> Any:
    return QueryTerminatedEvent(uuid.UUID(QUERY), uuid.UUID(RUN), error, None)


@pytest.fixture
def served() -> Iterator[tuple[Session, StreamMetrics, int]]:
    session, reserved = Session(), ReservedPort()
    metrics = stream_metrics(session, reserved.number)  # type: ignore[arg-type]
    assert session.streams.listeners == [metrics]
    yield session, metrics, reserved.number
    metrics.close()
    reserved.release()
    assert not session.streams.listeners


def asked(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        samples = [sample for family in families for sample in family.samples]
    assert all(sample.labels == {"query": "orders"} for sample in samples)
    return {sample.name.removeprefix("binlake_stream_"): sample.value for sample in samples}


def test_metrics_after_a_batch(served: tuple[Session, StreamMetrics, int]) -> None:
    _, metrics, port = served
    assert asked(port) == {}
    moment = time.time() - 600
    metrics.onQueryProgress(progress(moment))
    metrics.onQueryProgress(progress(moment, rows=7))
    found = asked(port)
    assert 600 <= found.pop("lag_seconds") < 700
    assert found.pop("commit_timestamp_seconds") == pytest.approx(moment, abs=0.01)
    assert found == {
        "active": 1, "failed": 0, "batches_total": 2, "rows_total": 12, "rows_per_second": 2.5,
        "batch_seconds": 2, "unshown": 3, "skipped_bytes": 70,
    }  # fmt: skip


def test_an_idle_stream_has_no_lag(served: tuple[Session, StreamMetrics, int]) -> None:
    _, metrics, port = served
    metrics.onQueryProgress(progress(time.time() - 600))
    metrics.onQueryIdle(QueryIdleEvent(uuid.UUID(QUERY), uuid.UUID(RUN), ""))
    assert asked(port)["lag_seconds"] == 0
    metrics.onQueryProgress(progress(time.time() - 300))
    assert asked(port)["lag_seconds"] >= 300


def test_the_lag_grows_when_an_idle_stream_reports_nothing(
    served: tuple[Session, StreamMetrics, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source does not answer, or a long batch runs: what was new since the last report is not known."""
    _, metrics, port = served
    metrics.onQueryProgress(progress(time.time() - 600))
    metrics.onQueryIdle(QueryIdleEvent(uuid.UUID(QUERY), uuid.UUID(RUN), ""))
    reported = time.time()
    monkeypatch.setattr("binlake.spark.streaming.metrics.time.time", lambda: reported + 90)
    assert asked(port)["lag_seconds"] == pytest.approx(90, abs=5)
    metrics.onQueryTerminated(terminated("ConnectionLostError"))
    assert asked(port)["lag_seconds"] >= 690


@pytest.mark.parametrize(("error", "failed"), [(None, 0), ("PositionLostError", 1)])
def test_a_query_that_ends_and_starts_again(
    served: tuple[Session, StreamMetrics, int], error: str | None, failed: int
) -> None:
    _, metrics, port = served
    metrics.onQueryProgress(progress(time.time()))
    metrics.onQueryTerminated(terminated(error))
    found = asked(port)
    assert (found["active"], found["failed"]) == (0, failed)
    metrics.onQueryProgress(progress(time.time(), run=str(uuid.uuid4())))
    found = asked(port)
    assert (found["active"], found["failed"], found["batches_total"]) == (1, 0, 1)


def ready(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_query_that_fails_in_its_first_batch(served: tuple[Session, StreamMetrics, int]) -> None:
    _, metrics, port = served
    assert ready(port) == (503, "no query runs\n")
    metrics.onQueryStarted(started())
    found = asked(port)
    assert (found["active"], found["failed"], found["batches_total"]) == (1, 0, 0)
    assert math.isnan(found["lag_seconds"])
    assert ready(port) == (200, "ok\n")
    metrics.onQueryTerminated(terminated("PositionLostError"))
    found = asked(port)
    assert (found["active"], found["failed"], found["batches_total"]) == (0, 1, 0)
    assert ready(port) == (503, "queries that ended with an error: orders\n")
    metrics.onQueryStarted(started(str(uuid.uuid4())))
    assert ready(port) == (200, "ok\n")


def test_readiness_of_several_queries(served: tuple[Session, StreamMetrics, int]) -> None:
    _, metrics, port = served
    metrics.onQueryStarted(started())
    metrics.onQueryStarted(started(str(uuid.uuid4()), "items"))
    metrics.onQueryTerminated(terminated(None))  # stopped by the program
    assert ready(port) == (200, "ok\n")


def test_queries_that_run_already() -> None:
    session, reserved = Session(), ReservedPort()
    session.streams.active = [started()]
    metrics = stream_metrics(session, reserved.number)  # type: ignore[arg-type]
    try:
        assert asked(reserved.number)["active"] == 1
    finally:
        metrics.close()
        reserved.release()


def test_other_sources_are_not_shown(served: tuple[Session, StreamMetrics, int]) -> None:
    _, metrics, port = served
    metrics.onQueryStarted(started())
    metrics.onQueryProgress(progress(time.time(), version=9))
    metrics.onQueryTerminated(terminated("an error"))
    assert asked(port) == {}
    assert ready(port) == (503, "no query runs\n")


def test_a_port_that_is_taken(served: tuple[Session, StreamMetrics, int]) -> None:
    with pytest.raises(SourceError, match="cannot serve metrics on"):
        stream_metrics(Session(), served[2])  # type: ignore[arg-type]
