"""The loop of the walk over frames, without the interpreter's lock: events to row changes.

It handles two kinds of events: TABLE_MAP events, which bind an id to a table, and rows events, which
contain images. It skips all others. The columns of plain_groups.py, or the caller of the walker, determine
where transactions begin and what identifies them. It returns to the walker (walk.pyx) for rare cases.
"""

from libc.stdint cimport INT64_MAX, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcmp

from binlake.core.events.format_constants cimport ROWS_STMT_END_F
from binlake.core.memory.failure cimport (
    NO_BODY,
    NO_MEMORY,
    NO_TABLE_MAP,
    NO_TRANSACTION,
    OUTSIDE_DATA,
    fail,
)
from binlake.core.images.image cimport MOST_INFLATED
from binlake.core.memory.reader cimport left, load, take, unlikely
from binlake.core.rows.row_selection cimport SelectedRows, has_selected
from binlake.core.rows.rows_header cimport read_rows_head
from binlake.core.rows.table_sink cimport (
    FOUND,
    IN_DOUBT,
    MATCHES,
    UPDATE,
    Found,
    add_changes,
    begin_event,
    count_inflated_rows,
    find_changes,
    held_by_table,
    inflates,
    pass_over,
    row_bytes,
)
from binlake.core.rows.transactions cimport (
    add_mariadb,
    add_mysql,
    add_named,
    add_unnamed,
    held_by_transactions,
)

from binlake.core.rows.actions import COMPRESSED, Action
from binlake.core.events.plain_groups import MARIADB, MYSQL
from binlake.format.event_types import PARTIAL_UPDATE_ROWS_EVENT

# The action of the walk for an event.
cdef int _TABLE_MAP = Action.TABLE_MAP
cdef int _ROWS = Action.ROWS

cdef enum:
    _FULL_COLUMN = 1 << 30
    # Every column that becomes an array costs about 2 kB, whatever few values it has; a table beside
    # its columns as much as so many.
    _MOST_ACTIVE_COLUMNS = 1 << 14
    _COLUMNS_OF_A_TABLE = 16

cdef int _PARTIAL = PARTIAL_UPDATE_ROWS_EVENT
cdef int _MYSQL = MYSQL
cdef int _MARIADB = MARIADB
cdef int _COMPRESSED = COMPRESSED



cdef int walk_frames(Walk* w, int64_t last) noexcept nogil:
    """Walk up to frame `last`, or until the limit is reached; return the reason for the stop."""
    cdef int code, action, reason
    cdef Reader r
    while w.frame < last and not w.full:
        if w.frame >= w.next_group_frame:
            enter_group(w, w.group + 1)
            if w.selected != NULL and not _seek_group(w, last):
                return DONE
        code = w.type_code[w.frame]
        action = w.action_of[code]
        if action == _ROWS:
            if enter(w, w.frame, &r):
                return FAILED
            reason = _rows(w, code, &r)
            if unlikely(reason != DONE):
                return reason
        elif action == _TABLE_MAP:
            if enter(w, w.frame, &r):
                return FAILED
            reason = _table_map(w, code, &r)
            if unlikely(reason != DONE):
                return reason
        w.frame += 1
    return DONE


cdef bint _seek_group(Walk* w, int64_t last) noexcept nogil:
    """Go on with the next transaction that has selected changes; False, with `last` as the next frame, if there is none
    before that.
    """
    cdef const Groups* groups = &w.groups
    cdef SelectedRows* selected = w.selected
    cdef int64_t group = w.group
    cdef int64_t end
    while selected.next < selected.count and group < groups.count and groups.first[group] < last:
        end = groups.last[group] - 1
        if selected.pos[selected.next] < w.offset[end] + w.length[end]:
            if group != w.group:
                enter_group(w, group)
            w.frame = groups.first[group]
            return True
        group += 1
    w.frame = last
    return False


