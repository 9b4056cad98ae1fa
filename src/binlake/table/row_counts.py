"""How many rows a transaction changes, and of which tables: counted, not decoded.

A rows event does not say how many rows it holds, so its images are stepped over, value by
value, by the same kernels that decode them, with nothing kept.
"""

from __future__ import annotations

from dataclasses import replace

from binlake.core.table_sink import CurrentRow, TableSink
from binlake.core.walk import RowWalker
from binlake.errors import BinlogError, MissingContextError, UnsupportedError
from binlake.events.reader import BodyReader
from binlake.events.table_map import TableMapEvent
from binlake.format.event_types import TABLE_MAP_EVENT
from binlake.stream.runs import Transaction
from binlake.stream.views import RowCounts
from binlake.table.declared import DeclaredSchema
from binlake.table.plan import TableFilter, TableTypes
from binlake.table.schema_file import read_schema_file
from binlake.table.types.base import Target
from binlake.values.frame import EventFormat, Frame
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["RowCounter"]


class RowCounter:
    """Counts the row changes of transactions, of the tables and operations that are wanted.

    Where the rows of a transaction cannot be stepped over (a column type that the log does not
    describe), its counts are None, and the ledger says why.
    """

    def __init__(self, options: ReadOptions, ledger: Ledger) -> None:
        self._options = options
        self._ledger = ledger
        self._schema = (
            read_schema_file(options.schema) if options.schema is not None else DeclaredSchema()
        )
        self._filter = TableFilter(options)
        self._names: dict[TableSink, str] = {}
        self._walker = RowWalker(self._resolve, options.batch_bytes)

    def __call__(self, transaction: Transaction) -> RowCounts:
        """The counts of one transaction. Raises FormatError."""
        counts: dict[str, list[int]] = {}
        try:
            self._walk(transaction, counts)
        except (UnsupportedError, MissingContextError) as error:
            self._ledger.warn(f"rows of some transactions are not counted: {error.message}")
            self._names.clear()
            self._walker = RowWalker(self._resolve, self._options.batch_bytes)
            return RowCounts((), None, None, None)
        totals = [sum(column) for column in zip(*counts.values(), strict=True)] or [0, 0, 0]
        return RowCounts(tuple(counts), *totals)

    def _walk(self, transaction: Transaction, counts: dict[str, list[int]]) -> None:
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
                    raise error.at(file=window.file.name) from None
                if self._walker.is_full:
                    self._take(counts)
        self._take(counts)

    def _take(self, counts: dict[str, list[int]]) -> None:
        for sink, _ in self._walker.finish().tables:
            into = counts.setdefault(self._names[sink], [0, 0, 0])
            for op, count in enumerate(sink.taken()):
                into[op] += count

    def _resolve(self, body: bytes, fmt: EventFormat) -> TableSink | None:
        frame = Frame(0, TABLE_MAP_EVENT, len(body), 0, 0, 0, 0)
        event = TableMapEvent.decode(frame, BodyReader(memoryview(body)), fmt)
        if not self._filter.wants(event.database, event.table):
            return None
        definition, _ = self._schema.complete(event.definition())
        types = TableTypes.of(definition, self._options, Target.TEXT, lambda _: None)
        plans = tuple(replace(plan, wanted=False) for plan in types.plan.columns)
        sink = CurrentRow(plans, plans)
        self._names[sink] = f"{event.database}.{event.table}"
        return sink
