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
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.sink import SinkBuffers
from binlake.core.table_sink import CurrentRow, TableSink
from binlake.core.walk import RowWalker, WalkedRows
from binlake.errors import BinlogError, MissingContextError, UnsupportedError
from binlake.events.base import BodyReader
from binlake.events.format_description import has_permuted_types
from binlake.events.gtid_mariadb import MariadbGtidEvent
from binlake.events.gtid_mysql import GtidEvent
from binlake.events.query import QueryEvent
from binlake.events.table_map import TableMapEvent
from binlake.format.event_types import (
    ANONYMOUS_GTID_LOG_EVENT,
    EVENT_TYPES,
    GTID_EVENT,
    GTID_LOG_EVENT,
    QUERY_EVENT,
    TABLE_MAP_EVENT,
    XID_EVENT,
    Role,
)
from binlake.stream.event_at import event_at
from binlake.stream.runs import Piece, PlainRun, Run, Transaction
from binlake.table.batches import OPERATIONS
from binlake.table.declared import DeclaredSchema
from binlake.table.plan import TableFilter, TableTypes
from binlake.table.schema_file import read_schema_file
from binlake.table.types.base import Target
from binlake.values.frame import EventFormat, Frame
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["CHANGES", "TRANSACTIONS", "CountedBatch", "RunCounter"]

