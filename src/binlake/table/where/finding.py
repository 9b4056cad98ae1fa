"""The rows of a run that a condition chooses, found without an array: the core decides it as it steps over images."""

from __future__ import annotations

from collections.abc import Callable

from binlake.core.images.row_condition import RowCondition
from binlake.core.rows.row_selection import RowSelection
from binlake.core.rows.table_sink import RowMatches, TableSink
from binlake.core.rows.walk import RowWalker, UndecidedError
from binlake.errors import BinlogError
from binlake.stream.runs import PlainRun
from binlake.table.batches import OPERATIONS
from binlake.table.plan import ColumnsOf, TableTypes
from binlake.table.resolve import TableResolver, silent
from binlake.table.schema.history import SchemaHistory, position_of
from binlake.table.types.base import Target
from binlake.values.frame import EventFormat
from binlake.values.options import ReadOptions


class RowFinder:
    """Finds rows in plain runs. `options` and `columns` as for a decoder of the columns of the condition.

    `condition_of` returns the condition for a table; None if the core cannot decide it.
    """

    def __init__(
        self,
        options: ReadOptions,
        history: SchemaHistory,
        columns: ColumnsOf,
        condition_of: Callable[[TableTypes], RowCondition | None],
    ) -> None:
        self._tables = TableResolver(options, Target.TEXT, silent, history, columns)
        self._operations = [OPERATIONS.index(op) for op in options.op or OPERATIONS]
        self._history = history
        self._condition_of = condition_of
        self._generation = 0
        self._walker = RowWalker(self._resolve)

    def find(self, run: PlainRun) -> tuple[RowSelection, memoryview[int]] | None:
        """Return the rows that match and the numbers of the transactions that they are in; None if there are none.

        Raises UndecidedError where arrays have to decide, or report an error.
        """
        walker = self._walker
        try:
            generation = self._history.at(position_of(run))
            if generation != self._generation:
                self._generation = generation
                walker.forget_tables()
            window = run.window
            walker.set_format(window.format)
            return walker.find_rows(window.data, window.base, run.plain, run.first, run.last)
        except BinlogError:
            self._walker = RowWalker(self._resolve)
            raise UndecidedError from None

    def _resolve(self, body: bytes, fmt: EventFormat) -> TableSink | None:
        types = self._tables.types(body, fmt)
        if types is None:
            return None
        return RowMatches(types.plan.columns, self._operations, self._condition_of(types))
