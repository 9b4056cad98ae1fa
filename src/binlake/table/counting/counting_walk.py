"""The walk that counts row changes: it steps over images, and keeps no value.

A rows event does not record how many rows it contains. The kernels that decode images step over
them, value by value, with no wanted column. `RunCounter` makes columns of the counts of this walk,
`RowCounter` sums for single transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from binlake.core.rows.table_sink import CurrentRow, TableSink, unwanted
from binlake.core.rows.walk import RowWalker, WalkedRows
from binlake.errors import BinlogError, FormatError, MissingContextError, UnsupportedError
from binlake.stream.runs import Piece, PlainRun, Run, Transaction
from binlake.table.batches import OPERATIONS
from binlake.table.resolve import TableResolver, silent
from binlake.table.schema.history import position_of
from binlake.table.types.base import Target

if TYPE_CHECKING:
    from binlake.stream.sql.ddl import TakesDdl
    from binlake.values.frame import EventFormat
    from binlake.values.ledger import Ledger
    from binlake.values.options import ReadOptions


class CountingWalk:
    """Counts the row changes of the wanted tables and operations.

    The purpose of each counted sink is its table's name (`database.table`). If the walk cannot
    step over rows, it raises one of the `tolerated` errors; the walker then starts again. Pass the
    DDL in between to `on_ddl`, since it may contain the width of old temporal values.
    """

    def __init__(self, options: ReadOptions, ledger: Ledger) -> None:
        self._batch_bytes = options.batch_bytes
        self._ledger = ledger
        self._resolver = TableResolver(options, Target.TEXT, silent)
        self.on_ddl: TakesDdl = self._resolver.history.note
        self._generation = 0
        self.operations = [OPERATIONS.index(op) for op in options.op or OPERATIONS]
        #: Errors that make rows uncountable without failing the whole read: a column type that the
        #: log does not describe; with on_error=skip also damage.
        self.tolerated: tuple[type[BinlogError], ...] = (UnsupportedError, MissingContextError)
        if options.on_error == "skip":
            self.tolerated += (FormatError,)
        self.restart()

    def restart(self) -> None:
        """Drop tables and counts, after a failed walk."""
        self._walker = RowWalker(self._resolve, self._batch_bytes)

    def begin(self, run: Run, key: int) -> None:
        """Start a run for the following pieces; `key` is the start that a transaction gets."""
        generation = self._resolver.history.at(position_of(run))
        if generation != self._generation:
            self._generation = generation
            self._walker.forget_tables()
        if isinstance(run, Transaction):
            self._walker.begin_transaction(None, run.commit_us, run.thread_id, key)

    def plain(self, run: PlainRun) -> Iterator[None]:
        """Count a plain run. Stops whenever enough is held; take it with `finish` or `sums`."""
        piece = Piece(run.window, run.first, run.last)
        return self._walk(piece, partial(self._walker.run_groups, groups=run.plain))

    def piece(self, piece: Piece) -> Iterator[None]:
        """Count a piece of the transaction begun last, in the same way."""
        return self._walk(piece, partial(self._walker.run_rows, block=piece.window.block))

    def finish(self) -> WalkedRows:
        """Return the counts since the last call, one entry per row change."""
        walked = self._walker.finish()
        for sink, _ in walked.tables:
            sink.taken()
        return walked

    def sums(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        """Return the same as sums: a table's name, and its inserts, updates and deletes."""
        for sink, _ in self._walker.finish().tables:
            yield sink.purpose, sink.taken()

    def remark(self, error: BinlogError) -> None:
        """Record in the ledger why some rows are not counted."""
        self._ledger.warn(f"the counts lack rows of some transactions: {error.message}")

    def _walk(self, piece: Piece, walk: Callable[..., int]) -> Iterator[None]:
        window, at = piece.window, piece.first
        if window.format.has_permuted_types:
            raise UnsupportedError("the log is of a pre-release of MySQL 5.1")
        self._walker.set_format(window.format)
        while at < piece.last:
            try:
                at = walk(window.data, window.base, first=at, last=piece.last)
            except BinlogError as error:
                raise piece.locate(error) from None
            if self._walker.is_full:
                yield

    def _resolve(self, body: bytes, fmt: EventFormat) -> TableSink | None:
        types = self._resolver.types(body, fmt)
        if types is None:
            return None
        plans = unwanted(types.plan.columns)
        sink = CurrentRow(plans, plans, self.operations)
        sink.purpose = types.definition.full_name
        return sink
