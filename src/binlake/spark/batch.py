"""The batch reader of the data source: the plan of the driver, and the batches of a task.

It has no `pushFilters` on purpose (see the package's docstring).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from binlake.spark.driver import SessionDriver
from binlake.spark.hosts import Shipped, without_traceback
from binlake.spark.ledger_watcher import watch
from binlake.spark.ledgers import ReadLedger, name_of_read
from binlake.spark.options import SourceOptions
from binlake.spark.partitions import LogPartition, plan_partitions, read_partition, reporting
from binlake.spark.schema import Conformer, arrow_schema
from binlake.spark.typed import InferredView, check_where
from binlake.spark.views import ViewReader
from binlake.stream.log_ddl import LogDdl
from binlake.table.counting.row_counts import counts_rows
from binlake.table.log_part import with_ddl
from binlake.values.ledger import Ledger


@dataclass
class BinlogReader(Shipped, DataSourceReader):
    """Reads one view of a log as Arrow batches of exactly the schema that Spark expects."""

    options: SourceOptions
    schema: StructType
    inferred: InferredView | None
    driver: SessionDriver

    @without_traceback
    def partitions(self) -> list[InputPartition]:
        """Return one partition per task."""
        options = self.options
        read = ReadLedger(
            name_of_read(),
            options.label,
            options.ledger_path,
            awaited=options.ledger_path is not None,
            facts=options.facts,
            collector=self.driver.collector,
        )
        size = self.driver.task_size(options.max_partition_bytes)
        parts = plan_partitions(options.paths, options.read, size)
        if options.shows_rows and self.inferred is None:
            check_where(options)
        if options.shows_rows or counts_rows(options.view, self.schema.names, options.read):
            ddl = LogDdl.of(options.paths, options.read, options.ddl_scan_bytes)
            parts = with_ddl(parts, ddl)
        if not parts:
            read.deliver_nothing()
        elif options.ledger_path is not None and self.driver.collector is None:
            watch(read)
        return reporting(parts, read)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one partition; runs on an executor."""
        if partition is None:  # Spark's way to say that there are no partitions
            return
        assert isinstance(partition, LogPartition)
        yield from read_partition(self.batches, partition)

    def batches(self, partition: LogPartition, ledger: Ledger) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one partition, and count them in `ledger`. Raises BinlogError."""
        conformer = Conformer(arrow_schema(self.schema))
        view = ViewReader(self.options, self.schema.names, self.inferred)
        for batch in view.batches(partition, ledger):
            yield from conformer.conform(batch)
