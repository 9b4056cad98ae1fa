# Partial updates of JSON documents: applied to row images, or skipped.

from binlake.core.memory.reader cimport Reader
from binlake.core.rows.rows_header cimport RowsHead
from binlake.core.rows.table_sink cimport TableSink
from libc.stdint cimport uint8_t

cdef int change_partially(TableSink sink, Reader* r, const RowsHead* head, object data, const uint8_t* base) except -1
cdef int pass_partially(TableSink sink, Reader* r, const RowsHead* head) except -1
