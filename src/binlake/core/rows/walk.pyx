"""The walk over frames that turns rows events into row changes: the hot path of binlake.

The loop over frames (walk_loop.pyx) runs without the interpreter's lock. It returns to this module
for rare cases: an unknown table, compressed rows, JSON differences.

Tables are found by the bytes of their definition, first in a small table by id.
"""

from functools import lru_cache
from types import MethodType
from typing import NamedTuple
from weakref import WeakMethod

from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memset

from binlake.core.events.format_constants cimport HEADER_BYTES
from binlake.core.memory.failure cimport NO_FAULT, error_of
from binlake.core.rows.partial_rows cimport take_partial_rows
from binlake.core.memory.reader cimport Reader, left, load, take
from binlake.core.rows.row_selection cimport FoundSink, RowSelection
from binlake.core.rows.rows_header cimport RowsHead
from binlake.core.rows.walk_loop cimport (
    COMPRESSED_ROWS,
    DONE,
    PARTIAL_ROWS,
    STOPPED,
    UNDECIDED,
    UNKNOWN_ID,
    UNKNOWN_TABLE,
    enter,
    enter_group,
    read_head,
    walk_frames,
)

from binlake.core.rows.actions import ACTION_OF, OPERATION_OF, VERSION_OF
from binlake.core.events.inflate import inflate_event_data
from binlake.errors import BinlogError, UnsupportedError
from binlake.format.event_types import event_name

cimport cython

#: A limit for walks that give out whole rows events, however large.
NO_LIMIT = 1 << 62

cdef enum:
    _MOST_BINDINGS = 1 << 14
    # The cost of a table beside its columns, as a number of columns.
    _COLUMNS_OF_A_TABLE = 8

cdef bytes _ACTION_OF = ACTION_OF
cdef bytes _OP_OF = OPERATION_OF
cdef bytes _VERSION_OF = VERSION_OF


class UndecidedError(Exception):
    """Rows cannot be chosen by the values of their images alone."""


class WalkedRows(NamedTuple):
    """The result of a walk: the transactions, and the changes of each table.

    `tables` are those with at least one change; a change's `txn` indexes `transactions`.
    """

    transactions: object
    tables: tuple


@cython.final
cdef class DefinedTable:
    """A table definition, by its bytes, and the sink of its changes; None if no changes of the table are selected."""

    def __init__(self, bytes definition, sink):
        self.definition = definition
        self.sink = sink


@cython.final
cdef class TableId:
    """The table that an id stands for."""

    def __init__(self, table_id, DefinedTable table):
        self.table = table
        self.binding.table_id = table_id
        self.binding.generation = 0
        if table is not None:
            self.binding.definition = <const uint8_t*><const char*>table.definition
            self.binding.definition_bytes = len(table.definition)
            if table.sink is not None:
                self.binding.table = &table.sink.table


