"""How many rows a transaction changes, and of which tables: counted, not decoded.

A rows event does not say how many rows it holds, so its images are stepped over, value by
value, by the same kernels that decode them, with nothing kept.
"""

from __future__ import annotations

from dataclasses import replace

from binlake.core.table_sink import CurrentRow, TableSink
from binlake.core.walk import RowWalker
from binlake.errors import BinlogError, FormatError, MissingContextError, UnsupportedError
from binlake.stream.ddl import TakesDdl
from binlake.stream.runs import Transaction
from binlake.stream.views import RowCounts
from binlake.table.batches import OPERATIONS
from binlake.table.history import spot_of
from binlake.table.resolve import TableResolver, silent
from binlake.table.types.base import Target
from binlake.values.frame import EventFormat
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["RowCounter"]


class RowCounter:
    """Counts the row changes of transactions, of the tables and operations that are wanted.

    Where the rows of a transaction cannot be stepped over (a column type that the log does not
    describe; damage, with on_error=skip), its counts are None, and the ledger says why. `on_ddl` is
    to be told of the DDL in between, which may tell how wide old temporal values are.
    """

    def __init__(self, options: ReadOptions, ledger: Ledger) -> None:
        self._options = options
        self._ledger = ledger
        self._tables = TableResolver(options, Target.TEXT, silent)
        self.on_ddl: TakesDdl = self._tables.history.note
        self._generation = 0
        self._operations = [OPERATIONS.index(op) for op in options.op or OPERATIONS]
        self._names: dict[TableSink, str] = {}
        self._walker = RowWalker(self._resolve, options.batch_bytes)

    def __call__(self, transaction: Transaction) -> RowCounts:
        """The counts of one transaction. Raises FormatError."""
        counts: dict[str, list[int]] = {}
        try:
            self._walk(transaction, counts)
        except (UnsupportedError, MissingContextError, FormatError) as error:
            if isinstance(error, FormatError) and self._options.on_error == "stop":
                raise
            self._ledger.warn(f"rows of some transactions are not counted: {error.message}")
            self._names.clear()
            self._walker = RowWalker(self._resolve, self._options.batch_bytes)
            return RowCounts((), None, None, None)
        totals = [sum(column) for column in zip(*counts.values(), strict=True)] or [0, 0, 0]
        return RowCounts(tuple(counts), *totals)

    def _walk(self, transaction: Transaction, counts: dict[str, list[int]]) -> None:
        generation = self._tables.history.at(spot_of(transaction))
        if generation != self._generation:
            self._generation = generation
            self._walker.forget_tables()
        self._walker.begin_transaction(
            None, transaction.commit_us, transaction.thread_id, transaction.start.offset
        )
        for piece in transaction.pieces():
            window = piece.window
            self._walker.set_format(window.format)
            at = piece.first
            while at < piece.last:
                try:
                    at = self._walker.run_rows(
                        window.data, window.base, window.block, at, piece.last
                    )
                except BinlogError as error:
                    raise piece.locate(error) from None
                if self._walker.is_full:
                    self._take(counts)
        self._take(counts)

    def _take(self, counts: dict[str, list[int]]) -> None:
        for sink, _ in self._walker.finish().tables:
            into = counts.setdefault(self._names[sink], [0, 0, 0])
            for op, count in enumerate(sink.taken()):
                into[op] += count

    def _resolve(self, body: bytes, fmt: EventFormat) -> TableSink | None:
        types = self._tables.types(body, fmt)
        if types is None:
            return None
        plans = tuple(replace(plan, wanted=False) for plan in types.plan.columns)
        sink = CurrentRow(plans, plans, self._operations)
        self._names[sink] = types.definition.full_name
        return sink
