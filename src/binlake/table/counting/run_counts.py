"""Count the changes of many transactions without decoding, and return them as columns.

    counter = RunCounter(options, ledger)
    for run in reader.runs():
        for batch in counter.add(run):        # CountedBatch objects
            …
    for batch in counter.finish():
        …

A compiled kernel sums up the result of the walk for each row (its transaction, its operation). Python code
runs per run and per batch, and once per transaction that is not plain. The walk is less than half
of the work, so counting takes one thread: several would make more and smaller batches, which cost
more than they gain.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.counting.change_sums import ChangeSums, sum_changes, sum_rows
from binlake.core.rows.walk import WalkedRows
from binlake.events.common.table_map import TableMapEvent
from binlake.format.event_types import EVENT_TYPES, TABLE_MAP_EVENT, Role, any_code
from binlake.source.arrays import array, int64_array, integers, numbers
from binlake.stream.event_at import event_at
from binlake.stream.runs import Piece, PlainRun, Run, Transaction
from binlake.table.batches import OPERATIONS
from binlake.table.counting.counted import (
    CHANGES,
    LIMITS,
    Batch,
    CountedBatch,
    CountingLimits,
)
from binlake.table.counting.counting_walk import CountingWalk
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.table_filter import TableFilter

# From this size on a transaction is not combined with others.
_LARGE_BYTES = 16 << 20

_ROW_TYPES = {code: known for code, known in EVENT_TYPES.items() if known.role is Role.ROWS}
_HAS_ROWS = any_code((TABLE_MAP_EVENT, *_ROW_TYPES))


class RunCounter:
    """Counts the row changes of runs, of the wanted tables and operations.

    With the options table, exclude_table or op, transactions without such a change are left out.
    If the rows of a transaction cannot be stepped over (with on_error=skip also because they are
    damaged), only its events' bytes are counted, and the ledger has the reason. Pass the DDL in
    between to `on_ddl`, since it may contain the width of old temporal values.
    """

    def __init__(
        self, options: ReadOptions, ledger: Ledger, limits: CountingLimits = LIMITS
    ) -> None:
        self._limits = limits
        self._counting = CountingWalk(options, ledger)
        self.on_ddl = self._counting.on_ddl
        self._filter = TableFilter(options)
        self._selects = bool(options.table or options.exclude_table or options.op)
        self._tables: dict[str, int] = {}
        self._start_batch()

    def add(self, run: Run) -> Iterator[CountedBatch]:
        """Count a run; yield a batch if one is full. Raises FormatError."""
        large = isinstance(run, Transaction) and run.bytes > _LARGE_BYTES
        if self._batch.count and (large or _file(run) != self._batch.file):
            yield self._finish_batch()
        self._batch.file = _file(run)
        key = self._batch.append(run)
        try:
            self._walk(run, key)
        except self._counting.tolerated:
            self._walk_one_by_one()
        if large or self._batch.is_full or len(self._tables) > self._limits.tables:
            yield self._finish_batch()
        elif self._batch.holds_much:
            self._settle()

    def finish(self) -> Iterator[CountedBatch]:
        """Yield the rest. Raises FormatError."""
        if self._batch.count:
            yield self._finish_batch()

    # -- walking -------------------------------------------------------------------------------

    def _start_batch(self) -> None:
        self._batch = Batch(self._limits)
        self._settled: list[pa.Table] = []  # changes of released runs
        self._changes: list[pa.Table] = []

    def _walk(self, run: Run, key: int) -> None:
        self._counting.begin(run, key)
        for _ in self._counting.plain(run) if isinstance(run, PlainRun) else self._pieces(run):
            self._drain()

    def _pieces(self, transaction: Transaction) -> Iterator[None]:
        for piece in transaction.pieces():
            # the GTID event before a payload has another format, and a change of format is slow
            codes = bytes(piece.window.block.type_code[piece.first : piece.last])
            if _HAS_ROWS.search(codes):
                yield from self._counting.piece(piece)

    def _walk_one_by_one(self) -> None:
        """Find the transactions whose rows cannot be stepped over, among the held runs."""
        self._changes = []
        for key, run in self._batch.held_transactions():
            self._counting.restart()
            kept = len(self._changes)
            try:
                self._walk(run, key)
                self._drain()
            except self._counting.tolerated as error:
                self._counting.remark(error)
                del self._changes[kept:]
                self._batch.uncounted.add(key)
                with suppress(*self._counting.tolerated):
                    self._changes += self._events_of(run, key)
        self._counting.restart()

    def _number(self, table: str) -> int:
        return self._tables.setdefault(table, len(self._tables))

    # -- results of the walk -------------------------------------------------------------------

    def _drain(self) -> None:
        """Sum up the content of the walker: rows and bytes by transaction, table and operation."""
        walked = self._counting.finish()
        if walked.tables:
            starts = walked.transactions.start.data
            keys = numbers(pa.int64(), walked.transactions.count, starts)
            self._changes.append(self._sums(walked, keys))

    def _sums(self, walked: WalkedRows, keys: pa.Array) -> pa.Table:
        tables = [(self._number(sink.purpose), found) for sink, found in walked.tables]
        sums = sum_rows(tables, walked.transactions.count, len(self._tables))
        changes = _columns(sums)
        return changes.set_column(0, "key", keys.take(changes["transaction"]))

    def _events_of(self, run: Run, key: int) -> list[pa.Table]:
        """Return the bytes of a transaction's rows events, by table and operation, without rows."""
        sums: dict[tuple[int, int], int] = {}
        names: dict[bytes, str | None] = {}
        pieces = [Piece(run.window, run.first, run.last)] if isinstance(run, PlainRun) else None
        for piece in pieces or run.pieces():  # type: ignore[union-attr]
            window = piece.window
            for index in range(piece.first, piece.last):
                code = window.block.type_code[index]
                if code != TABLE_MAP_EVENT and code not in _ROW_TYPES:
                    continue
                width = window.format.table_id_bytes(code)
                table_id = bytes(window.body(index)[:width])
                if code == TABLE_MAP_EVENT:
                    event = event_at(window, index)
                    if isinstance(event, TableMapEvent):
                        wanted = self._filter.wants(event.database, event.table)
                        names[table_id] = f"{event.database}.{event.table}" if wanted else None
                    continue
                name, operation = names.get(table_id), _ROW_TYPES[code].operation
                if name is not None and operation is not None:
                    place = self._number(name), OPERATIONS.index(operation)
                    if place[1] in self._counting.operations:
                        sums[place] = sums.get(place, 0) + window.block.length[index]
        columns = [[key] * len(sums), [t for t, _ in sums], [op for _, op in sums]]
        names_of = ["key", "table", "op", "rows", "bytes"]
        arrays = [array(c, pa.int64()) for c in (*columns, [0] * len(sums), sums.values())]
        return [pa.table(arrays, names=names_of)]

    # -- batches -------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Release the runs: everything about them has been added up."""
        self._drain()
        self._batch.settle()
        self._settled += self._changes
        self._changes = []

    def _finish_batch(self) -> CountedBatch:
        self._settle()
        keys, transactions = self._batch.table()
        changed = pa.concat_tables([_NO_CHANGES, *self._settled])
        ordinals = pc.index_in(changed["key"], keys).cast(pa.int64())
        changed = changed.set_column(0, "transaction", ordinals)
        if len(self._settled) > 1:  # maybe a walker that was full in the middle of a transaction
            changed = self._united(changed, len(keys))
        if self._selects:
            transactions, changed = _only_changed(transactions, changed)
        tables = tuple(self._tables)
        if len(self._tables) > self._limits.tables:
            self._tables = {}
        self._start_batch()
        return CountedBatch(transactions, changed.cast(CHANGES), tables)

    def _united(self, changes: pa.Table, transactions: int) -> pa.Table:
        """Sum up the counts of parts of one transaction, table and operation."""
        transaction, table, op, rows, size = (integers(changes[name]) for name in CHANGES.names)
        sums = sum_changes(transaction, table, op, rows, size, transactions, len(self._tables))
        return _columns(sums)


def _columns(sums: ChangeSums) -> pa.Table:
    """Return sums as columns with the names of CHANGES."""
    return pa.table(list(map(int64_array, sums)), names=CHANGES.names)


def _file(run: Run) -> str:
    """Return the file of a run (for a transaction, the file where it is decided)."""
    return run.window.file.name if isinstance(run, PlainRun) else run.decided.file


_NO_CHANGES = pa.table({name: array([], pa.int64()) for name in ("key", *CHANGES.names[1:])})


def _only_changed(transactions: pa.Table, changes: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the transactions with changes, and the changes renumbered."""
    changed = pc.unique(changes["transaction"]).sort()
    renumbered = pc.index_in(changes["transaction"], changed).cast(pa.int64())
    place = changes.schema.get_field_index("transaction")
    return transactions.take(changed), changes.set_column(place, "transaction", renumbered)
