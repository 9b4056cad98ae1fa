"""Read row changes from logs: the one way for the Python API, the commands and Spark's tasks.

    for batches in read_changes(chains, options, ledger, Target.TYPED, schema, shape):
        …

A `LogReader` reads a chain or a split, and one `ChangeDecoder` on each thread of the option
`threads` decodes its runs. `shape` converts changes for the caller, on the same threads. Its
result must not depend on other changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from binlake.source.chain import Chain
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Run
from binlake.stream.spread import ReadsRuns, RunWorker, Spread
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.batches import Changes
from binlake.table.decode import ChangeDecoder
from binlake.table.resolve import ResolvesTables, TableResolver
from binlake.table.schema.declared import DeclaredSchema, Lacks, lacks_something
from binlake.table.schema.history import SchemaHistory
from binlake.table.schema.renames import renames_of
from binlake.table.types.base import Target
from binlake.table.where.choosing import ChoosesRows
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

T = TypeVar("T")


def as_they_are(changes: Changes) -> Changes:
    """The shape of changes for a caller that wants them unchanged."""
    return changes


def keep_renames(ddl: DdlStatement, ledger: Ledger) -> None:
    """Keep the columns that a statement renames in a ledger."""
    ledger.renamed.extend(renames_of(ddl))


def read_changes(
    chains: Sequence[Chain],
    options: ReadOptions,
    ledger: Ledger,
    target: Target,
    schema: DeclaredSchema,
    shape: Callable[[Changes], T],
    *,
    lacks: Lacks = lacks_something,
    watched: Callable[[LogReader], ReadsRuns] = lambda reader: reader,
    rows: ChoosesRows | None = None,
    resolved: Callable[[TableResolver], ResolvesTables] = lambda tables: tables,
) -> Iterator[T]:
    """Yield the row changes of the chains, in commit order, each batch in the form that `shape`
    returns.

    `schema` completes the facts that the logs lack, where `lacks` is true. `watched` may put
    something between a reader and the decoders. `rows` chooses row changes, instead of the option
    where. `resolved` may put something between the decoders and what resolves their tables. Raises BinlogError,
    after the changes before the error.
    """
    spread = Spread[T](options, ledger, keep_renames, chains=chains)
    lookup = None if rows is None else rows.lookup(options)
    readers = LogReader.of_chains(chains, options, spread.reader_ledger, lookup=lookup)
    for chain, reader in zip(chains, readers, strict=True):
        known = schema.of_logs(chain.paths)
        yield from decoded(watched(reader), spread, target, known, shape, lacks, rows, resolved)


def decoded(
    reader: ReadsRuns,
    spread: Spread[T],
    target: Target,
    schema: DeclaredSchema,
    shape: Callable[[Changes], T],
    lacks: Lacks = lacks_something,
    rows: ChoosesRows | None = None,
    resolved: Callable[[TableResolver], ResolvesTables] = lambda tables: tables,
) -> Iterator[T]:
    """Yield the row changes of one reader, which counts in the ledger of `spread` for readers."""

    def decoding(share: ReadOptions, counts: Ledger) -> _Decoding[T]:
        history = SchemaHistory(schema, lacks)
        tables = resolved(TableResolver(share, target, counts.warn, history))
        decoder = ChangeDecoder(share, target, counts, history=history, rows=rows, tables=tables)
        return _Decoding(decoder, shape)

    return spread.results(reader, decoding)


class _Decoding(RunWorker[T]):
    """Decodes runs, and shapes their changes."""

    def __init__(self, decoder: ChangeDecoder, shape: Callable[[Changes], T]) -> None:
        self._decoder = decoder
        self._shape = shape

    def begin(self, ddl_before: Callable[[], Iterable[DdlStatement]]) -> None:
        self._decoder.begin(ddl_before)

    def on_ddl(self, ddl: DdlStatement) -> None:
        self._decoder.on_ddl(ddl)

    def work(self, runs: Iterator[Run]) -> Iterator[T]:
        return map(self._shape, self._decoder.decode(runs))
