"""What a Spark task reads: a few splits, one after the other, with one decoder.

Planning lists the files once and pins their lengths; it reads no byte of a log. Small files
are packed together and large ones cut, because a task costs about a tenth of a
second before its first row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain

from pyspark.sql.datasource import InputPartition

from binlake.spark.hosts import check_visible
from binlake.stream.log_reader import LogReader
from binlake.stream.splits import Split, pack, plan_splits
from binlake.table.batches import Changes
from binlake.table.decode import ChangeDecoder
from binlake.table.schema_file import declared_schema
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["LogPartition", "pack_partitions", "plan_partitions"]

# What opening a file counts for, in bytes of log: on an object store it takes a round trip.
_FILE_BYTES = 1 << 20


@dataclass
class LogPartition(InputPartition):
    """The splits of one task, in chain order; one decoder goes through all of them."""

    splits: tuple[Split, ...]

    @property
    def paths(self) -> list[str]:
        """The files that it reads from."""
        return [split.log.path for split in self.splits]

    def readers(self, options: ReadOptions, ledger: Ledger) -> Iterator[LogReader]:
        """A reader per split: of the transactions that start in it. Raises BinlogError."""
        for path in (options.keyring, options.keyring_password_file):
            if path is not None:
                check_visible(path)
        for planned in self.splits:
            split = planned.found()
            check_visible(split.log.path)
            yield LogReader.of_split(split, options, ledger)

    def changes(self, options: ReadOptions, target: Target, ledger: Ledger) -> Iterator[Changes]:
        """Their row changes. Raises BinlogError."""
        if options.schema is not None:
            check_visible(options.schema)
        runs = chain.from_iterable(reader.runs() for reader in self.readers(options, ledger))
        # a server that the log is read from completes what the log does not tell
        with closing(declared_schema(options, self.paths)) as schema:
            yield from ChangeDecoder(options, target, ledger, schema).decode(runs)


def plan_partitions(
    paths: Sequence[str], options: ReadOptions, max_partition_bytes: int
) -> list[LogPartition]:
    """Splits of about `max_partition_bytes`, packed. Raises SourceError, OptionError."""
    return pack_partitions(plan_splits(paths, options, max_partition_bytes), max_partition_bytes)


def pack_partitions(splits: Sequence[Split], max_partition_bytes: int) -> list[LogPartition]:
    """Partitions of about `max_partition_bytes`, small files together."""
    packed = pack(splits, max_partition_bytes + _FILE_BYTES, _FILE_BYTES)
    return [LogPartition(tuple(part)) for part in packed]
