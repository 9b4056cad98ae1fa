"""The statistics of chains of logs, gathered in one pass: what `binlake stats` shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from binlake.errors import FormatError
from binlake.format.event_types import QUERY_COMPRESSED_EVENT, QUERY_EVENT
from binlake.source.chain import Chain
from binlake.stream.log_events import LogEvent, events_of_piece
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Run, Transaction
from binlake.stream.statistics import Statistics, ddl_of
from binlake.table.run_counts import RunCounter
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["gather"]

_QUERY_CODES = re.compile(
    b"[" + re.escape(bytes((QUERY_EVENT, QUERY_COMPRESSED_EVENT))) + b"]", re.DOTALL
)


def gather(
    chains: Sequence[Chain],
    options: ReadOptions,
    ledger: Ledger,
    into: Statistics,
    watched: Callable[[Iterable[Run]], Iterable[Run]] = lambda runs: runs,
) -> Statistics:
    """Fill `into` with the transactions that the options want; `watched` sees the runs pass.

    Raises BinlogError.
    """
    for reader in LogReader.of_chains(chains, options, ledger):
        counter = RunCounter(options, ledger)
        for run in watched(reader.runs(counter.on_ddl)):
            if isinstance(run, Transaction) and run.statements:
                into.add_statements(run, _ddl(run, options, ledger))
            for batch in counter.add(run):
                into.add(batch.transactions, batch.changes, batch.tables)
        for batch in counter.finish():
            into.add(batch.transactions, batch.changes, batch.tables)
    return into


def _ddl(
    transaction: Transaction, options: ReadOptions, ledger: Ledger
) -> Iterator[dict[str, Any]]:
    """The entries of the DDL list; with on_error=skip without those that cannot be decoded."""
    try:
        yield from ddl_of(transaction, _queries(transaction))
    except FormatError as error:
        if options.on_error != "skip":
            raise
        ledger.warn(f"some statements are not listed: {error.message}")


def _queries(transaction: Transaction) -> Iterator[LogEvent]:
    """The QUERY events of a transaction."""
    for piece in transaction.pieces():
        codes = bytes(piece.window.block.type_code[piece.first : piece.last])
        for match in _QUERY_CODES.finditer(codes):
            at = match.start()
            one = replace(piece, first=piece.first + at, last=piece.first + at + 1)
            yield from events_of_piece(replace(one, inner=piece.inner + at))
