"""The walk that counts row changes: images are stepped over, and no value is kept.

A rows event does not say how many rows it holds. The kernels that decode images step over them,
value by value, with no column wanted. `RunCounter` makes columns of what this walk counts,
`RowCounter` makes sums of single transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from binlake.core.table_sink import CurrentRow, TableSink, unwanted
from binlake.core.walk import RowWalker, WalkedRows
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

__all__ = ["CountingWalk"]


class CountingWalk:
    """Counts the row changes of the tables and operations that are wanted.

    The purpose of each counted sink is its table's name (`database.table`). Where rows cannot be
    stepped over, a walk raises one of the `tolerated` errors; the walker then begins anew. `on_ddl` is
    to be told of the DDL in between, which may tell how wide old temporal values are.
    """

    def __init__(self, options: ReadOptions, ledger: Ledger) -> None:
        self._batch_bytes = options.batch_bytes
        self._ledger = ledger
        self._resolver = TableResolver(options, Target.TEXT, silent)
        self.on_ddl: TakesDdl = self._resolver.history.note
        self._generation = 0
        self.operations = [OPERATIONS.index(op) for op in options.op or OPERATIONS]
        #: What makes rows uncountable, and does not make the whole read fail: a column type that the
        #: log does not describe; with on_error=skip also damage.
        self.tolerated: tuple[type[BinlogError], ...] = (UnsupportedError, MissingContextError)
        if options.on_error == "skip":
            self.tolerated += (FormatError,)
        self.restart()

    def restart(self) -> None:
        """Forget tables and counts, as a walk that has failed must."""
        self._walker = RowWalker(self._resolve, self._batch_bytes)

    def begin(self, run: Run, key: int) -> None:
        """The pieces that follow belong to this run; `key` is the start that a transaction gets."""
        generation = self._resolver.history.at(position_of(run))
        if generation != self._generation:
            self._generation = generation
            self._walker.forget_tables()
        if isinstance(run, Transaction):
            self._walker.begin_transaction(None, run.commit_us, run.thread_id, key)

    def plain(self, run: PlainRun) -> Iterator[None]:
        """Count a plain run. Stops whenever enough is held: take it, with `finish` or `sums`."""
        piece = Piece(run.window, run.first, run.last)
        return self._walk(piece, partial(self._walker.run_groups, groups=run.plain))

    def piece(self, piece: Piece) -> Iterator[None]:
        """Count a piece of the transaction begun last, likewise."""
        return self._walk(piece, partial(self._walker.run_rows, block=piece.window.block))

    def finish(self) -> WalkedRows:
        """What was counted since the last time, one entry per row change."""
        walked = self._walker.finish()
        for sink, _ in walked.tables:
            sink.taken()
        return walked

    def sums(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        """The same as sums: a table's name, and its inserts, updates and deletes."""
        for sink, _ in self._walker.finish().tables:
            yield sink.purpose, sink.taken()

    def remark(self, error: BinlogError) -> None:
        """Say in the ledger why some rows are not counted."""
        self._ledger.warn(f"rows of some transactions are not counted: {error.message}")

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
