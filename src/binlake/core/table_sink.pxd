# The C view of table_sink.py, for the compiled modules that cimport it.

from binlake.core.cursor cimport Cursor
from binlake.core.image cimport ImageSink
from binlake.core.partial cimport PartialImages
from binlake.core.rows_header cimport RowsHeader
from binlake.core.sink cimport Sink8, Sink32, Sink64

cdef class EventFacts:
    cdef public Py_ssize_t pos
    cdef public Py_ssize_t end_pos
    cdef public Py_ssize_t row
    cdef public Py_ssize_t seq
    cdef public Py_ssize_t txn
    cdef public Py_ssize_t server_id

cdef class TableSink:
    cdef readonly ImageSink before
    cdef readonly ImageSink after
    cdef readonly Py_ssize_t rows
    cdef int operations
    cdef Py_ssize_t row_bytes
    cdef Py_ssize_t largest
    cdef Py_ssize_t capacity
    cdef Py_ssize_t first
    cdef long long[::1] counts
    cdef ImageSink passed
    cdef PartialImages partial
    cdef bint is_partial
    cdef Sink8 op
    cdef Sink64 pos
    cdef Sink64 end_pos
    cdef Sink64 seq
    cdef Sink32 row
    cdef Sink32 txn
    cdef Sink32 server_id

    cdef bint wants(self, int op) noexcept
    cdef int select(self, Cursor c, RowsHeader header, int op) except -1
    cdef int begin(self, Cursor c, RowsHeader header, int op) except -1
    cdef int change(self, Cursor c, int op) except -1
    cdef int precede(self, Cursor c) except -1
    cdef int change_partially(self, Cursor c) except -1
    cdef Py_ssize_t add(self, Cursor c, int op, EventFacts facts) except -1
    cdef Py_ssize_t pass_over(self, Cursor head, RowsHeader header, Cursor c, int op) except -1
    cdef int grow(self) except -1
    cdef Py_ssize_t held(self) noexcept

cdef class BothImages(TableSink):
    pass

cdef class StoredImages(BothImages):
    pass

cdef class CurrentRow(TableSink):
    pass
