"""The walk over frames that turns rows events into row changes: the hot path of binlake.

It knows five things about a log: GTID events begin transactions, TABLE_MAP events say which
table an id means, rows events hold images, QUERY events are BEGIN or COMMIT, XID commits. All
else is passed over. Nothing is allocated per event: tables are found by the bytes of their
definition, first in a small table by id. One long module, as the calls of the loop stay inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import cython

from binlake.core.actions import ACTION_OF, COMPRESSED, OPERATION_OF, VERSION_OF, Action
from binlake.core.buffers import ByteKey
from binlake.core.cursor import Cursor
from binlake.core.frames import FrameBlock
from binlake.core.gtid import GtidFields
from binlake.core.inflate import inflate_event_data
from binlake.core.rows_header import RowsHeader
from binlake.core.table_sink import UPDATE, EventFacts, TableBuffers, TableSink
from binlake.core.transactions import TransactionBuffers, TransactionSink
from binlake.errors import BinlogError, MissingContextError, TruncatedError
from binlake.format.event_types import (
    ANONYMOUS_GTID_LOG_EVENT,
    GTID_EVENT,
    GTID_LOG_EVENT,
    PARTIAL_UPDATE_ROWS_EVENT,
    event_name,
)

if TYPE_CHECKING:
    from binlake.values.frame import EventFormat

    Buffer = bytes | bytearray | memoryview

__all__ = ["RowWalker", "WalkedRows"]

# What the walk does with an event.
_PASS = cython.declare(cython.int, int(Action.PASS))
_TABLE_MAP = cython.declare(cython.int, int(Action.TABLE_MAP))
_ROWS = cython.declare(cython.int, int(Action.ROWS))
_GTID = cython.declare(cython.int, int(Action.GTID))
_QUERY = cython.declare(cython.int, int(Action.QUERY))
_XID = cython.declare(cython.int, int(Action.XID))

# How far into a plain transaction the walk is.
_OUTSIDE = cython.declare(cython.int, 0)
_NAMED = cython.declare(cython.int, 1)  # after a MySQL GTID event
_OPEN = cython.declare(cython.int, 2)
_GIVEN = cython.declare(cython.int, 3)  # begin_transaction told everything

_PARTIAL = cython.declare(cython.int, PARTIAL_UPDATE_ROWS_EVENT)
_MYSQL_GTID = cython.declare(cython.int, GTID_LOG_EVENT)
_ANONYMOUS = cython.declare(cython.int, ANONYMOUS_GTID_LOG_EVENT)
_MARIADB_GTID = cython.declare(cython.int, GTID_EVENT)
_UPDATE = cython.declare(cython.int, UPDATE)
_COMPRESSED = cython.declare(cython.int, COMPRESSED)
_STMT_END = cython.declare(cython.int, 0x01)  # rows flag
_SLOTS = cython.declare(cython.Py_ssize_t, 64)  # a power of two
_MOST_TABLES = cython.declare(cython.Py_ssize_t, 1 << 14)  # kept between batches
_MOST_BINDINGS = cython.declare(cython.Py_ssize_t, 1 << 14)
_FULL_COLUMN = cython.declare(cython.Py_ssize_t, 1 << 30)  # one event more still fits int32
_DUMMY_IDS = (0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF)  # only ends a statement


class WalkedRows(NamedTuple):
    """What a walk has collected: the transactions, and per table its changes.

    `tables` are those with at least one change; a change's `txn` indexes `transactions`.
    """

    transactions: TransactionBuffers
    tables: tuple[tuple[TableSink, TableBuffers], ...]


@cython.final
@cython.cclass
class Table:
    """A table definition, by its bytes, and where its changes go; None: nobody wants them."""

    def __init__(self, definition: bytes, sink: TableSink | None) -> None:
        self.definition = ByteKey(definition)
        self.sink = sink


@cython.final
@cython.cclass
class Binding:
    """What a table id meant last; it still does while `generation` is the walker's."""

    def __init__(self, table_id: cython.Py_ssize_t, table: Table) -> None:
        self.table_id = table_id
        self.generation = 0
        self.table = table


