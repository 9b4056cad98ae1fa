"""What many transactions changed: counted natively, not decoded, and handed on as columns.

    counter = RunCounter(options, ledger)
    for run in reader.runs():
        for batch in counter.add(run):        # CountedBatch, now and then
            …
    for batch in counter.finish():
        …

A run of plain transactions is stepped over by the compiled walker with no column wanted; what it
says of each row (its transaction, its operation) is summed up by Arrow. Python runs per run and
per batch, and once per transaction that is not plain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.sink import SinkBuffers
from binlake.core.table_sink import CurrentRow, TableSink
from binlake.core.walk import RowWalker, WalkedRows
from binlake.errors import BinlogError, FormatError, MissingContextError, UnsupportedError
from binlake.events.format_description import has_permuted_types
from binlake.events.table_map import TableMapEvent
from binlake.format.event_types import (
    EVENT_TYPES,
    TABLE_MAP_EVENT,
    Role,
)
from binlake.stream.ddl import TakesDdl
from binlake.stream.event_at import event_at
from binlake.stream.runs import Piece, PlainRun, Run, Transaction
from binlake.table.batches import OPERATIONS
from binlake.table.counted import CHANGES, FACTS, Batch, CountedBatch, column
from binlake.table.history import spot_of
from binlake.table.resolve import TableResolver, silent
from binlake.table.types.base import Target
from binlake.values.frame import EventFormat
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.table_filter import TableFilter

__all__ = ["RunCounter"]

# From here on a transaction is not held together with others.
_LARGE_BYTES = 16 << 20
_MOST_TABLES = 1 << 14

_OPS = len(OPERATIONS)
_ROW_TYPES = {code: known for code, known in EVENT_TYPES.items() if known.role is Role.ROWS}
_HAS_ROWS = re.compile(
    b"[" + re.escape(bytes((TABLE_MAP_EVENT, *sorted(_ROW_TYPES)))) + b"]", re.DOTALL
)


class RunCounter:
    """Counts the row changes of runs, of the tables and operations that are wanted.

    With the options table, exclude_table or op, transactions without such a change are left
    out. Where the rows of a transaction cannot be stepped over (with on_error=skip also: because
    they are damaged), its events' bytes are counted alone, and the ledger says why. `on_ddl` is to
    be told of the DDL in between, which may tell how wide old temporal values are.
    """

    def __init__(self, options: ReadOptions, ledger: Ledger) -> None:
        self._options = options
        self._ledger = ledger
        self._resolver = TableResolver(options, Target.TEXT, silent)
        self.on_ddl: TakesDdl = self._resolver.history.note
        self._generation = 0
        self._filter = TableFilter(options)
        self._selects = bool(options.table or options.exclude_table or options.op)
        self._operations = [OPERATIONS.index(op) for op in options.op or OPERATIONS]
        # what makes rows uncountable, and not the whole read fail
        self._tolerated: tuple[type[BinlogError], ...] = (UnsupportedError, MissingContextError)
        if options.on_error == "skip":
            self._tolerated += (FormatError,)
        self._tables: dict[str, int] = {}
        self._start_batch()
        self._start_walker()

    def add(self, run: Run) -> Iterator[CountedBatch]:
        """Count a run; gives a batch if one is full. Raises FormatError."""
        large = isinstance(run, Transaction) and run.bytes > _LARGE_BYTES
        if self._batch.count and (large or _file(run) != self._batch.file):
            yield self._finish_batch()
        self._batch.file = _file(run)
        key = self._batch.append(run)
        try:
            self._walk(run, key)
        except self._tolerated:
            self._walk_one_by_one()
        if large or self._batch.is_full or len(self._tables) > _MOST_TABLES:
            yield self._finish_batch()
        elif self._batch.holds_much:
            self._settle()

    def finish(self) -> Iterator[CountedBatch]:
        """What is left. Raises FormatError."""
        if self._batch.count:
            yield self._finish_batch()

    # -- walking -------------------------------------------------------------------------------

    def _start_walker(self) -> None:
        self._names: dict[TableSink, int] = {}
        self._walker = RowWalker(self._resolve, self._options.batch_bytes)

    def _start_batch(self) -> None:
        self._batch = Batch()
        self._settled: list[pa.Table] = []  # changes of runs that are let go
        self._facts: list[pa.Table] = []  # of plain transactions, as the walker tells them
        self._changes: list[pa.Table] = []

    def _walk(self, run: Run, key: int) -> None:
        generation = self._resolver.history.at(spot_of(run))
        if generation != self._generation:
            self._generation = generation
            self._walker.forget_tables()
        if isinstance(run, PlainRun):
            self._walk_piece(Piece(run.window, run.first, run.last), plain=True)
            return
        self._walker.begin_transaction(None, run.commit_us, run.thread_id, key)
        for piece in run.pieces():
            # the GTID event before a payload has another format, and a change of format costs
            codes = bytes(piece.window.block.type_code[piece.first : piece.last])
            if _HAS_ROWS.search(codes):
                self._walk_piece(piece, plain=False)

    def _walk_piece(self, piece: Piece, *, plain: bool) -> None:
        window, at = piece.window, piece.first
        if has_permuted_types(window.format):
            raise UnsupportedError("the log is of a pre-release of MySQL 5.1")
        self._walker.set_format(window.format)
        step = self._walker.run_groups if plain else self._walker.run_rows
        while at < piece.last:
            try:
                at = step(window.data, window.base, window.block, at, piece.last)
            except BinlogError as error:
                raise piece.locate(error) from None
            if self._walker.is_full:
                self._drain()

    def _walk_one_by_one(self) -> None:
        """Some rows of the runs held cannot be stepped over: find out of which transactions."""
        self._facts, self._changes = [], []
        for key, run in self._batch.held_transactions():
            self._start_walker()
            kept = len(self._facts), len(self._changes)
            try:
                self._walk(run, key)
                self._drain()
            except self._tolerated as error:
                self._ledger.warn(f"rows of some transactions are not counted: {error.message}")
                del self._facts[kept[0] :], self._changes[kept[1] :]
                self._batch.uncounted.add(key)
                with suppress(*self._tolerated):
                    self._changes += self._events_of(run, key)
        self._start_walker()

    def _resolve(self, body: bytes, fmt: EventFormat) -> TableSink | None:
        types = self._resolver.types(body, fmt)
        if types is None:
            return None
        plans = tuple(replace(plan, wanted=False) for plan in types.plan.columns)
        sink = CurrentRow(plans, plans, self._operations)
        self._names[sink] = self._number(types.definition.full_name)
        return sink

    def _number(self, table: str) -> int:
        return self._tables.setdefault(table, len(self._tables))

    # -- what was walked -----------------------------------------------------------------------

    def _drain(self) -> None:
        """Sum up what the walker holds: rows and bytes by transaction, table and operation."""
        walked = self._walker.finish()
        for sink, _ in walked.tables:
            sink.taken()
        facts = _facts(walked)
        if not facts.num_rows:
            return
        self._facts.append(facts)
        self._changes.append(self._sums(walked, facts["key"]))

    def _sums(self, walked: WalkedRows, keys: pa.ChunkedArray) -> pa.Table:
        count = len(self._tables)
        places, sizes = [], []
        for sink, found in walked.tables:
            number = self._names[sink]
            transaction = column(pa.uint32(), found.count, found.txn).cast(pa.int64())
            op = column(pa.uint8(), found.count, found.op).cast(pa.int64())
            place = pc.add(pc.multiply(transaction, count * _OPS), number * _OPS)
            places.append(pc.add(place, op))
            # an event's bytes count with its first row
            first = pc.equal(column(pa.uint32(), found.count, found.row), 0)
            length = pc.subtract(
                column(pa.int64(), found.count, found.end_pos),
                column(pa.int64(), found.count, found.pos),
            )
            sizes.append(pc.if_else(first, length, 0))
        rows = pa.table({"place": pa.chunked_array(places), "bytes": pa.chunked_array(sizes)})
        sums = rows.group_by("place").aggregate([("bytes", "count"), ("bytes", "sum")])
        place = sums["place"]
        rest = _modulo(place, count * _OPS)
        return pa.table(
            {
                "key": keys.take(pc.divide(place, count * _OPS)),
                "table": pc.divide(rest, _OPS),
                "op": _modulo(rest, _OPS),
                "rows": sums["bytes_count"],
                "bytes": sums["bytes_sum"],
            }
        )

    def _events_of(self, run: Run, key: int) -> list[pa.Table]:
        """The bytes of a transaction's rows events, by table and operation; no rows."""
        sums: dict[tuple[int, int], int] = {}
        names: dict[bytes, str | None] = {}
        pieces = [Piece(run.window, run.first, run.last)] if isinstance(run, PlainRun) else None
        for piece in pieces or run.pieces():  # type: ignore[union-attr]
            window = piece.window
            for index in range(piece.first, piece.last):
                code = window.block.type_code[index]
                if code != TABLE_MAP_EVENT and code not in _ROW_TYPES:
                    continue
                width = 4 if window.format.post_header_length(code) == 6 else 6
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
                    if place[1] in self._operations:
                        sums[place] = sums.get(place, 0) + window.block.length[index]
        columns = [[key] * len(sums), [t for t, _ in sums], [op for _, op in sums]]
        names_of = ["key", "table", "op", "rows", "bytes"]
        arrays = [pa.array(c, pa.int64()) for c in (*columns, [0] * len(sums), sums.values())]
        return [pa.table(arrays, names=names_of)]

    # -- batches -------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Let go of the runs: all that is to be known of them is summed up."""
        self._drain()
        self._batch.settle(pa.concat_tables([FACTS.empty_table(), *self._facts]))
        self._settled += self._changes
        self._facts, self._changes = [], []

    def _finish_batch(self) -> CountedBatch:
        self._settle()
        keys, transactions = self._batch.table()
        changed = pa.concat_tables([_NO_CHANGES, *self._settled])
        changed = changed.append_column(
            "transaction", pc.index_in(changed["key"], keys).cast(pa.int64())
        )
        if len(self._settled) > 1:  # maybe a walker that was full in the middle of a transaction
            summed = changed.group_by(["transaction", "table", "op"]).aggregate(
                [("rows", "sum"), ("bytes", "sum")]
            )
            changed = summed.rename_columns(["transaction", "table", "op", "rows", "bytes"])
        if self._selects:
            transactions, changed = _only_changed(transactions, changed)
        tables = tuple(self._tables)
        if len(self._tables) > _MOST_TABLES:
            self._tables = {}
            self._start_walker()
        self._start_batch()
        return CountedBatch(transactions, changed.select(CHANGES.names).cast(CHANGES), tables)