cdef int enter(Walk* w, int64_t frame, Reader* r) noexcept nogil:
    """Stand at the body of a frame."""
    cdef int64_t start = w.offset[frame] - w.base
    cdef int64_t end = start + w.length[frame] - w.checksum_bytes
    w.failing = NULL
    r.failure = &w.failure
    start += w.header_bytes
    if unlikely(end < start):
        return fail(&w.failure, NO_BODY, -1, start - end, 0)
    if unlikely(start < 0 or end > w.data_bytes):
        return fail(&w.failure, OUTSIDE_DATA, -1, start, end)
    r.start = r.pos = w.data + start
    r.end = w.data + end
    return 0


cdef void enter_group(Walk* w, int64_t group) noexcept nogil:
    """The frames that follow belong to a plain transaction, or to none (-1) before the first."""
    cdef int64_t after = group + 1
    w.group = group
    w.next_group_frame = w.groups.first[after] if after < w.groups.count else INT64_MAX
    w.facts.txn = -1
    w.generation += 1


cdef int open_transaction(Walk* w) noexcept nogil:
    """Name the transaction of the rows to come, the first time that it has some."""
    cdef const Groups* groups = &w.groups
    cdef int64_t group = w.group
    cdef int64_t frame, sid_at
    cdef TransactionFacts facts
    if w.is_given:
        if w.given_gtid == NULL:
            w.facts.txn = add_unnamed(w.transactions, &w.given, &w.failure)
        else:
            w.facts.txn = add_named(
                w.transactions, &w.given, w.given_gtid, w.given_gtid_bytes, &w.failure
            )
        return -1 if w.facts.txn < 0 else 0
    if group < 0 or w.frame >= groups.last[group]:
        return fail(&w.failure, NO_TRANSACTION, -1, 0, 0)
    frame = groups.first[group]
    facts.start = w.offset[frame]
    facts.commit_us = groups.commit_us[group]
    facts.thread_id = groups.thread_id[group]
    if groups.gtid_kind[group] == _MYSQL:
        sid_at = groups.sid_at[group]
        if unlikely(sid_at < 0 or sid_at + 16 > w.data_bytes):
            return fail(&w.failure, OUTSIDE_DATA, -1, sid_at, sid_at + 16)
        w.facts.txn = add_mysql(
            w.transactions, &facts, w.data + sid_at, groups.number[group], &w.failure
        )
    elif groups.gtid_kind[group] == _MARIADB:
        w.facts.txn = add_mariadb(
            w.transactions,
            &facts,
            <uint64_t>groups.domain_id[group],
            w.server_id[frame],
            <uint64_t>groups.number[group],
            &w.failure,
        )
    else:
        w.facts.txn = add_unnamed(w.transactions, &facts, &w.failure)
    return -1 if w.facts.txn < 0 else 0


# -- tables ----------------------------------------------------------------------------------------


cdef int _table_map(Walk* w, int code, Reader* r) noexcept nogil:
    """TABLE_MAP: table id 4 or 6, flags 2, and the definition to the end."""
    cdef int id_bytes = w.id_bytes_of[code]
    cdef const uint8_t* at = take(r, id_bytes + 2)
    cdef int64_t table_id
    cdef Binding* binding
    if at == NULL:
        return FAILED
    table_id = <int64_t>load(at, id_bytes)
    binding = w.slots[table_id & (SLOTS - 1)]
    if (
        binding == NULL
        or binding.table_id != table_id
        or binding.definition == NULL
        or binding.definition_bytes != left(r)
        or memcmp(binding.definition, r.pos, <size_t>binding.definition_bytes) != 0
    ):
        return UNKNOWN_TABLE
    binding.generation = w.generation
    return DONE


# -- rows ------------------------------------------------------------------------------------------


cdef int read_head(Walk* w, int code, Reader* r, RowsHead* head) noexcept nogil:
    return read_rows_head(
        r, w.id_bytes_of[code], w.version_of[code] & 3, 2 if w.op_of[code] == UPDATE else 1, head
    )


