"""The input of a task: a few splits, read one after the other with one decoder.

Planning lists the files once and pins their lengths; it reads no byte of a log. Small files are
packed together and large ones cut, because a task takes time before its first row.
"""

from __future__ import annotations

import os
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeVar

from binlake.errors import SourceError
from binlake.source.locations import check_visible
from binlake.source.stores.opened_ahead import opened_ahead
from binlake.stream.log_ddl import LogDdl, before_split
from binlake.stream.log_reader import LogReader
from binlake.stream.positions.splits import Split, pack
from binlake.stream.runs import Run
from binlake.stream.spread import Spread
from binlake.stream.sql.ddl import DdlStatement, TakesDdl
from binlake.table.batches import Changes
from binlake.table.reading import as_they_are, decoded, keep_renames
from binlake.table.schema.schema_file import declared_schema
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition

P = TypeVar("P", bound="LogPart")

# The cost of opening a file, in bytes of log: on an object store it takes a round trip.
_FILE_BYTES = 1 << 20
# 128 MiB is also Spark's own size of a file split. A smaller task than 16 MiB takes less time for
# its rows than to start.
_MOST_BYTES = 128 << 20
_LEAST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class TaskSize:
    """How many bytes of log a task reads: `most`, or with `cores` less.

    With `cores` each core gets a share, as in Spark's own file sources, but at least 16 MiB. If a share
    is too large, each core gets equally many parts of it: three tasks on two cores would take as
    long as four.
    """

    most: int = _MOST_BYTES
    cores: int | None = None

    def of(self, files: Sequence[Split]) -> int:
        """Return the size for these files; the cost of opening a file counts as bytes."""
        if self.cores is None:
            return self.most
        total = sum(file.bytes + _FILE_BYTES for file in files)
        of_each_core = max(1, -(-total // (self.cores * self.most)))
        return min(self.most, max(_LEAST_BYTES, -(-total // (self.cores * of_each_core))))


@dataclass
class LogPart:
    """The splits of one task, in chain order; one decoder reads those of a chain.

    `ddl`: of each chain whose DDL the task uses, the statements before the end of the log of its first
    split (`stream/log_ddl.py`). Of other chains it uses none, since it sees only a part of it.
    """

    splits: tuple[Split, ...]
    ddl: Mapping[tuple[str, str], bytes] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """Return the files that it reads."""
        return [split.log.path for split in self.splits]

    def by_chain(self) -> Iterator[LogPart]:
        """Yield its splits as one part per chain."""
        for _, splits in groupby(self.splits, key=lambda split: split.log.chain):
            yield LogPart(tuple(splits), self.ddl)

    def ddl_before(self, first: ChainPosition) -> Iterable[DdlStatement]:
        """Return the statements of its only chain before `first`, the start of its first split."""
        ddl = self.ddl.get(self.splits[0].log.chain)
        return () if ddl is None else before_split(pickle.loads(zlib.decompress(ddl)), first)

    def readers(self, options: ReadOptions, ledger: Ledger) -> Iterator[LogReader]:
        """Yield a reader per split, of the transactions that start in it. Raises BinlogError."""
        for path in (options.keyring, options.keyring_password_file):
            if path is not None:
                check_visible(path)
        yield from opened_ahead(
            self.splits,
            lambda split: self._reader(split, options, ledger),
            lambda split: split.log.version,
        )

    @staticmethod
    def _reader(split: Split, options: ReadOptions, ledger: Ledger) -> LogReader:
        # Opening the file shows whether it exists. For a store, a separate check would cost a request.
        try:
            return LogReader.of_split(split, options, ledger)
        except SourceError:
            try:
                now = split.found()
            except SourceError:
                check_visible(os.path.dirname(split.log.path))  # noqa: PTH120 -- may be a URI
                raise
            check_visible(now.log.path)
            if now is split:
                raise
            return LogReader.of_split(now, options, ledger)

    def changes(
        self,
        options: ReadOptions,
        target: Target,
        ledger: Ledger,
        on_run: Callable[[], None] = lambda: None,
    ) -> Iterator[Changes]:
        """Yield their row changes. Calls `on_run` for each run of transactions, which can end the read by an
        error. Raises BinlogError.
        """
        if options.schema is not None:
            check_visible(options.schema)
        # Spark assigns cores to tasks, so a task has one thread by default
        options = replace(options, threads=options.threads or 1)
        spread = Spread[Changes](options, ledger)
        # the server of a log completes facts that the log lacks
        with closing(declared_schema(options, self.paths)) as schema:
            for runs in self._runs(options, spread.reader_ledger, on_run):
                yield from decoded(runs, spread, target, schema, as_they_are)

    def _runs(
        self, options: ReadOptions, ledger: Ledger, on_run: Callable[[], None]
    ) -> Iterator[_Runs]:
        for part in self.by_chain() if self.ddl else [self]:
            yield _Runs(part, options, ledger, on_run)


@dataclass
class _Runs:
    """Yield the runs of a part, and keep the renamed columns of its DDL in `ledger`.

    If the part has no DDL of its chain, its own statements have no effect either: names must not
    depend on where a part begins.
    """

    part: LogPart
    options: ReadOptions
    ledger: Ledger
    on_run: Callable[[], None]

    def runs(self, on_ddl: TakesDdl) -> Iterator[Run]:
        uses_ddl = any(split.log.chain in self.part.ddl for split in self.part.splits)

        def keep(ddl: DdlStatement) -> None:
            keep_renames(ddl, self.ledger)
            if uses_ddl:
                on_ddl(ddl)

        for number, reader in enumerate(self.part.readers(self.options, self.ledger)):
            if number == 0:
                for ddl in self.part.ddl_before(reader.first):
                    on_ddl(ddl)
            for run in reader.runs(keep):
                self.on_run()
                yield run

    def ddl_before(self) -> Iterable[DdlStatement]:
        return ()


def with_ddl(parts: Sequence[P], ddl: LogDdl) -> list[P]:
    """Return the parts with the statements that their tasks need."""
    packed: dict[tuple[tuple[str, str], str], bytes] = {}

    def needed(part: LogPart) -> dict[tuple[str, str], bytes]:
        found: dict[tuple[str, str], bytes] = {}
        for log in (split.log for split in part.splits):
            key = log.chain, log.name
            if log.chain in ddl.chains and log.chain not in found:  # the first of its chain
                if key not in packed:
                    packed[key] = zlib.compress(pickle.dumps(ddl.up_to(log)))
                found[log.chain] = packed[key]
        return found

    return [replace(part, ddl=needed(part)) for part in parts] if ddl.chains else list(parts)


def divided(files: Sequence[Split], size: TaskSize) -> list[LogPart]:
    """Return parts of about one size: large files cut, small files together."""
    most = size.of(files)
    return packed([part for file in files for part in file.ranges(most)], most)


def packed(splits: Sequence[Split], part_bytes: int) -> list[LogPart]:
    """Return parts of about `part_bytes`, small files together."""
    groups = pack(splits, part_bytes + _FILE_BYTES, _FILE_BYTES)
    return [LogPart(tuple(group)) for group in groups]
