"""Count how many rows each transaction of a run changes, for a limit on the rows of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from binlake.source.grouping import KEY, summed
from binlake.stream.runs import Run
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.counting.run_counts import RunCounter
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions


class RowTotals:
    """Counts the wanted rows (options table and op), transaction by transaction.

    Rows that cannot be counted count as none.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._counter = RunCounter(options, Ledger())

    def on_ddl(self, statement: DdlStatement) -> None:
        """Take a committed DDL statement."""
        self._counter.on_ddl(statement)

    def count(self, run: Run) -> Sequence[tuple[int, int]]:
        """Return (start of the transaction in its file, rows), in order. Raises FormatError."""
        found: list[tuple[int, int]] = []
        for batch in (*self._counter.add(run), *self._counter.finish()):
            sums = summed(batch.changes["transaction"], {"rows": batch.changes["rows"]})
            starts = pc.take(batch.transactions["pos"], sums[KEY])
            found += zip(starts.to_pylist(), sums["rows"].to_pylist(), strict=True)
        return found