#: Columns of `CountedBatch.transactions`, one row per transaction, in commit order. `pos` and
#: `end_pos` in `file`; `commit_us` since 1970 UTC; `duration_us` from its first statement to the
#: commit; null: the log does not tell. `counted`: its rows could be
#: counted.
TRANSACTIONS = pa.schema(
    [
        ("file", pa.string()),
        ("pos", pa.int64()),
        ("end_pos", pa.int64()),
        ("bytes", pa.int64()),
        ("commit_us", pa.int64()),
        ("duration_us", pa.int64()),
        ("server_id", pa.int64()),
        ("thread_id", pa.int64()),
        ("gtid", pa.string()),
        ("counted", pa.bool_()),
    ]
)
#: Columns of `CountedBatch.changes`, one row per transaction, table and operation. `transaction`
#: is a row of `transactions`, `table` an index into `tables`, `op` one into OPERATIONS; `bytes`
#: are those of its rows events (inside a payload: inflated).
CHANGES = pa.schema(
    [
        ("transaction", pa.int64()),
        ("table", pa.int64()),
        ("op", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)

# A batch is handed on when it has this many transactions, or its runs this many bytes.
_BATCH_TRANSACTIONS = 1 << 16
_BATCH_BYTES = 64 << 20
# From here on a transaction is not held together with others.
_LARGE_BYTES = 16 << 20
_MOST_TABLES = 1 << 14

_OPS = len(OPERATIONS)
_GTIDS = re.escape(bytes((GTID_LOG_EVENT, ANONYMOUS_GTID_LOG_EVENT, GTID_EVENT)))
_BEGIN_OR_COMMIT = re.escape(bytes((QUERY_EVENT,)))
_ENDS = re.escape(bytes((QUERY_EVENT, XID_EVENT)))
# The groups of a plain run: from GTID to GTID, or, where there are none, BEGIN to XID or COMMIT.
_GROUP = re.compile(
    b"[%b][^%b]*|%b[^%b]*[%b]" % (_GTIDS, _GTIDS, _BEGIN_OR_COMMIT, _ENDS, _ENDS), re.DOTALL
)
_ROW_TYPES = {code: known for code, known in EVENT_TYPES.items() if known.role is Role.ROWS}


@dataclass(frozen=True, slots=True)
class CountedBatch:
    """Transactions, what they changed, and the names (`database.table`) of the tables."""

    transactions: pa.Table
    changes: pa.Table
    tables: tuple[str, ...]


class RunCounter:
    """Counts the row changes of runs, of the tables and operations that are wanted.

    With the options table, exclude_table or op, transactions without such a change are left
    out. Where the rows of a transaction cannot be stepped over, its events' bytes are counted
    alone, and the ledger says why.
    """

    def __init__(self, options: ReadOptions, ledger: Ledger) -> None:
        self._options = options
        self._ledger = ledger
        schema = options.schema
        self._schema = read_schema_file(schema) if schema is not None else DeclaredSchema()
        self._filter = TableFilter(options)
        self._selects = bool(options.table or options.exclude_table or options.op)
        self._operations = [OPERATIONS.index(op) for op in options.op or OPERATIONS]
        self._tables: dict[str, int] = {}
        self._start_batch()
        self._start_walker()

    def add(self, run: Run) -> Iterator[CountedBatch]:
        """Count a run; gives a batch if one is full. Raises FormatError."""
        large = isinstance(run, Transaction) and run.bytes > _LARGE_BYTES
        if self._batch.runs and (large or _file(run) != self._batch.file):
            yield self._finish_batch()
        if not self._batch.runs:
            self._batch.file = _file(run)
        self._batch.append(run)
        try:
            self._walk(run, self._batch.keys[-1])
        except (UnsupportedError, MissingContextError):
            self._walk_one_by_one()
        if large or self._batch.is_full or len(self._tables) > _MOST_TABLES:
            yield self._finish_batch()

    def finish(self) -> Iterator[CountedBatch]:
        """What is left. Raises FormatError."""
        if self._batch.runs:
            yield self._finish_batch()

    # -- walking -------------------------------------------------------------------------------

    def _start_walker(self) -> None:
        self._names: dict[TableSink, int] = {}
        self._walker = RowWalker(self._resolve, self._options.batch_bytes)

    def _start_batch(self) -> None:
        self._batch = _Batch()
        self._facts: list[pa.Table] = []  # of plain transactions, as the walker tells them
        self._changes: list[pa.Table] = []

    def _walk(self, run: Run, key: int) -> None:
        if isinstance(run, PlainRun):
            self._walk_piece(Piece(run.window, run.first, run.last), plain=True)
            return
        self._walker.begin_transaction(None, run.commit_us, run.thread_id, key)
        for piece in run.pieces():
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
                raise error.at(file=window.file.name) from None
            if self._walker.is_full:
                self._drain()

    def _walk_one_by_one(self) -> None:
        """Some rows of this batch cannot be stepped over: find out of which transactions."""
        self._facts, self._changes = [], []
        for key, run in self._batch.single_transactions():
            self._start_walker()
            kept = len(self._facts), len(self._changes)
            try:
                self._walk(run, key)
                self._drain()
            except (UnsupportedError, MissingContextError) as error:
                self._ledger.warn(f"rows of some transactions are not counted: {error.message}")
                del self._facts[kept[0] :], self._changes[kept[1] :]
                self._batch.uncounted.add(key)
                self._changes += self._events_of(run, key)
        self._start_walker()

    def _resolve(self, body: bytes, fmt: EventFormat) -> TableSink | None:
        frame = Frame(0, TABLE_MAP_EVENT, len(body), 0, 0, 0, 0)
        event = TableMapEvent.decode(frame, BodyReader(memoryview(body)), fmt)
        if not self._filter.wants(event.database, event.table):
            return None
        definition, _ = self._schema.complete(event.definition())
        types = TableTypes.of(definition, self._options, Target.TEXT, lambda _: None)
        plans = tuple(replace(plan, wanted=False) for plan in types.plan.columns)
        sink = CurrentRow(plans, plans, self._operations)
        self._names[sink] = self._number(f"{event.database}.{event.table}")
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
            transaction = _column(pa.uint32(), found.count, found.txn).cast(pa.int64())
            op = _column(pa.uint8(), found.count, found.op).cast(pa.int64())
            place = pc.add(pc.multiply(transaction, count * _OPS), number * _OPS)
            places.append(pc.add(place, op))
            # an event's bytes count with its first row
            first = pc.equal(_column(pa.uint32(), found.count, found.row), 0)
            length = pc.subtract(
                _column(pa.int64(), found.count, found.end_pos),
                _column(pa.int64(), found.count, found.pos),
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

    def _finish_batch(self) -> CountedBatch:
        self._drain()
        batch, facts, changes = self._batch, self._facts, self._changes
        keys, transactions = batch.table(pa.concat_tables(facts) if facts else _NO_FACTS)
        changed = pa.concat_tables(changes) if changes else _NO_CHANGES
        changed = changed.append_column(
            "transaction", pc.index_in(changed["key"], keys).cast(pa.int64())
        )
        if len(changes) > 1:  # a walker that was full in the middle of a transaction
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


class _Batch:
    """The runs of a batch. A transaction's key is its start in the file, or, of one that is not
    plain, a negative number: its rows may lie in another file.
    """

    def __init__(self) -> None:
        self.file = ""
        self.runs: list[Run] = []
        self.keys: list[int] = []
        self.uncounted: set[int] = set()
        self._plain: list[pa.Table] = []
        self._bytes = 0
        self._count = 0

    @property
    def is_full(self) -> bool:
        return self._bytes >= _BATCH_BYTES or self._count >= _BATCH_TRANSACTIONS

    def append(self, run: Run) -> None:
        self.runs.append(run)
        self.keys.append(-len(self.runs))
        self._bytes += len(run.window.data) if isinstance(run, PlainRun) else run.bytes
        self._count += run.groups if isinstance(run, PlainRun) else 1

    def single_transactions(self) -> Iterator[tuple[int, Run]]:
        """Every transaction by itself, and its key."""
        for key, run in zip(self.keys, self.runs, strict=True):
            if not isinstance(run, PlainRun):
                yield key, run
                continue
            starts = [*_starts(run), run.last]
            for first, last in pairwise(starts):
                offset = run.window.frame(first).offset
                size = run.window.block.end(last - 1) - offset
                yield offset, PlainRun(run.window, first, last, 1, size)

    def table(self, facts: pa.Table) -> tuple[pa.Array, pa.Table]:
        """The keys, and the transactions (TRANSACTIONS); `facts` of the plain ones with rows."""
        parts = []
        singles: list[tuple[int, Transaction]] = []
        for key, run in zip(self.keys, self.runs, strict=True):
            if isinstance(run, Transaction):
                singles.append((key, run))
                continue
            if singles:
                parts.append(_table_of_singles(singles))
                singles = []
            parts.append(_table_of_plain(run, facts))
        if singles:
            parts.append(_table_of_singles(singles))
        whole = pa.concat_tables(parts)
        keys = whole["key"].combine_chunks()
        uncounted = pa.array(sorted(self.uncounted), pa.int64())
        counted = pc.invert(pc.is_in(whole["key"], value_set=uncounted))
        whole = whole.append_column("counted", counted).select(TRANSACTIONS.names)
        return keys, whole.cast(TRANSACTIONS)


def _file(run: Run) -> str:
    """The file in which a run lies (a transaction: where it is decided)."""
    return run.window.file.name if isinstance(run, PlainRun) else run.decided.file


def _column(kind: pa.DataType, count: int, data: memoryview) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def _modulo(numbers: pa.ChunkedArray, divisor: int) -> pa.ChunkedArray:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, divisor), divisor))


