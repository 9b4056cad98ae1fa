"""Lag and rates of streams for Prometheus, from Spark's reports about each micro-batch.

    from binlake.spark import stream_metrics

    metrics = stream_metrics(spark, 9464)      # http://127.0.0.1:9464/metrics
    …
    metrics.close()

A listener of the session receives the start, the progress and the end of all its streaming queries.
The metrics show those that read binary logs, by their name or id. It works on all versions of Spark,
because the end offset contains how far a batch has come.

Only the progress of a query contains its source. So a query of another source is shown from its
start until its first micro-batch.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from binlake.errors import SourceError
from binlake.follow.offsets import StreamOffset
from binlake.metrics_port import Metric, MetricsPort, families, registry_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "binlake_stream_"
# Spark reports every 10 seconds that there is nothing new. Without a report for so long, a batch runs, or
# the source does not answer.
_IDLE_S = 60.0


@dataclass
class _Query:
    """The state of one query. Times are seconds since 1970, NaN: unknown."""

    name: str
    active: bool = True
    failed: bool = False
    is_shown: bool = True  # False: it reads another source
    idle_s: float = math.nan  # when Spark last reported that there was nothing new
    commit_s: float = math.nan
    batches: int = 0
    rows: int = 0
    rows_per_second: float = math.nan
    batch_s: float = math.nan
    sums: dict[str, int] = field(default_factory=dict)

    @property
    def lag_s(self) -> float:
        """Age of the last transaction read; 0 while there is nothing new, NaN if none was read.

        If Spark reports nothing for a while, the time since it last reported that there was nothing new.
        """
        if math.isnan(self.idle_s):
            return math.nan if math.isnan(self.commit_s) else max(0.0, time.time() - self.commit_s)
        silent_s = time.time() - self.idle_s
        return silent_s if silent_s > _IDLE_S else 0.0


#: The metrics of a query.
STREAM_METRICS: tuple[Metric[_Query], ...] = (
    ("active", "gauge", "1 while the query runs", lambda q: q.active),
    ("failed", "gauge", "1 if the query ended with an error", lambda q: q.failed),
    (
        "lag_seconds", "gauge", "Age of the last transaction read; 0 if there is nothing new",
        lambda q: q.lag_s,
    ),
    (
        "commit_timestamp_seconds", "gauge", "Commit time of the last transaction read",
        lambda q: q.commit_s,
    ),
    ("batches", "counter", "Micro-batches with rows or progress", lambda q: q.batches),
    ("rows", "counter", "Rows read", lambda q: q.rows),
    (
        "rows_per_second", "gauge", "Rows read per second of the last micro-batch",
        lambda q: q.rows_per_second,
    ),
    ("batch_seconds", "gauge", "Duration of the last micro-batch", lambda q: q.batch_s),
    (
        "unshown", "gauge", "Changes that rows cannot show, since the checkpoint began",
        lambda q: q.sums.get("unshown", 0),
    ),
    (
        "skipped_bytes", "gauge", "Bytes lost to damage, since the checkpoint began",
        lambda q: q.sums.get("skipped_bytes", 0),
    ),
)  # fmt: skip


class StreamMetrics(StreamingQueryListener):
    """Keeps the last reports of a session's queries. `collect` returns them to Prometheus.

    Counters begin with the listener. A query that ended stays, with `active` 0, until a query of
    the same name starts.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[str, _Query] = {}  # by run
        self._end: Callable[[], None] = lambda: None

    # -- called by Spark

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        self.add(event)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress
        ends = [source.endOffset for source in progress.sources]
        reached = next(filter(None, map(_offset, ends)), None)
        query = self.add(progress)
        with self._lock:
            if reached is None:
                # without an end, the batch has not begun to read
                query.is_shown = query.is_shown and not any(ends)
                return
            query.idle_s, query.is_shown = math.nan, True
            query.batches += 1
            query.rows += progress.numInputRows
            query.rows_per_second = progress.processedRowsPerSecond
            query.batch_s = progress.durationMs.get("triggerExecution", math.nan) / 1000
            query.sums = dict(reached.sums)
            if reached.commit_us is not None:
                query.commit_s = reached.commit_us / 1e6

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        with self._lock:
            query = self._queries.get(str(event.runId))
            if query is not None:
                query.idle_s = time.time()

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        with self._lock:
            query = self._queries.get(str(event.runId))
            if query is not None:
                query.active, query.idle_s = False, math.nan
                query.failed = event.exception is not None

    def add(self, query: Any) -> _Query:
        """Return the state of a query, given anything with its `name`, `id` and `runId`."""
        with self._lock:
            run = str(query.runId)
            if run not in self._queries:
                name = query.name or str(query.id)
                self._forget(name)
                self._queries[run] = _Query(name)
            return self._queries[run]

    def _forget(self, name: str) -> None:
        """Drop the earlier runs of a query."""
        for run in [run for run, query in self._queries.items() if query.name == name]:
            del self._queries[run]

    # -- called by Prometheus and probes

    def not_ready(self) -> str:
        """Return why the streams are not ready: one has failed, or none runs; "" if they are."""
        with self._lock:
            queries = [query for query in self._queries.values() if query.is_shown]
        failed = sorted(query.name for query in queries if query.failed)
        if failed:
            return f"queries that ended with an error: {', '.join(failed)}"
        return "" if any(query.active for query in queries) else "no query runs"

    def collect(self) -> Iterator[Any]:
        """Yield the metrics, each with a sample for each query."""
        with self._lock:
            queries = [query for query in self._queries.values() if query.is_shown]
        yield from families(_PREFIX, STREAM_METRICS, ["query"], [([q.name], q) for q in queries])

    def close(self) -> None:
        """Stop listening and serving."""
        self._end()


def stream_metrics(spark: SparkSession, port: int, address: str = "127.0.0.1") -> StreamMetrics:
    """Serve the metrics of a session's streams at http://<address>:<port>/metrics.

    `/healthz` answers 200 while the process runs. `/readyz` answers 503 after a query has ended with
    an error, until it starts again, and while no query runs.

    Needs the extra [server]. Raises OptionError without it, SourceError if it cannot listen.
    """
    metrics = StreamMetrics()
    served = MetricsPort(registry_of(metrics.collect), address, port, metrics.not_ready)
    spark.streams.addListener(metrics)
    for query in spark.streams.active:
        metrics.add(query)

    def end() -> None:
        spark.streams.removeListener(metrics)
        served.close()

    metrics._end = end
    return metrics


def _offset(text: str | None) -> StreamOffset | None:
    """Return the end offset of a source, if it is binlake's."""
    try:
        return StreamOffset.from_json(json.loads(text or "null"))
    except (SourceError, ValueError):
        return None