@cython.final
cdef class RowWalker:
    """Decodes the rows events of frames into the sinks of their tables.

    `resolve(body, format)` is asked once per table definition: `body` is that of a TABLE_MAP
    event, the answer the TableSink for its rows, or None to pass over them. A definition is
    identified by its bytes after table id and flags, until all known tables have more columns than
    the option max_memory allows: then only those of the open statement stay known.

        walker.set_format(format)
        while i < last:
            i = walker.run_groups(data, base, groups, i, last)
            if walker.is_full:
                rows = walker.finish()

    A walk stops early once `held_bytes` reaches `limit_bytes`, also in the middle of a
    transaction or of a rows event, and goes on where it stopped after `finish()`; it may exceed the
    limit by a sixteenth and by one row. `rows`, `decoded_bytes` and `passed_bytes` count the changes
    taken and the bytes of the rows events decoded and skipped, since the walker was made. The object of
    a bound method `resolve` has to live as long as the walker.
    """

    def __init__(self, resolve, limit_bytes=1 << 26):
        cdef Walk* w = &self.walk
        # The object of a bound method holds the walker: as a cycle, both would stay in memory for long.
        self.resolve = WeakMethod(resolve) if isinstance(resolve, MethodType) else lambda: resolve
        w.limit_bytes = limit_bytes
        w.recount_bytes = max(limit_bytes >> 4, 1)
        w.action_of = <const uint8_t*><const char*>_ACTION_OF
        w.op_of = <const uint8_t*><const char*>_OP_OF
        w.version_of = <const uint8_t*><const char*>_VERSION_OF
        self._set_id_bytes(bytes([6]) * 256)
        w.header_bytes = HEADER_BYTES
        w.generation = 1
        w.facts.txn = -1
        w.group = -1
        w.inflated_frame = -1
        w.resume_frame = -1
        self.caches = {}
        self.tables = {}
        self.bindings = {}
        self.active = []
        self.unbound = TableId(-1, None)
        self.transactions = TransactionSink()
        w.transactions = &self.transactions.transactions

    def __dealloc__(self):
        free(self.walk.active)

    @property
    def held_bytes(self):
        """Bytes of the buffers that `finish` would hand over."""
        return self.walk.held_bytes

    @property
    def rows(self):
        """How many row changes were taken."""
        return self.walk.rows

    @property
    def decoded_bytes(self):
        """Bytes of the bodies of rows events that were decoded."""
        return self.walk.decoded_bytes

    @property
    def passed_bytes(self):
        """Bytes of the bodies of rows events that were skipped."""
        return self.walk.passed_bytes

    # -- where the frames come from ----------------------------------------------------------

    def _set_id_bytes(self, id_bytes_of):
        self.id_bytes_of = id_bytes_of
        self.walk.id_bytes_of = <const uint8_t*><const char*>self.id_bytes_of

    def set_format(self, fmt):
        """The frames that follow have this format. Table ids of another format are forgotten."""
        if fmt == self.format:
            return
        self.format = fmt
        self.walk.header_bytes = fmt.header_length
        self.walk.checksum_bytes = fmt.checksum_bytes
        self._set_id_bytes(_id_bytes_of(fmt))
        # the meaning of a definition depends on the server that wrote it
        self.tables = self.caches.setdefault((fmt.server_version, fmt.flavour), {})
        self._forget_bindings({})
        self.walk.generation += 1

    def forget_tables(self):
        """Ask `resolve` again about every definition, since its answers have changed.

        To be called between transactions; `set_format` has to follow.
        """
        self._forget_bindings({})
        self.caches = {}
        self.tables = {}
        self.known_columns = 0
        self.format = None

    def _forget_bindings(self, but):
        memset(self.walk.slots, 0, sizeof(self.walk.slots))
        self.bindings = but

    def enter_payload(self, int64_t pos, int64_t end_pos):
        """The frames that follow came out of the payload event at [pos, end_pos).

        Their changes have its position, and one numbering. Call this once per payload
        event, before its first frames.
        """
        self.walk.in_payload = True
        self.walk.facts.pos = pos
        self.walk.facts.end_pos = end_pos
        self.walk.next_row = 0

    def leave_payload(self):
        """The frames that follow lie in the file itself."""
        self.walk.in_payload = False

    def begin_transaction(self, bytes gtid, commit_us, thread_id, start):
        """The frames that `run_rows` gets next belong to this transaction.

        `gtid` as its flavour spells it, `commit_us` since 1970 UTC, `start` the file offset of
        its first event.
        """
        cdef Walk* w = &self.walk
        w.given.commit_us = commit_us
        w.given.thread_id = -1 if thread_id is None else thread_id
        w.given.start = start
        self.given_gtid = gtid
        w.given_gtid = NULL
        if gtid is not None:
            w.given_gtid = <const uint8_t*><const char*>gtid
            w.given_gtid_bytes = len(gtid)
        w.is_given = True
        w.group = -1
        w.next_group_frame = INT64_MAX
        self.groups = None
        w.facts.txn = -1
        w.generation += 1

    def run_rows(self, data, int64_t base, FrameBlock block, int64_t first, int64_t last):
        """Decode the rows events among frames [first, last) of the transaction begun last.

        As `run_groups`, but the frames say nothing about the transaction.
        """
        if not self.walk.is_given:
            raise ValueError("begin_transaction comes first")
        self._select(None)
        return self._run(data, base, block, first, last)

    def run_groups(
        self, data, int64_t base, PlainGroups groups, int64_t first, int64_t last, rows=None
    ):
        """Decode frames [first, last), which belong to the plain transactions of `groups`; the
        frame to go on with. `rows` (a RowSelection) are the row changes to decode, None for all.

        `data` holds the frames' bytes, `base` is the file offset of `data[0]`. Less than
        `last` is returned when the limit is reached: call again, from there, after `finish`.

        Raises FormatError, MissingContextError (rows of an unknown table id), UnsupportedError;
        all with event_pos and event_type; the walker must not be used on.
        """
        cdef int64_t group = groups.around(first)
        if groups is not self.groups or group != self.walk.group or group < 0:
            self._take_groups(groups, group)
        elif first == groups.first[group]:  # from its beginning, not where a walk had stopped
            enter_group(&self.walk, group)
        self._select(rows)
        return self._run(data, base, groups.block, first, last)

    def find_rows(self, data, int64_t base, PlainGroups groups, int64_t first, int64_t last):
        """Find the rows among frames [first, last) that match, in tables whose sinks are RowMatches: a RowSelection and
        the numbers of the transactions that they are in, or None if no row matches. All sinks must be such sinks.

        Raises UndecidedError where a condition cannot be decided by values of row images alone, and as
        `run_groups`; the walker can be used on.
        """
        self.found = FoundSink()
        self.walk.found = &self.found.found
        self.is_undecided = False
        try:
            self.run_groups(data, base, groups, first, last)
            if self.is_undecided:
                raise UndecidedError
            return self.found.finish()
        finally:
            self.walk.found = NULL
            self.walk.group = -1
            self.found = None

    cdef int _take_groups(self, PlainGroups groups, int64_t group) except -1:
        """The frames that follow are of these transactions, from `group` on."""
        cdef Walk* w = &self.walk
        self.groups = groups
        w.is_given = False
        w.groups.count = groups.count
        w.groups.first = &groups.first[0]
        w.groups.last = &groups.last[0]
        w.groups.commit_us = &groups.commit_us[0]
        w.groups.thread_id = &groups.thread_id[0]
        w.groups.number = &groups.number[0]
        w.groups.domain_id = &groups.domain_id[0]
        w.groups.sid_at = &groups.sid_at[0]
        w.groups.gtid_kind = &groups.gtid_kind[0]
        enter_group(w, group)
        return 0

    def _select(self, RowSelection rows):
        self.selection = rows
        self.walk.selected = NULL if rows is None else &rows.selected

    def _run(self, data, int64_t base, FrameBlock block, int64_t first, int64_t last):
        cdef Walk* w = &self.walk
        cdef int reason = DONE
        if not 0 <= first <= last <= block.count:
            raise IndexError(f"frames [{first}, {last}) of {block.count}")
        if first != w.resume_frame or block is not self.block:
            w.resume_frame = w.inflated_frame = -1
        self.data = data
        self.view = data
        self.block = block
        w.data = &self.view[0] if self.view.shape[0] else NULL
        w.data_bytes = self.view.shape[0]
        w.base = base
        w.offset = &block.offset[0]
        w.type_code = &block.type_code[0]
        w.length = &block.length[0]
        w.timestamp = &block.timestamp[0]
        w.server_id = &block.server_id[0]
        w.frame = first
        w.failure.fault = NO_FAULT
        try:
            while True:
                with nogil:
                    reason = walk_frames(w, last)
                self._hold_active()
                if reason == UNDECIDED:
                    self.is_undecided = True
                    break
                if reason == DONE or reason == STOPPED or self._attend(reason) == STOPPED:
                    break
        except BinlogError as error:
            code = block.type_code[w.frame]
            raise error.at(event_pos=block.offset[w.frame], event_type=event_name(code)) from None
        finally:
            self.view = None
            self.data = None
        return w.frame

    @property
    def is_full(self):
        """Whether the limit is reached: `finish` before going on."""
        return bool(self.walk.full)

    def finish(self):
        """Hand over all that was collected, without a copy, and start again."""
        cdef Walk* w = &self.walk
        cdef TableSink sink
        tables = []
        for sink in self.active:
            tables.append((sink, sink.finish_rows()))
        transactions = self.transactions.finish()
        w.facts.txn = -1  # an open transaction is named again by its next rows
        self.active = []
        w.active_count = w.active_columns = 0
        w.held_bytes = w.uncounted_bytes = 0
        w.full = False
        return WalkedRows(transactions, tuple(tables))

    # -- cases that the loop returns for ------------------------------------------------------

    def _hold_active(self):
        """The sinks that have rows stay alive until `finish`, whatever is forgotten."""
        cdef Walk* w = &self.walk
        while len(self.active) < w.active_count:
            self.active.append(<TableSink>w.active[len(self.active)].owner)

    cdef int _attend(self, int reason) except -1:
        """Handle a case that the loop cannot; then the loop continues. STOPPED: the limit is reached inside an event."""
        cdef Walk* w = &self.walk
        if reason == UNKNOWN_TABLE:
            return self._bind()
        if reason == UNKNOWN_ID:
            return self._look_up()
        if reason == COMPRESSED_ROWS:
            return self._inflate()
        if reason == PARTIAL_ROWS:
            try:
                return take_partial_rows(w, self.data)
            finally:
                self._hold_active()
        raise error_of(&w.failure, _plans_of(w))

    cdef int _bind(self) except -1:
        """Bind the id of a TABLE_MAP to its definition."""
        cdef Walk* w = &self.walk
        cdef DefinedTable table
        cdef TableId known
        cdef Reader r
        cdef int id_bytes
        cdef int64_t table_id
        enter(w, w.frame, &r)
        body = r.start[: left(&r)]
        id_bytes = w.id_bytes_of[w.type_code[w.frame]]
        table_id = <int64_t>load(take(&r, id_bytes), id_bytes)
        definition = body[id_bytes + 2 :]
        table = self.tables.get(definition)
        if table is None:
            table = self._know(definition, body)
        known = self.bindings.get(table_id)
        if known is None or known.table is not table:
            if len(self.bindings) >= _MOST_BINDINGS:
                self._forget_old_bindings()
            known = TableId(table_id, table)
            self.bindings[table_id] = known
        w.slots[table_id & (SLOTS - 1)] = &known.binding
        return 0

    cdef DefinedTable _know(self, bytes definition, body):
        """Resolve a definition; where that makes too many columns, forget those of other statements."""
        cdef TableId known
        cdef DefinedTable table = DefinedTable(definition, self.resolve()(body, self.format))
        cdef int64_t most = self.format.most_table_columns
        self.known_columns += _columns_of(table)
        if self.known_columns > most:
            for tables in self.caches.values():
                tables.clear()
            self._forget_old_bindings()
            self.known_columns = _columns_of(table)
            for known in self.bindings.values():
                self.known_columns += _columns_of(known.table)
            if self.known_columns > most:
                raise UnsupportedError(
                    f"the tables of one statement have {self.known_columns:,} columns; option max_memory "
                    f"allows {most:,}",
                    hint="increase the option max_memory",
                )
        self.tables[definition] = table
        return table

    def _forget_old_bindings(self):
        cdef TableId known
        live = {}
        for table_id, known in self.bindings.items():
            if known.binding.generation == self.walk.generation:
                live[table_id] = known
        self._forget_bindings(live)

    cdef int _look_up(self) except -1:
        """Find what the id of a rows event means, which is not in its slot."""
        cdef Walk* w = &self.walk
        cdef TableId known
        cdef Reader r
        cdef int id_bytes
        cdef int64_t table_id
        enter(w, w.frame, &r)
        id_bytes = w.id_bytes_of[w.type_code[w.frame]]
        table_id = <int64_t>load(take(&r, id_bytes), id_bytes)
        known = self.bindings.get(table_id)
        if known is None:
            known = self.unbound
            known.binding.table_id = table_id
        w.slots[table_id & (SLOTS - 1)] = &known.binding
        return 0

    cdef int _inflate(self) except -1:
        """Inflate the rows of a compressed event."""
        cdef Walk* w = &self.walk
        cdef RowsHead head
        cdef Reader r
        cdef int code = w.type_code[w.frame]
        enter(w, w.frame, &r)
        read_head(w, code, &r, &head)
        self.inflated = inflate_event_data(r.pos[: left(&r)], self.format.most_inflated)
        w.inflated = <const uint8_t*><const char*>self.inflated
        w.inflated_bytes = len(self.inflated)
        w.inflated_frame = w.frame
        return 0


cdef int64_t _columns_of(DefinedTable table):
    """The share of a table in the sum of known columns."""
    if table is None or table.sink is None:
        return _COLUMNS_OF_A_TABLE
    return _COLUMNS_OF_A_TABLE + len(table.sink.plans)


cdef object _plans_of(Walk* w):
    """The plans of the table whose rows the walk was decoding."""
    if w.failing == NULL:
        return None
    return (<TableSink>w.failing.owner).plans


@lru_cache(maxsize=64)
def _id_bytes_of(fmt):
    """Bytes of the table id, by event type; kept, as every payload changes the format and back."""
    return bytes([fmt.table_id_bytes(code) for code in range(256)])
