"""Count how many rows a transaction changes, and of which tables, without decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlake.stream.views import RowCounts
from binlake.table.counting.counting_walk import CountingWalk

if TYPE_CHECKING:
    from binlake.stream.runs import Piece, Transaction
    from binlake.values.ledger import Ledger
    from binlake.values.options import ReadOptions


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
                return RowCounts((), None, None, None)
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