_NO_FACTS = pa.table(
    {
        "key": pa.array([], pa.int64()),
        "commit_us": pa.array([], pa.int64()),
        "thread_id": pa.array([], pa.int64()),
        "gtid": pa.array([], pa.string()),
    }
)
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
    return pa.table(columns, names=_NO_FACTS.column_names)


def _bits(column: SinkBuffers) -> pa.Buffer | None:
    return None if column.validity is None else pa.py_buffer(column.validity)


def _starts(run: PlainRun) -> list[int]:
    """The first frames of the transactions of a plain run."""
    codes = bytes(run.window.block.type_code[run.first : run.last])
    return [run.first + match.start() for match in _GROUP.finditer(codes)]


def _table_of_plain(run: PlainRun, facts: pa.Table) -> pa.Table:
    block, starts = run.window.block, _starts(run)
    assert len(starts) == run.groups, "a plain run falls into its transactions"
    first = pa.array(starts, pa.int64())
    last = pa.array([start - 1 for start in starts[1:]] + [run.last - 1], pa.int64())
    offset, length, time, server = (
        _column(kind, run.last, column[: run.last])
        for kind, column in (
            (pa.int64(), block.offset),
            (pa.uint32(), block.length),
            (pa.uint32(), block.timestamp),
            (pa.uint32(), block.server_id),
        )
    )
    pos = offset.take(first)
    end = pc.add(offset.take(last), length.take(last).cast(pa.int64()))
    known = pc.index_in(pos, facts["key"].combine_chunks())
    commit_us, thread, gtid = (
        facts[name].take(known).combine_chunks() for name in ("commit_us", "thread_id", "gtid")
    )
    if known.null_count:
        told = _told(run, starts, known)
        commit_us = pc.coalesce(commit_us, pa.array(told[0], pa.int64()))
        thread = pc.coalesce(thread, pa.array(told[1], pa.int64()))
        gtid = pc.coalesce(gtid, pa.array(told[2], pa.string()))
    if thread.null_count:
        thread = pc.coalesce(thread, _threads_of_commits(run, last, thread))
    # BEGIN has the time of the first statement, the GTID event before it that of the commit
    begun = pc.min_element_wise(time.take(first), time.take(pc.add(first, 1))).cast(pa.int64())
    ended = pc.max_element_wise(commit_us, _microseconds(time.take(last)))
    return _transactions(
        key=pos,
        file=pa.array([run.window.file.name] * len(starts), pa.string()),
        pos=pos,
        end_pos=end,
        bytes=pc.subtract(end, pos),
        commit_us=commit_us,
        duration_us=pc.max_element_wise(pc.subtract(ended, pc.multiply(begun, 1_000_000)), 0),
        server_id=server.take(first).cast(pa.int64()),
        thread_id=thread,
        gtid=gtid,
    )