cdef int _rows(Walk* w, int code, Reader* r) noexcept nogil:
    cdef int op = w.op_of[code]
    cdef RowsHead head
    cdef Binding* binding
    cdef int reason
    if read_head(w, code, r, &head):
        return FAILED
    binding = w.slots[head.table_id & (SLOTS - 1)]
    if unlikely(binding == NULL or binding.table_id != head.table_id):
        return UNKNOWN_ID
    if unlikely(binding.generation != w.generation):
        if head.width or not _is_dummy(head.table_id):
            fail(&w.failure, NO_TABLE_MAP, -1, head.table_id, 0)
            return FAILED
        w.passed_bytes += r.end - r.start
    elif binding.table == NULL or not (w.in_payload or binding.table.operations >> op & 1):
        w.passed_bytes += r.end - r.start
    elif w.selected != NULL and not has_selected(w.selected, w.offset[w.frame]):
        w.passed_bytes += r.end - r.start
    else:
        reason = _take(w, binding.table, code, op, &head, r)
        if reason != DONE:
            return reason
    if head.flags & ROWS_STMT_END_F:
        w.generation += 1
    return DONE


cdef inline bint _is_dummy(int64_t table_id) noexcept nogil:
    """Whether it is the id of an event that only ends a statement."""
    return (
        table_id == 0xFFFFFF
        or table_id == <int64_t>0xFFFFFFFF
        or table_id == <int64_t>0xFFFFFFFFFFFF
    )


cdef void begin_rows(Walk* w) noexcept nogil:
    """A top-level event has a place of its own, where its changes are counted from 0."""
    if not w.in_payload:
        w.next_row = 0
        w.facts.pos = w.offset[w.frame]
        w.facts.end_pos = w.facts.pos + w.length[w.frame]


cdef int _take(
    Walk* w, Table* table, int code, int op, const RowsHead* head, Reader* body
) noexcept nogil:
    """Decode the rows behind the head into a table, or count those of operations that are not selected."""
    cdef int64_t size = body.end - body.start
    cdef Reader r = body[0]
    cdef int64_t count
    w.failing = table
    if code == _PARTIAL:
        return UNDECIDED if table.mode == MATCHES else PARTIAL_ROWS
    if w.version_of[code] & _COMPRESSED:
        if w.inflated_frame != w.frame:
            return COMPRESSED_ROWS
        r.start = r.pos = w.inflated
        r.end = r.pos + w.inflated_bytes
    if table.mode == MATCHES:
        return _find(w, table, op, head, &r)
    if w.resume_frame == w.frame:
        r.pos += w.resume_at
    else:
        begin_rows(w)
    if not table.operations >> op & 1:  # the changes of a payload share one numbering
        count = pass_over(table, head, &r, op)
        if count < 0:
            return FAILED
        w.next_row += count
        w.passed_bytes += size
        return DONE
    if w.facts.txn < 0 and open_transaction(w):
        return FAILED
    w.failing = table
    w.facts.server_id = w.server_id[w.frame]
    if activate(w, table) or begin_event(table, head, op, &w.failure):
        return FAILED
    if w.selected != NULL:
        if _add_selected(w, table, op, &r):
            return FAILED
        if has_selected(w.selected, w.offset[w.frame]):
            w.resume_frame = w.frame
            w.resume_at = 0
            return STOPPED
        r.pos = r.end
    elif _add(w, table, op, &r):
        return FAILED
    if r.pos < r.end:
        w.resume_frame = w.frame
        w.resume_at = r.pos - (w.inflated if r.start == w.inflated else body.pos)
        return STOPPED
    w.resume_frame = w.inflated_frame = -1
    w.decoded_bytes += size
    return DONE


