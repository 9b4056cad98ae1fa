"""The partitions of a Spark read: a part of the logs, and the destination of its ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from binlake.errors import BinlogError
from binlake.spark.ledgers import ReadLedger
from binlake.spark.memory import memory_error
from binlake.stream.positions.splits import Split, plan_files
from binlake.table.log_part import LogPart, TaskSize, divided
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions


@dataclass
class LogPartition(LogPart, InputPartition):
    """The input of one task of a read. `read` is the destination of the task's ledger; None: the
    caller keeps it.
    """

    read: ReadLedger | None = None


def plan_partitions(
    paths: Sequence[str], options: ReadOptions, size: TaskSize
) -> list[LogPartition]:
    """Return the partitions of the logs. Raises SourceError, OptionError."""
    return partitions_of(plan_files(paths, options), size)


def partitions_of(files: Sequence[Split], size: TaskSize) -> list[LogPartition]:
    """Return partitions of about one size: large files cut, small files together."""
    return [LogPartition(part.splits) for part in divided(files, size)]


def reporting(partitions: Sequence[LogPartition], read: ReadLedger) -> list[InputPartition]:
    """Return the partitions of a read whose tasks deliver their ledgers to `read`. Raises SourceError."""
    read.create_directory()
    count = len(partitions)
    return [replace(part, read=read.for_task(n, count)) for n, part in enumerate(partitions)]


def read_partition(
    batches: Callable[[LogPartition, Ledger], Iterator[pa.RecordBatch]], partition: LogPartition
) -> Iterator[pa.RecordBatch]:
    """Yield the result of `batches` for a partition, and deliver its ledger at the end.

    Raises BinlogError, without the frames that Spark would print.
    """
    ledger = Ledger()
    try:
        if partition.read is not None:
            partition.read.expect_directory()
        yield from batches(partition, ledger)
        if partition.read is not None:
            partition.read.deliver(ledger)
    except BinlogError as error:
        if partition.read is not None:
            partition.read.failed(ledger, error)
        raise error.with_traceback(None) from None
    except Exception as error:
        told = memory_error(error)
        if told is None:
            raise
        if partition.read is not None:
            partition.read.failed(ledger, told)
        raise told from None
