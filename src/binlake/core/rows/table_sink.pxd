# The row changes of one table, without the interpreter's lock.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from binlake.core.memory.failure cimport Failure
from binlake.core.images.image cimport ImageSink
from binlake.core.images.layouts cimport Image
from binlake.core.memory.reader cimport Reader, unlikely
from binlake.core.images.row_condition cimport Condition, RowCondition
from binlake.core.rows.row_selection cimport FoundRows
from binlake.core.rows.rows_header cimport RowsHead

cpdef enum:
    INSERT = 0
    UPDATE = 1
    DELETE = 2

# Which image goes where: with MATCHES, nowhere.
cdef enum Mode:
    BOTH_IMAGES
    CURRENT_ROW
    MATCHES

# The outcome for an event if a condition selects some of its changes.
cdef enum Found:
    FOUND
    FAILED_TO_FIND
    IN_DOUBT

# The common facts of the changes of one rows event; `row` and `seq` are of its first.
cdef struct EventFacts:
    int64_t pos
    int64_t end_pos
    int64_t row
    int64_t seq
    int64_t txn
    int64_t server_id

# The changes of one table: their images, and the position and the transaction of each change.
cdef struct Table:
    void* owner  # the TableSink
    bint is_active  # it has rows since `finish`
    Mode mode
    Condition* condition  # of MATCHES; NULL: binlake decides it elsewhere
    int operations
    int64_t columns  # that are kept, of both images; at least those that are known
    Image* before
    Image* after
    Image* passed
    int64_t rows
    int64_t capacity
    int64_t first
    int64_t counts[3]
    uint8_t* op
    int64_t* pos
    int64_t* end_pos
    int64_t* seq
    uint32_t* row
    uint32_t* txn
    uint32_t* server_id
    uint32_t* start

cdef class TableSink:
    cdef Table table
    cdef readonly tuple plans
    cdef public object purpose
    cdef object __weakref__
    cdef ImageSink before
    cdef ImageSink after
    cdef ImageSink passed
    cdef int64_t unknown_documents
    cdef bint applies_differences

    cdef object finish_rows(self)

cdef class RowMatches(TableSink):
    cdef RowCondition condition

cdef int begin_event(Table* table, const RowsHead* head, int op, Failure* failure) noexcept nogil
cdef int64_t row_bytes(const Table* table) noexcept nogil
cdef bint inflates(const Table* table) noexcept nogil
cdef int64_t count_inflated_rows(Table* table) noexcept nogil
cdef int add_changes(Table* table, Reader* r, int op, const EventFacts* facts, int64_t most_rows, const uint8_t* stop) noexcept nogil
cdef Found find_changes(Table* table, const RowsHead* head, Reader* r, int op, int64_t pos, int64_t group, FoundRows* found) noexcept nogil
cdef void note_changes(Table* table, int64_t first, int op, const EventFacts* facts) noexcept nogil
cdef int grow(Table* table, Failure* failure) noexcept nogil
cdef int append_before(Table* table, Reader* r) noexcept nogil
cdef int64_t pass_over(Table* table, const RowsHead* head, Reader* r, int op) noexcept nogil
cdef void drop_unfinished(Table* table) noexcept nogil
cdef int64_t held_by_table(const Table* table, int64_t* largest) noexcept nogil


cdef inline int begin_change(Table* table, const Reader* r) noexcept nogil:
    """Make room for the change at the reader, and note where that is."""
    if unlikely(table.rows == table.capacity) and grow(table, r.failure):
        return -1
    table.start[table.rows] = <uint32_t>(r.pos - r.start)
    return 0
