# The C view of walk.pyx.

from libc.stdint cimport int64_t, uint8_t

from binlake.core.events.frames cimport FrameBlock
from binlake.core.events.plain_groups cimport PlainGroups
from binlake.core.memory.reader cimport Reader
from binlake.core.rows.row_selection cimport FoundSink, RowSelection
from binlake.core.rows.rows_header cimport RowsHead
from binlake.core.rows.table_sink cimport Table, TableSink
from binlake.core.rows.transactions cimport TransactionSink
from binlake.core.rows.walk_loop cimport Binding, SLOTS, Walk

cdef class DefinedTable:
    cdef bytes definition
    cdef TableSink sink

cdef class TableId:
    cdef Binding binding
    cdef DefinedTable table

cdef class RowWalker:
    cdef Walk walk
    cdef object resolve
    cdef object format
    cdef bytes id_bytes_of
    cdef FrameBlock block
    cdef PlainGroups groups
    cdef RowSelection selection
    cdef FoundSink found
    cdef bint is_undecided
    cdef const uint8_t[::1] view
    cdef object data
    cdef bytes inflated
    cdef dict caches
    cdef dict tables
    cdef dict bindings
    cdef int64_t known_columns
    cdef TableId unbound
    cdef list active
    cdef TransactionSink transactions
    cdef bytes given_gtid

    cdef int _take_groups(self, PlainGroups groups, int64_t group) except -1
    cdef int _attend(self, int reason) except -1
    cdef int _bind(self) except -1
    cdef DefinedTable _know(self, bytes definition, body)
    cdef int _look_up(self) except -1
    cdef int _inflate(self) except -1
