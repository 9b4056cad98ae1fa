"""Rows events with JSON differences (PARTIAL_UPDATE_ROWS): their changes, one by one.

Such events are rare. They are decoded with the interpreter's lock, beside the loop over frames
(walk_loop.pyx), which comes back for them. partial.pyx decodes the images.
"""

from libc.stdint cimport int64_t, uint8_t

from binlake.core.events.format_constants cimport ROWS_STMT_END_F
from binlake.core.memory.failure cimport error_of
from binlake.core.images.layouts cimport trim_layouts
from binlake.core.rows.partial cimport change_partially, pass_partially
from binlake.core.memory.reader cimport Reader
from binlake.core.rows.row_selection cimport has_selected
from binlake.core.rows.rows_header cimport RowsHead
from binlake.core.rows.table_sink cimport (
    UPDATE,
    Table,
    TableSink,
    begin_change,
    begin_event,
    drop_unfinished,
    note_changes,
)
from binlake.core.rows.walk_loop cimport (
    DONE,
    SLOTS,
    STOPPED,
    activate,
    begin_rows,
    count_held,
    enter,
    open_transaction,
    read_head,
    seek_selected,
)

from binlake.errors import BinlogError, MalformedError
from binlake.format.event_types import PARTIAL_UPDATE_ROWS_EVENT

cdef int _PARTIAL = PARTIAL_UPDATE_ROWS_EVENT


cdef int take_partial_rows(Walk* w, object data) except -1:
    """Decode, or step over, the rows of the event at the frame of the walk, which is in the buffer `data`.

    Return DONE, or STOPPED where the limit is reached before its end. Raises BinlogError.
    """
    cdef RowsHead head
    cdef Reader r
    cdef Table* table
    cdef TableSink sink
    cdef const uint8_t* start
    cdef const uint8_t* images
    cdef bint wanted
    enter(w, w.frame, &r)
    read_head(w, _PARTIAL, &r, &head)
    start, images = r.start, r.pos
    table = w.slots[head.table_id & (SLOTS - 1)].table
    sink = <TableSink>table.owner  # stays alive meanwhile
    wanted = table.operations >> UPDATE & 1
    if w.resume_frame == w.frame:
        r.pos += w.resume_at
    else:
        begin_rows(w)
    if wanted:
        _begin(w, sink, &head)
    trim_layouts(table.passed)
    if not wanted:
        _pass(w, sink, &head, &r)
    elif w.selected != NULL:
        _change_selected(w, sink, &head, &r, data)
    else:
        _change_all(w, sink, &head, &r, data)
    if r.pos < r.end:
        w.resume_frame = w.frame
        w.resume_at = r.pos - images
        return STOPPED
    w.resume_frame = -1
    if wanted:
        w.decoded_bytes += r.end - start
    else:
        w.passed_bytes += r.end - start
    if head.flags & ROWS_STMT_END_F:
        w.generation += 1
    w.frame += 1
    return DONE


cdef int _begin(Walk* w, TableSink sink, RowsHead* head) except -1:
    """Take the part of an event before its first change."""
    cdef Table* table = &sink.table
    if w.facts.txn < 0 and open_transaction(w):
        raise error_of(&w.failure, None)
    activate(w, table)
    w.facts.server_id = w.server_id[w.frame]
    w.facts.row = w.next_row
    w.facts.seq = w.rows
    if begin_event(table, head, UPDATE, &w.failure):
        raise error_of(&w.failure, sink.plans)
    return 0


cdef int _change_all(Walk* w, TableSink sink, RowsHead* head, Reader* r, object data) except -1:
    """Take changes up to the end of the event, or until the limit is reached."""
    cdef Table* table = &sink.table
    cdef int64_t first = table.rows
    cdef const uint8_t* pos = NULL
    try:
        while True:
            pos = r.pos
            _change(w, sink, head, r, data)
            if r.pos >= r.end:
                break
            if pos == r.pos:
                raise MalformedError("rows without columns cannot have bytes", field="rows")
            count_held(w, table, r.pos - pos, 1)
            if w.full:
                break
    finally:
        drop_unfinished(table)
        note_changes(table, first, UPDATE, &w.facts)
    w.next_row += table.rows - first
    w.rows += table.rows - first
    if r.pos >= r.end:
        count_held(w, table, r.pos - pos, 1)
    return 0


cdef int _change_selected(
    Walk* w, TableSink sink, RowsHead* head, Reader* r, object data
) except -1:
    """Take the selected changes of the event, or until the limit is reached."""
    cdef Table* table = &sink.table
    cdef int64_t first
    cdef const uint8_t* pos
    while not w.full and has_selected(w.selected, w.offset[w.frame]):
        if seek_selected(w, r):
            raise error_of(&w.failure, sink.plans)
        first = table.rows
        pos = r.pos
        w.facts.seq = w.rows
        try:
            _change(w, sink, head, r, data)
        except BinlogError:
            drop_unfinished(table)
            raise
        note_changes(table, first, UPDATE, &w.facts)
        w.rows += 1
        count_held(w, table, r.pos - pos, 1)
    if not has_selected(w.selected, w.offset[w.frame]):
        r.pos = r.end
    return 0


cdef int _change(Walk* w, TableSink sink, RowsHead* head, Reader* r, object data) except -1:
    """Take the change at the reader."""
    cdef Table* table = &sink.table
    if begin_change(table, r):
        raise error_of(r.failure, sink.plans)
    change_partially(sink, r, head, data, w.data)
    table.rows += 1
    return 0


cdef int _pass(Walk* w, TableSink sink, RowsHead* head, Reader* r) except -1:
    """Step over the changes of the event."""
    cdef const uint8_t* pos
    while True:
        pos = r.pos
        pass_partially(sink, r, head)
        w.next_row += 1
        if r.pos >= r.end:
            return 0
        if pos == r.pos:
            raise MalformedError("rows without columns cannot have bytes", field="rows")
