"""Gather the statistics of chains of logs in one pass: the result of `binlake stats`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from binlake.errors import FormatError
from binlake.source.chain import Chain
from binlake.stream.log_events import query_events
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Transaction
from binlake.stream.statistics import ddl_of, holds_ddl
from binlake.table.counting.counted import LIMITS, CountedBatch, CountingLimits
from binlake.table.counting.run_counts import RunCounter
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions


class TakesCounts(Protocol):
    """Receives the results of a pass over logs: `stream.statistics.Statistics`, or more than that."""

    def add(self, transactions: pa.Table, changes: pa.Table, tables: tuple[str, ...]) -> None: ...

    def add_statements(self, transaction: Transaction, ddl: Iterable[dict[str, Any]]) -> None: ...


_Taker = TypeVar("_Taker", bound=TakesCounts)

#: Counts, or a transaction with statements and the entries of its DDL.
_Found = CountedBatch | tuple[Transaction, list[dict[str, Any]]]


def gather(
    chains: Sequence[Chain],
    options: ReadOptions,
    ledger: Ledger,
    into: _Taker,
    watched: Callable[[Iterable[_Found]], Iterable[_Found]] = lambda found: found,
    limits: CountingLimits = LIMITS,
) -> _Taker:
    """Fill `into` with the wanted transactions; `watched` sees the results pass. `limits` bound the memory.

    Raises BinlogError.
    """
    for reader in LogReader.of_chains(chains, options, ledger):
        for found in watched(_found(reader, options, ledger, limits)):
            if isinstance(found, CountedBatch):
                into.add(found.transactions, found.changes, found.tables)
            else:
                into.add_statements(*found)
    return into


def _found(
    reader: LogReader, options: ReadOptions, ledger: Ledger, limits: CountingLimits
) -> Iterator[_Found]:
    """Return the changes of the runs of a reader, and the DDL among them."""
    counter = RunCounter(options, ledger, limits)
    for run in reader.runs(counter.on_ddl):
        if isinstance(run, Transaction) and run.statements:
            yield run, list(_ddl(run, options, ledger))
        yield from counter.add(run)
    yield from counter.finish()


def _ddl(
    transaction: Transaction, options: ReadOptions, ledger: Ledger
) -> Iterator[dict[str, Any]]:
    """Return the entries of the list of DDL; with on_error=skip without those that cannot be
    decoded.
    """
    if not holds_ddl(transaction):
        return
    try:
        yield from ddl_of(transaction, query_events(transaction))
    except FormatError as error:
        if options.on_error != "skip":
            raise
        ledger.warn(f"the list lacks some statements: {error.message}")