def _file(run: Run) -> str:
    """The file in which a run lies (a transaction: where it is decided)."""
    return run.window.file.name if isinstance(run, PlainRun) else run.decided.file


def _modulo(numbers: pa.ChunkedArray, divisor: int) -> pa.ChunkedArray:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, divisor), divisor))


_NO_CHANGES = pa.table({name: pa.array([], pa.int64()) for name in ("key", *CHANGES.names[1:])})


def _facts(walked: WalkedRows) -> pa.Table:
    """What the walker tells of the transactions that it found rows in."""
    found = walked.transactions
    size = found.count

    def numbers(column: SinkBuffers) -> pa.Array:
        return pa.Array.from_buffers(pa.int64(), size, [_bits(column), pa.py_buffer(column.data)])

    gtid = found.gtid
    buffers = [_bits(gtid), pa.py_buffer(gtid.offsets), pa.py_buffer(gtid.data)]
    texts = pa.Array.from_buffers(pa.string(), size, buffers)
    columns = [numbers(found.start), numbers(found.commit_us), numbers(found.thread_id), texts]
    return pa.table(columns, schema=FACTS)


def _bits(column: SinkBuffers) -> pa.Buffer | None:
    return None if column.validity is None else pa.py_buffer(column.validity)


def _only_changed(transactions: pa.Table, changes: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The transactions with changes, and the changes numbered anew."""
    changed = pc.unique(changes["transaction"]).sort()
    renumbered = pc.index_in(changes["transaction"], changed).cast(pa.int64())
    place = changes.schema.get_field_index("transaction")
    return transactions.take(changed), changes.set_column(place, "transaction", renumbered)