cdef int _find(Walk* w, Table* table, int op, const RowsHead* head, Reader* r) noexcept nogil:
    """Find the rows that match; those of compressed events are inflated."""
    cdef Found result
    if w.found == NULL:
        return UNDECIDED
    result = find_changes(table, head, r, op, w.offset[w.frame], w.group, w.found)
    w.inflated_frame = -1
    if result == FOUND:
        return DONE
    return UNDECIDED if result == IN_DOUBT else FAILED


cdef int _add(Walk* w, Table* table, int op, Reader* r) noexcept nogil:
    """Decode rows until there are none, or the limit is reached."""
    cdef int64_t most_rows = max(w.recount_bytes // row_bytes(table), <int64_t>1)
    cdef int64_t most_bytes = w.recount_bytes
    cdef const uint8_t* pos
    cdef int64_t first, count
    cdef int failed
    if inflates(table):
        most_bytes = max(most_bytes // MOST_INFLATED, <int64_t>1)
    while True:
        w.facts.row = w.next_row
        w.facts.seq = w.rows
        first = table.rows
        pos = r.pos
        failed = add_changes(
            table, r, op, &w.facts, most_rows,
            r.end if r.end - pos < most_bytes else pos + most_bytes,
        )
        count = table.rows - first
        w.next_row += count
        w.rows += count
        count_held(w, table, r.pos - pos, count)
        if failed or w.full or r.pos >= r.end:
            return failed


cdef int _add_selected(Walk* w, Table* table, int op, Reader* r) noexcept nogil:
    """Decode the selected rows of an event, or until the limit is reached."""
    cdef const uint8_t* pos
    while not w.full and has_selected(w.selected, w.offset[w.frame]):
        if seek_selected(w, r):
            return -1
        w.facts.seq = w.rows
        pos = r.pos
        if add_changes(table, r, op, &w.facts, 1, r.end):
            return -1
        w.rows += 1
        count_held(w, table, r.pos - pos, 1)
    return 0


cdef int seek_selected(Walk* w, Reader* r) noexcept nogil:
    """Stand at the images of the next selected change, which is of this event."""
    cdef SelectedRows* selected = w.selected
    cdef int64_t start = selected.start[selected.next]
    if unlikely(start > r.end - r.start):
        return fail(&w.failure, OUTSIDE_DATA, -1, start, r.end - r.start)
    r.pos = r.start + start
    w.facts.row = selected.row[selected.next]
    selected.next += 1
    return 0


cdef int activate(Walk* w, Table* table) noexcept nogil:
    """Remember a table that gets its first rows since `finish`."""
    cdef Table** moved
    if table.is_active:
        return 0
    if w.active_count == w.active_room:
        moved = <Table**>realloc(w.active, <size_t>(2 * w.active_room + 16) * sizeof(Table*))
        if moved == NULL:
            return fail(&w.failure, NO_MEMORY, -1, 0, 0)
        w.active = moved
        w.active_room = 2 * w.active_room + 16
    w.active[w.active_count] = table
    w.active_count += 1
    table.is_active = True
    w.active_columns += table.columns + _COLUMNS_OF_A_TABLE
    if w.active_columns >= _MOST_ACTIVE_COLUMNS:
        w.full = True
    return 0


cdef void count_held(Walk* w, Table* table, int64_t size, int64_t count) noexcept nogil:
    """Count a few rows by a guess; when these are enough, add up what is held, and see whether that
    is too much.
    """
    cdef int64_t largest = 0
    cdef int64_t i
    w.uncounted_bytes += size + count_inflated_rows(table) + count * row_bytes(table)
    if w.uncounted_bytes < w.recount_bytes:
        return
    w.uncounted_bytes = 0
    w.held_bytes = held_by_transactions(w.transactions)
    for i in range(w.active_count):
        w.held_bytes += held_by_table(w.active[i], &largest)
    if w.held_bytes >= w.limit_bytes or largest > _FULL_COLUMN:
        w.full = True
