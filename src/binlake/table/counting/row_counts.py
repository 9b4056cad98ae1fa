"""Count how many rows a transaction changes, and of which tables, without decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from binlake.stream.views import RowCounts, View, statements, transaction_rows
from binlake.table.counting.counting_walk import CountingWalk

if TYPE_CHECKING:
    import pyarrow as pa

    from binlake.stream.log_reader import LogReader
    from binlake.stream.runs import Piece, Transaction
    from binlake.stream.sql.ddl import DdlStatement
    from binlake.values.ledger import Ledger
    from binlake.values.options import ReadOptions
    from binlake.values.position import ChainPosition

_COUNTS = frozenset(("tables", "inserts", "updates", "deletes"))
_UNCOUNTED = RowCounts((), None, None, None)


class RowCounter:
    """Counts the row changes of single transactions, of the wanted tables and operations.

    If the rows of a transaction cannot be stepped over, its counts are None, and the ledger has
    the reason. `on_ddl` as in `CountingWalk`.
    """

    def __init__(self, options: ReadOptions, ledger: Ledger) -> None:
        self._walk = CountingWalk(options, ledger)
        self.on_ddl = self._walk.on_ddl
        self._transaction: Transaction | None = None

    def __call__(self, transaction: Transaction) -> RowCounts:
        """Return the counts of one transaction. Raises FormatError."""
        counts: dict[str, list[int]] = {}
        self.begin(transaction)
        for piece in transaction.pieces():
            if not self.count(piece, counts):
                return _UNCOUNTED
        totals = [sum(column) for column in zip(*counts.values(), strict=True)] or [0, 0, 0]
        return RowCounts(tuple(counts), *totals)

    def begin(self, transaction: Transaction) -> None:
        """Start the transaction of the following pieces."""
        self._transaction = transaction
        self._walk.begin(transaction, transaction.start.offset)

    def count(self, piece: Piece, into: dict[str, list[int]]) -> bool:
        """Add the row changes of a piece to `into`: inserts, updates and deletes by full name.

        Returns whether they can be counted. Raises FormatError.
        """
        try:
            for _ in self._walk.piece(piece):
                self._take(into)
        except self._walk.tolerated as error:
            self._walk.remark(error)
            self._walk.restart()
            if self._transaction is not None:
                self.begin(self._transaction)
            return False
        self._take(into)
        return True

    def _take(self, into: dict[str, list[int]]) -> None:
        for table, changes in self._walk.sums():
            counts = into.setdefault(table, [0, 0, 0])
            for op, count in enumerate(changes):
                counts[op] += count


def counts_rows(view: str, columns: Iterable[str], options: ReadOptions) -> bool:
    """Return whether such a read of a view has to count rows."""
    return view == "transactions" and (options.chooses_rows or not _COUNTS.isdisjoint(columns))


def view_batches(
    view: View,
    readers: Iterable[LogReader],
    columns: Sequence[str],
    options: ReadOptions,
    ledger: Ledger,
    ddl_before: Callable[[ChainPosition], Iterable[DdlStatement]] = lambda _first: (),
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a view over one chain, whose parts `readers` read in order.

    Rows are counted only for `columns` and options that need it. `ddl_before` returns the DDL
    before the start of the first reader. Raises BinlogError.
    """
    counts = counts_rows(view.name, columns, options)
    counter: RowCounter | None = None
    for reader in readers:
        if counts and counter is None:
            counter = RowCounter(options, ledger)
            for ddl in ddl_before(reader.first):
                counter.on_ddl(ddl)
        if view.name == "events":
            yield from view.batches(reader.events(), columns)
        elif view.name == "statements":
            yield from view.batches(statements(reader.groups()), columns)
        elif counter is None:
            rows = transaction_rows(reader.transactions(), lambda _: _UNCOUNTED, options)
            yield from view.batches(rows, columns)
        else:
            rows = transaction_rows(reader.transactions(counter.on_ddl), counter, options)
            yield from view.batches(rows, columns)