@cython.final
@cython.cclass
class RowWalker:
    """Decodes the rows events of frames into the sinks of their tables.

    `resolve(body, format)` is asked once per table definition: `body` is that of a TABLE_MAP
    event, the answer the TableSink for its rows, or None to pass over them. A definition is
    known by its bytes after table id and flags.

        walker.set_format(format)
        while i < last:
            i = walker.run_groups(data, base, block, i, last)
            if walker.is_full:
                rows = walker.finish()

    A walk stops early once `held_bytes` reaches `limit_bytes`, also in the middle of a
    transaction, and goes on where it stopped after `finish()`; it may exceed the limit by a
    sixteenth and by one rows event. `rows`, `decoded_bytes` and `passed_bytes` count the changes taken
    and the bytes of the rows events decoded and passed over, since the walker was made.
    """

    def __init__(
        self,
        resolve: Callable[[bytes, EventFormat], TableSink | None],
        limit_bytes: cython.Py_ssize_t = 1 << 26,
    ) -> None:
        self.resolve = resolve
        self.limit_bytes = limit_bytes
        self.recount_bytes = max(limit_bytes >> 4, 1)
        self.held_bytes = 0
        self.uncounted_bytes = 0
        self.rows = 0
        self.decoded_bytes = 0
        self.passed_bytes = 0
        self.format = None
        self.action_of = ACTION_OF
        self.op_of = OPERATION_OF
        self.version_of = VERSION_OF
        self.id_bytes_of = bytes([6]) * 256
        self.header_bytes = 19
        self.checksum_bytes = 0
        self.cursor = Cursor(b"")
        self.side = self.cursor
        self.block = None
        self.base = 0
        self.frame = 0
        self.full = False
        self.caches = {}
        self.tables = {}
        self.slots = [None] * _SLOTS
        self.bindings = {}
        self.generation = 1
        self.header = RowsHeader()
        self.active = []
        self.transactions = TransactionSink()
        self.facts = EventFacts()
        self.facts.txn = -1
        self.in_payload = False
        self.next_row = 0
        self.gtid = GtidFields()
        self.stage = _OUTSIDE
        self.txn_frame = 0
        self.query_frame = -1
        self.given_gtid = None
        self.given_commit_us = 0
        self.given_thread = -1
        self.given_start = 0

    # -- where the frames come from ----------------------------------------------------------

    def set_format(self, fmt: EventFormat) -> None:
        """The frames that follow have this format. Table ids of another format are forgotten."""
        if fmt == self.format:
            return
        self.format = fmt
        self.header_bytes = fmt.header_length
        self.checksum_bytes = fmt.checksum_bytes
        self.id_bytes_of = _id_bytes_of(fmt)
        # what a definition means depends on the server that wrote it
        self.tables = self.caches.setdefault((fmt.server_version, fmt.flavour), {})
        self.slots = [None] * _SLOTS
        self.bindings.clear()
        self.generation += 1

    def forget_tables(self) -> None:
        """Ask `resolve` again about every definition, since its answers have changed.

        To be called between transactions; `set_format` has to follow.
        """
        self.caches = {}
        self.format = None

    def enter_payload(self, pos: cython.Py_ssize_t, end_pos: cython.Py_ssize_t) -> None:
        """The frames that follow came out of the payload event at [pos, end_pos).

        Their changes have its position, and are numbered through. To be called once per
        payload event, before its first frames.
        """
        self.in_payload = True
        self.facts.pos = pos
        self.facts.end_pos = end_pos
        self.next_row = 0

    def leave_payload(self) -> None:
        """The frames that follow lie in the file itself."""
        self.in_payload = False

    def begin_transaction(
        self, gtid: bytes | None, commit_us: int, thread_id: int | None, start: int
    ) -> None:
        """The frames that `run_rows` gets next belong to this transaction.

        `gtid` as its flavour spells it, `commit_us` since 1970 UTC, `start` the file offset of
        its first event.
        """
        self.given_gtid = gtid
        self.given_commit_us = commit_us
        self.given_thread = -1 if thread_id is None else thread_id
        self.given_start = start
        self.stage = _GIVEN
        self.facts.txn = -1
        self.generation += 1

    def run_rows(
        self,
        data: Buffer,
        base: cython.Py_ssize_t,
        block: FrameBlock,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
    ) -> int:
        """Decode the rows events among frames [first, last) of the transaction begun last.

        As `run_groups`, but the frames say nothing about the transaction.
        """
        if self.stage != _GIVEN:
            raise ValueError("begin_transaction comes first")
        return self._run(data, base, block, first, last)

    def run_groups(
        self,
        data: Buffer,
        base: cython.Py_ssize_t,
        block: FrameBlock,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
    ) -> int:
        """Decode frames [first, last), whole plain transactions; the frame to go on with.

        `data` holds the frames' bytes, `base` is the file offset of `data[0]`. Less than
        `last` is returned when the limit is reached: call again, from there, after `finish`.

        Raises FormatError, MissingContextError (rows of an unknown table id), UnsupportedError;
        all with event_pos and event_type; the walker must not be used on.
        """
        if self.stage == _GIVEN or block is not self.block:
            self.stage = _OUTSIDE
        return self._run(data, base, block, first, last)

    def _run(
        self,
        data: Buffer,
        base: cython.Py_ssize_t,
        block: FrameBlock,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
    ) -> int:
        if not 0 <= first <= last <= block.count:
            raise IndexError(f"frames [{first}, {last}) of {block.count}")
        self.cursor = Cursor(data)
        self.side = Cursor(data)
        self.base = base
        self.block = block
        self.frame = first
        try:
            self._loop(last)
        except BinlogError as error:
            code = block.type_code[self.frame]
            raise error.at(
                event_pos=block.offset[self.frame], event_type=event_name(code)
            ) from None
        return self.frame

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached: `finish` before going on."""
        return bool(self.full)

    def finish(self) -> WalkedRows:
        """Hand over all that was collected, without a copy, and start again."""
        tables = tuple((sink, sink.finish()) for sink in self.active)
        transactions = self.transactions.finish()
        self.facts.txn = -1  # an open transaction is named again by its next rows
        self.active = []
        self.held_bytes = 0
        self.uncounted_bytes = 0
        self.full = False
        if len(self.tables) > _MOST_TABLES:
            self.tables.clear()
        return WalkedRows(transactions, tables)

    # -- the walk ----------------------------------------------------------------------------

    def _loop(self, last: cython.Py_ssize_t) -> int:
        block: FrameBlock = self.block
        while self.frame < last and not self.full:
            type_code: cython.int = block.type_code[self.frame]
            action: cython.int = self.action_of[type_code]
            if action == _ROWS:
                self._enter(self.cursor, self.frame)
                self._rows(type_code)
            elif action == _TABLE_MAP:
                self._enter(self.cursor, self.frame)
                self._table_map()
            elif action != _PASS and self.stage != _GIVEN:
                self._boundary(action)
            self.frame += 1
        return 0

    def _enter(self, cursor: Cursor, frame: cython.Py_ssize_t) -> int:
        """Stand at the body of a frame. Raises TruncatedError if it has none."""
        start: cython.Py_ssize_t = self.block.offset[frame] - self.base
        end: cython.Py_ssize_t = start + self.block.length[frame] - self.checksum_bytes
        start += self.header_bytes
        if end < start:
            raise TruncatedError("the event has no body", need=start - end, have=0)
        return cursor.enter(start, end)

    def _boundary(self, action: cython.int) -> int:
        """Follow `[GTID] BEGIN … (XID | COMMIT)`, where MariaDB's GTID stands for BEGIN."""
        if action == _XID or (action == _QUERY and self.stage == _OPEN):
            self.stage = _OUTSIDE
            return 0
        if action == _QUERY:
            self.query_frame = self.frame
            if self.stage == _NAMED:
                self.stage = _OPEN
                return 0
        else:
            self.query_frame = -1
        self.txn_frame = self.frame
        self.stage = _NAMED if action == _GTID else _OPEN
        self.facts.txn = -1
        self.generation += 1
        return 0

    def _open_transaction(self) -> int:
        """Name the transaction of the rows to come, the first time that it has some."""
        found: TransactionSink = self.transactions
        if self.stage == _GIVEN:
            self.facts.txn = found.add(self.given_commit_us, self.given_start, self.given_thread)
            return found.name(self.given_gtid)
        if self.stage != _OPEN:
            raise MissingContextError("row changes stand outside of a transaction")
        frame: cython.Py_ssize_t = self.txn_frame
        start: cython.Py_ssize_t = self.block.offset[frame]
        type_code: cython.int = self.block.type_code[frame]
        commit_us: cython.Py_ssize_t = self.block.timestamp[frame]
        commit_us *= 1_000_000
        thread: cython.Py_ssize_t = -1
        if self.query_frame >= 0:
            self._enter(self.side, self.query_frame)
            thread = self.side.u32()  # the first field of a QUERY event
        self._enter(self.side, frame)
        if type_code in (_MYSQL_GTID, _ANONYMOUS):
            self.gtid.parse_mysql(self.side)
            if self.gtid.immediate_commit_us > 0:
                commit_us = self.gtid.immediate_commit_us
        elif type_code == _MARIADB_GTID:
            self.gtid.parse_mariadb(self.side)
            thread = self.gtid.thread_id
        self.facts.txn = found.add(commit_us, start, thread)
        if type_code == _MYSQL_GTID:
            return found.name_mysql(self.gtid)
        if type_code == _MARIADB_GTID:
            return found.name_mariadb(self.gtid, self.block.server_id[frame])
        return found.name(None)

    # -- tables ------------------------------------------------------------------------------

    def _table_map(self) -> int:
        """TABLE_MAP: table id 4 or 6, flags 2, and the definition to the end."""
        cursor: Cursor = self.cursor
        id_bytes: cython.int = self.id_bytes_of[self.block.type_code[self.frame]]
        table_id: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, cursor.le_uint(id_bytes))
        cursor.skip(2)
        binding: Binding = self.slots[table_id & (_SLOTS - 1)]
        if (
            binding is None
            or binding.table_id != table_id
            or binding.table.definition.size != cursor.end - cursor.pos
            or not binding.table.definition.at(cursor, cursor.pos)
        ):
            binding = self._bind(table_id, cursor.pos)
        binding.generation = self.generation
        return 0

    def _bind(self, table_id: cython.Py_ssize_t, definition: cython.Py_ssize_t) -> Binding:
        """The binding of an id to the definition at an index of the cursor's buffer."""
        cursor: Cursor = self.cursor
        raw = bytes(cursor.view[definition : cursor.end])
        table: Table = self.tables.get(raw)
        if table is None:
            body = bytes(cursor.view[cursor.start : cursor.end])
            table = Table(raw, self.resolve(body, self.format))
            self.tables[raw] = table
            if len(self.tables) > _MOST_TABLES:
                self.full = True
        binding: Binding = self.bindings.get(table_id)
        if binding is None or binding.table is not table:
            if len(self.bindings) >= _MOST_BINDINGS:
                self._forget_old_bindings()
            binding = Binding(table_id, table)
            self.bindings[table_id] = binding
        self.slots[table_id & (_SLOTS - 1)] = binding
        return binding

    def _forget_old_bindings(self) -> None:
        live = {}
        for table_id, known in self.bindings.items():
            binding: Binding = known
            if binding.generation == self.generation:
                live[table_id] = binding
        self.bindings = live

    def _binding(self) -> Binding:
        """What the table id of the head means; None for the event that only ends a statement.

        Raises MissingContextError if no TABLE_MAP of the statement names the id.
        """
        table_id: cython.Py_ssize_t = self.header.table_id
        binding: Binding = self.slots[table_id & (_SLOTS - 1)]
        if binding is None or binding.table_id != table_id:
            binding = self.bindings.get(table_id)
        if binding is None or binding.generation != self.generation:
            if table_id in _DUMMY_IDS and self.header.width == 0:
                return None
            raise MissingContextError(
                f"no TABLE_MAP event of the statement names table id {table_id}",
                hint="read from the start of the transaction",
            )
        return binding

    # -- rows --------------------------------------------------------------------------------

    def _rows(self, type_code: cython.int) -> int:
        cursor: Cursor = self.cursor
        header: RowsHeader = self.header
        version: cython.int = self.version_of[type_code] & 3
        bitmaps: cython.int = 2 if self.op_of[type_code] == _UPDATE else 1
        header.parse(cursor, self.id_bytes_of[type_code], version, bitmaps)
        header.is_partial = type_code == _PARTIAL
        binding: Binding = self._binding()
        if binding is not None and binding.table.sink is not None:
            self._take(binding.table.sink, type_code)
        else:
            self.passed_bytes += cursor.end - cursor.start
        if header.flags & _STMT_END:
            self.generation += 1
        return 0

    def _take(self, sink: TableSink, type_code: cython.int) -> int:
        """Decode the rows behind the head into `sink`."""
        op: cython.int = self.op_of[type_code]
        cursor: Cursor = self.cursor
        size: cython.Py_ssize_t = cursor.end - cursor.start
        wanted: cython.bint = sink.wants(op)
        if not wanted and not self.in_payload:
            self.passed_bytes += size
            return 0
        rows: Cursor = cursor
        if self.version_of[type_code] & _COMPRESSED:
            rows = Cursor(inflate_event_data(cursor.view[cursor.pos : cursor.end]))
        facts: EventFacts = self.facts
        if not self.in_payload:
            self.next_row = 0
            facts.pos = self.block.offset[self.frame]
            facts.end_pos = facts.pos + self.block.length[self.frame]
        if not wanted:  # but changes of one payload are numbered through
            self.next_row += sink.pass_over(cursor, self.header, rows, op)
            self.passed_bytes += size
            return 0
        if facts.txn < 0:
            self._open_transaction()
        facts.server_id = self.block.server_id[self.frame]
        facts.row = self.next_row
        facts.seq = self.rows
        if sink.rows == 0:
            self.active.append(sink)
        sink.begin(cursor, self.header, op)
        count: cython.Py_ssize_t = sink.add(rows, op, facts)
        self.next_row += count
        self.rows += count
        self.decoded_bytes += size
        # A guess per event, near enough for a while; then the truth is added up.
        self.uncounted_bytes += size + count * sink.row_bytes
        if self.uncounted_bytes >= self.recount_bytes:
            self._recount()
        return 0

    def _recount(self) -> int:
        """Add up what is held, and see whether that is enough."""
        self.uncounted_bytes = 0
        self.held_bytes = self.transactions.held()
        sink: TableSink
        for sink in self.active:
            self.held_bytes += sink.held()
            if sink.largest > _FULL_COLUMN:
                self.full = True
        if self.held_bytes >= self.limit_bytes:
            self.full = True
        return 0


@lru_cache(maxsize=64)
def _id_bytes_of(fmt: EventFormat) -> bytes:
    """Bytes of the table id, by event type; kept, as every payload changes the format and back.

    5.1's first releases wrote ids of 4 bytes, with post-headers of 6.
    """
    return bytes(4 if fmt.post_header_length(code) == 6 else 6 for code in range(256))
