"""The input of a task: a few splits, read one after the other with one decoder. Needs no PySpark.

Planning lists the files once and pins their lengths; it reads no byte of a log. Small files are
packed together and large ones cut, because a task costs about a tenth of a second before its first
row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from binlake.errors import SourceError
from binlake.spark.hosts import check_visible
from binlake.stream.log_reader import LogReader
from binlake.stream.positions.splits import Split, pack, plan_splits
from binlake.stream.runs import Run
from binlake.stream.spread import Spread
from binlake.stream.sql.ddl import DdlStatement, TakesDdl
from binlake.table.batches import Changes
from binlake.table.reading import as_they_are, decoded, keep_renames
from binlake.table.schema.schema_file import declared_schema
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["LogPart", "packed", "plan_parts"]

# The cost of opening a file, in bytes of log: on an object store it takes a round trip.
_FILE_BYTES = 1 << 20


@dataclass
class LogPart:
    """The splits of one task, in chain order; one decoder reads all of them."""

    splits: tuple[Split, ...]

    @property
    def paths(self) -> list[str]:
        """Return the files that it reads."""
        return [split.log.path for split in self.splits]

    def readers(self, options: ReadOptions, ledger: Ledger) -> Iterator[LogReader]:
        """Yield a reader per split, of the transactions that start in it. Raises BinlogError."""
        for path in (options.keyring, options.keyring_password_file):
            if path is not None:
                check_visible(path)
        for planned in self.splits:
            yield self._reader(planned, options, ledger)

    @staticmethod
    def _reader(split: Split, options: ReadOptions, ledger: Ledger) -> LogReader:
        # Whether the file is there is learnt from opening it: of a store, to ask is a request.
        try:
            return LogReader.of_split(split, options, ledger)
        except SourceError:
            now = split.found()
            check_visible(now.log.path)
            if now is split:
                raise
            return LogReader.of_split(now, options, ledger)

    def changes(self, options: ReadOptions, target: Target, ledger: Ledger) -> Iterator[Changes]:
        """Yield their row changes. Raises BinlogError."""
        if options.schema is not None:
            check_visible(options.schema)
        # Spark assigns cores to tasks, so a task has one thread by default
        options = replace(options, threads=options.threads or 1)
        spread = Spread[Changes](options, ledger)
        runs = _Runs(self, options, spread.reader_ledger)
        # the server of a log completes facts that the log lacks
        with closing(declared_schema(options, self.paths)) as schema:
            yield from decoded(runs, spread, target, schema, as_they_are)


@dataclass
class _Runs:
    """Yield the runs of a part. Of its DDL only renamed columns are kept, in `ledger`: names must
    not depend on where a part begins.
    """

    part: LogPart
    options: ReadOptions
    ledger: Ledger

    def runs(self, _on_ddl: TakesDdl) -> Iterator[Run]:
        for reader in self.part.readers(self.options, self.ledger):
            yield from reader.runs(lambda ddl: keep_renames(ddl, self.ledger))

    def ddl_before(self) -> Iterable[DdlStatement]:
        return ()


def plan_parts(
    paths: Sequence[str], options: ReadOptions, max_partition_bytes: int
) -> list[LogPart]:
    """Return parts of about `max_partition_bytes`. Raises SourceError, OptionError."""
    return packed(plan_splits(paths, options, max_partition_bytes), max_partition_bytes)


def packed(splits: Sequence[Split], max_partition_bytes: int) -> list[LogPart]:
    """Return parts of about `max_partition_bytes`, small files together."""
    groups = pack(splits, max_partition_bytes + _FILE_BYTES, _FILE_BYTES)
    return [LogPart(tuple(group)) for group in groups]
