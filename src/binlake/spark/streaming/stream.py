"""The streaming reader of the data source: micro-batches over a log that grows.

One instance lives in a helper process of the driver as long as the query runs (`latestOffset`,
`partitions`); the executors read with others, from pickled partitions alone.

Spark 4.1 calls `latestOffset()` without the beginning of the batch. So the instance remembers
where the last batch ended. After a restart Spark asks for the partitions of the last batch, or of
an empty one at its end, which reveals it. Spark 4.2 passes the beginning and the limit
(`ReadLimit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from binlake.errors import OptionError, PositionLostError
from binlake.follow.logs import DirectoryLogs, StreamLogs
from binlake.follow.offsets import StreamOffset
from binlake.follow.planner import StreamPlanner
from binlake.follow.server_logs import PATIENCE_S, ServerLogs
from binlake.source.replica.url import ServerUrl, is_server_url
from binlake.spark.driver import SessionDriver
from binlake.spark.hosts import Shipped, without_spark_frames
from binlake.spark.ledgers import (
    ReadLedger,
    batch_sums,
    collected_ledger,
    name_of_batch,
    print_remarks,
)
from binlake.spark.options import SourceOptions
from binlake.spark.partitions import LogPartition, partitions_of, read_partition, reporting
from binlake.spark.schema import Conformer, arrow_schema
from binlake.spark.typed import PinnedView
from binlake.spark.views import ViewReader
from binlake.stream.positions.boundary import UNLIMITED, Limits
from binlake.values.ledger import Ledger
from binlake.values.position import FilePosition

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # Spark 4.1

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Newer Sparks look for their own class of this name."""


class BinlogStreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Follows the logs of one server; each batch is whole transactions, in commit order."""

    #: How many seconds the driver tries again if the server is not available.
    patience_s: float = PATIENCE_S

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        pinned: PinnedView | None,
        driver: SessionDriver,
    ) -> None:
        self.options = options
        self.schema = schema
        self.pinned = pinned
        self.driver = driver
        self._logs: StreamLogs | None = None
        self._initial: StreamOffset | None = None
        self._reached: StreamOffset | None = None  # the end of the last planned batch
        self._guessed = False  # Spark 4.1 asked how far before it told from where
        self._until: StreamOffset | None = None  # where Trigger.AvailableNow ends

    def __getstate__(self) -> dict[str, Any]:
        names = ("options", "schema", "pinned", "driver")
        return {name: getattr(self, name) for name in names}

    # -- in the driver ----------------------------------------------------------------------------

    @without_spark_frames
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Return where a query without a checkpoint begins."""
        return self._begin().to_json()

    @without_spark_frames
    def latestOffset(  # noqa: N802 - Spark's
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Return where the next batch ends. Spark 4.1 passes neither its start nor a limit."""
        begin = self._reached if start is None else StreamOffset.from_json(start)
        if begin is None:
            return self._first_guess()
        return self._next(begin, self._limits if limit is None else self._limits_for(limit))

    @without_spark_frames
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the partitions of the batch from `start` to `end`."""
        begin, stop = StreamOffset.from_json(start), StreamOffset.from_json(end)
        if start == end:
            self._check_guess()
        self._guessed, self._reached = False, stop
        if begin.initial and stop.begins_at is not None:
            begin = stop.begins_at
        if begin.key == stop.key:
            return []
        size = self.driver.task_size(self.options.max_partition_bytes)
        parts = partitions_of(self._planner.splits(begin, stop), size)
        return reporting(parts, self._read_ledger(begin, stop))

    def commit(self, end: dict[str, Any]) -> None:
        """Note that the batch up to `end` is in the sink; there is nothing to release."""

    def stop(self) -> None:
        """The query has ended."""
        if self._logs is not None:
            self._logs.close()

    # -- from Spark 4.2 on ------------------------------------------------------------------------

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's
        """Return the limit: Spark knows one kind at a time, but all of them apply
        (`latestOffset`).
        """
        from pyspark.sql.streaming import datasource as spark

        limits = self._limits
        if limits.bytes is not None:
            return spark.ReadMaxBytes(limits.bytes)
        rows = limits.rows if limits.rows is not None else limits.transactions
        return spark.ReadAllAvailable() if rows is None else spark.ReadMaxRows(rows)

    @without_spark_frames
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Remember where the log ends now: the query ends there."""
        self._until = self._planner.latest()

    @without_spark_frames
    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Return where the log ends now: Spark's progress shows it beside the batch's end."""
        return self._planner.head().to_json()

    # ---------------------------------------------------------------------------------------------

    @property
    def _planner(self) -> StreamPlanner:
        if self._logs is None:
            self._logs = logs_of(self.options, self.patience_s)
        return StreamPlanner(self._logs, self.options.read)

    @property
    def _limits(self) -> Limits:
        asked = self.options.stream
        return Limits(
            asked.max_bytes_per_batch, asked.max_rows_per_batch, asked.max_transactions_per_batch
        )

    def _limits_for(self, limit: Any) -> Limits:
        """Return the limits that Spark asks for: its own kinds contain those of `_limits`, or
        "everything".
        """
        return UNLIMITED if type(limit).__name__ == "ReadAllAvailable" else self._limits

    def _next(self, begin: StreamOffset, limits: Limits) -> dict[str, Any]:
        end = self._planner.advance(begin, limits, self._until)
        if end.key == begin.key and not begin.initial:
            return begin.to_json()  # exactly equal: nothing is new
        self._reached = replace(end.after(begin), sums=self._sums(begin))
        return self._reached.to_json()

    def _read_ledger(self, begin: StreamOffset | None, end: StreamOffset) -> ReadLedger:
        """Return the destination of the ledgers of the batch that ends there."""
        options, position = self.options, end.position
        ends = {} if begin is None else {"starts_at": begin.to_json(), "ends_at": end.to_json()}
        return ReadLedger(
            name_of_batch(position.file, position.offset, end.key, options.identity),
            f"{options.label} up to {position.file}:{position.offset}",
            options.ledger_path,
            awaited=True,
            facts={**options.facts, **ends},
            collector=self.driver.collector,
        )

    def _sums(self, begin: StreamOffset) -> dict[str, int]:
        """Return the sums of all batches up to `begin`: Spark's progress shows them with the next
        one.
        """
        if begin.initial:
            return {}
        read = self._read_ledger(None, begin)
        ledger, is_printed = collected_ledger(read)
        if ledger is None:
            return dict(begin.sums)
        if not is_printed and self.driver.collector is None:
            print_remarks(read.label, ledger)
        latest = batch_sums(ledger)
        return {name: begin.sums.get(name, 0) + count for name, count in latest.items()}

    def _first_guess(self) -> dict[str, Any]:
        """Handle Spark 4.1 before its first batch: a new query, or Trigger.AvailableNow, which
        asks how far to read before it passes the beginning.
        """
        self._guessed = True
        try:
            begin = self._begin()
        except PositionLostError:  # reported by `initialOffset`, if this is a new query
            return self._planner.latest().to_json()
        return self._next(begin, self._limits)

    def _check_guess(self) -> None:
        """Handle the first offset from Spark: this is not a new query. A limited guess started at
        the wrong place.
        """
        if self._guessed and self._limits.any:
            raise OptionError(
                "Spark 4.1 cannot limit the batches of Trigger.AvailableNow after a restart",
                name="max_bytes_per_batch",
                hint="remove the options max_…_per_batch, or use Spark 4.2 or newer",
            )

    def _begin(self) -> StreamOffset:
        """Return the first offset of a new query, always the same in one process."""
        if self._initial is None:
            self._initial = replace(self._starting_offset(), initial=True)
        return self._initial

    def _starting_offset(self) -> StreamOffset:
        asked, planner = self.options.stream, self._planner
        if asked.starting_timestamp is not None:
            return planner.at_time(asked.starting_timestamp)
        start = asked.starting_offsets or "earliest"
        if isinstance(start, FilePosition):
            return planner.at_position(start)
        words = {"earliest": planner.earliest, "latest": planner.latest}
        return words[start]() if start in words else planner.after_gtids(start)

    # -- in the executors -------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one partition."""
        assert isinstance(partition, LogPartition)
        yield from read_partition(self._batches, partition)

    def _batches(self, partition: LogPartition, ledger: Ledger) -> Iterator[pa.RecordBatch]:
        conformer = Conformer(arrow_schema(self.schema))
        view = ViewReader(self.options, self.schema.names, self.pinned)
        for batch in view.batches(partition, ledger):
            yield from conformer.conform(batch)


def logs_of(options: SourceOptions, patience_s: float = PATIENCE_S) -> StreamLogs:
    """Return the logs that the options name; `patience_s` as for `ServerLogs`."""
    urls = [path for path in options.paths if is_server_url(path)]
    if not urls:
        return DirectoryLogs(options.paths, options.read)
    if len(options.paths) > 1:
        raise OptionError(
            "a stream follows one server, but the options give several paths",
            name="path",
            hint="write servers that replicate one another as one URL: mysql://user@db1,db2/",
        )
    if ServerUrl.parse_all(urls[0])[0].log_name:
        raise OptionError(
            "a stream follows a server, but the URL names one of its logs",
            name="server",
            hint="remove the log from the URL, and use starting_offsets for the beginning",
        )
    return ServerLogs(urls[0], options.read, patience_s)
