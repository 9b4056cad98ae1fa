# The state of the loop of a walk, which runs without the interpreter's lock.

from libc.stdint cimport int64_t, uint8_t, uint32_t

from binlake.core.memory.failure cimport Failure
from binlake.core.memory.reader cimport Reader
from binlake.core.rows.row_selection cimport FoundRows, SelectedRows
from binlake.core.rows.rows_header cimport RowsHead
from binlake.core.rows.table_sink cimport EventFacts, Table
from binlake.core.rows.transactions cimport TransactionFacts, Transactions

# The last meaning of a table id, valid while `generation` is the walk's. `definition` are the
# bytes of the TABLE_MAP behind id and flags; `table` NULL: its rows are not selected.
cdef struct Binding:
    int64_t table_id
    int64_t generation
    const uint8_t* definition
    int64_t definition_bytes
    Table* table

# The columns of PlainGroups.
cdef struct Groups:
    int64_t count
    const long long* first
    const long long* last
    const long long* commit_us
    const long long* thread_id
    const long long* number
    const long long* domain_id
    const long long* sid_at
    const uint8_t* gtid_kind

cdef enum:
    SLOTS = 1024  # a power of two

cdef struct Walk:
    # the frames, and the bytes that they are in
    const uint8_t* data
    int64_t data_bytes
    int64_t base
    const long long* offset
    const uint8_t* type_code
    const uint32_t* length
    const uint32_t* timestamp
    const uint32_t* server_id
    int64_t frame
    # the format
    const uint8_t* action_of
    const uint8_t* op_of
    const uint8_t* version_of
    const uint8_t* id_bytes_of
    int64_t header_bytes
    int64_t checksum_bytes
    # tables
    Binding* slots[SLOTS]
    int64_t generation
    Table** active
    int64_t active_count
    int64_t active_room
    int64_t active_columns  # that are kept, of both images of all these tables
    # the event being decoded; `inflated` are the rows of the compressed event `inflated_frame`
    EventFacts facts
    bint in_payload
    int64_t next_row
    const uint8_t* inflated
    int64_t inflated_bytes
    int64_t inflated_frame
    SelectedRows* selected  # the changes to decode; NULL: all
    FoundRows* found  # the rows that RowMatches finds
    # a rows event that continues after `finish`: the number of bytes of its rows that are decoded
    int64_t resume_frame
    int64_t resume_at
    # transactions
    Transactions* transactions
    Groups groups
    int64_t group
    int64_t next_group_frame
    bint is_given  # begin_transaction supplied the facts; `groups` is empty
    TransactionFacts given
    const uint8_t* given_gtid
    int64_t given_gtid_bytes
    # limits and counts
    bint full
    int64_t limit_bytes
    int64_t recount_bytes
    int64_t uncounted_bytes
    int64_t held_bytes
    int64_t rows
    int64_t decoded_bytes
    int64_t passed_bytes
    Failure failure
    Table* failing  # whose rows are decoded

# Why the loop comes back.
cdef enum:
    DONE
    FAILED
    STOPPED  # the limit is reached inside of a rows event
    UNKNOWN_TABLE
    UNKNOWN_ID
    COMPRESSED_ROWS
    PARTIAL_ROWS
    UNDECIDED  # a condition cannot be decided here

cdef int walk_frames(Walk* w, int64_t last) noexcept nogil
cdef int enter(Walk* w, int64_t frame, Reader* r) noexcept nogil
cdef void enter_group(Walk* w, int64_t group) noexcept nogil
cdef int open_transaction(Walk* w) noexcept nogil
cdef int read_head(Walk* w, int code, Reader* r, RowsHead* head) noexcept nogil
cdef void begin_rows(Walk* w) noexcept nogil
cdef int seek_selected(Walk* w, Reader* r) noexcept nogil
cdef int activate(Walk* w, Table* table) noexcept nogil
cdef void count_held(Walk* w, Table* table, int64_t size, int64_t count) noexcept nogil