def _microseconds(seconds: pa.Array) -> pa.Array:
    return pc.multiply(seconds.cast(pa.int64()), 1_000_000)


def _told(
    run: PlainRun, starts: list[int], known: pa.Array
) -> tuple[list[int | None], list[int | None], list[str | None]]:
    """Commit time, thread and GTID of the transactions in which the walker found no rows."""
    commit_us: list[int | None] = [None] * len(starts)
    thread: list[int | None] = [None] * len(starts)
    gtid: list[str | None] = [None] * len(starts)
    for at, found in enumerate(known.to_pylist()):
        if found is not None:
            continue
        event = event_at(run.window, starts[at])
        commit_us[at] = event.frame.timestamp * 1_000_000
        if isinstance(event, GtidEvent):
            commit_us[at] = event.immediate_commit_us or commit_us[at]
            gtid[at] = event.gtid
            event = event_at(run.window, starts[at] + 1)
        elif isinstance(event, MariadbGtidEvent):
            gtid[at], thread[at] = event.gtid, event.thread_id
        if isinstance(event, QueryEvent):
            thread[at] = event.thread_id
    return commit_us, thread, gtid


def _threads_of_commits(run: PlainRun, last: pa.Array, known: pa.Array) -> pa.Array:
    """The threads that COMMIT tells, where it is a QUERY and nothing before it does."""
    found: list[int | None] = [None] * len(last)
    types = run.window.block.type_code
    for at, (index, thread) in enumerate(zip(last.to_pylist(), known.to_pylist(), strict=True)):
        if thread is None and types[index] == QUERY_EVENT:
            event = event_at(run.window, index)
            found[at] = event.thread_id if isinstance(event, QueryEvent) else None
    return pa.array(found, pa.int64())


def _table_of_singles(found: list[tuple[int, Transaction]]) -> pa.Table:
    runs = [run for _, run in found]
    return _transactions(
        key=pa.array([key for key, _ in found], pa.int64()),
        file=pa.array([run.start.file for run in runs], pa.string()),
        pos=pa.array([run.start.offset for run in runs], pa.int64()),
        end_pos=pa.array([run.end.offset for run in runs], pa.int64()),
        bytes=pa.array([run.bytes for run in runs], pa.int64()),
        commit_us=pa.array([run.commit_us for run in runs], pa.int64()),
        duration_us=pa.array([run.duration_us for run in runs], pa.int64()),
        server_id=pa.array([run.server_id for run in runs], pa.int64()),
        thread_id=pa.array([run.thread_id for run in runs], pa.int64()),
        gtid=pa.array([run.gtid for run in runs], pa.string()),
    )


def _transactions(**columns: pa.Array) -> pa.Table:
    return pa.table(columns)


def _only_changed(transactions: pa.Table, changes: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The transactions with changes, and the changes numbered anew."""
    changed = pc.unique(changes["transaction"]).sort()
    renumbered = pc.index_in(changes["transaction"], changed).cast(pa.int64())
    place = changes.schema.get_field_index("transaction")
    return transactions.take(changed), changes.set_column(place, "transaction", renumbered)
