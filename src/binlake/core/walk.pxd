# The C view of walk.py: the cimports of the compiled modules it uses, and its attributes.

from binlake.core.buffers cimport ByteKey
from binlake.core.cursor cimport Cursor
from binlake.core.frames cimport FrameBlock
from binlake.core.gtid cimport GtidFields
from binlake.core.rows_header cimport RowsHeader
from binlake.core.table_sink cimport EventFacts, TableSink
from binlake.core.transactions cimport TransactionSink

cdef class Table:
    cdef ByteKey definition
    cdef TableSink sink

cdef class Binding:
    cdef Py_ssize_t table_id
    cdef Py_ssize_t generation
    cdef Table table

cdef class RowWalker:
    cdef readonly Py_ssize_t held_bytes
    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t decoded_bytes
    cdef readonly Py_ssize_t passed_bytes
    cdef readonly Py_ssize_t limit_bytes
    cdef Py_ssize_t recount_bytes
    cdef Py_ssize_t uncounted_bytes

    cdef object resolve
    cdef object format
    cdef const unsigned char[::1] action_of
    cdef const unsigned char[::1] op_of
    cdef const unsigned char[::1] version_of
    cdef const unsigned char[::1] id_bytes_of
    cdef Py_ssize_t header_bytes
    cdef Py_ssize_t checksum_bytes

    cdef Cursor cursor
    cdef Cursor side
    cdef FrameBlock block
    cdef Py_ssize_t base
    cdef Py_ssize_t frame
    cdef bint full

    cdef dict caches
    cdef dict tables
    cdef list slots
    cdef dict bindings
    cdef Py_ssize_t generation
    cdef RowsHeader header

    cdef list active
    cdef TransactionSink transactions
    cdef EventFacts facts
    cdef bint in_payload
    cdef Py_ssize_t next_row

    cdef GtidFields gtid
    cdef int stage
    cdef Py_ssize_t txn_frame
    cdef Py_ssize_t query_frame
    cdef bytes given_gtid
    cdef Py_ssize_t given_commit_us
    cdef Py_ssize_t given_thread
    cdef Py_ssize_t given_start

    cdef Py_ssize_t _run(self, object data, Py_ssize_t base, FrameBlock block, Py_ssize_t first, Py_ssize_t last) except -1
    cdef int _loop(self, Py_ssize_t last) except -1
    cdef int _boundary(self, int action) except -1
    cdef int _table_map(self) except -1
    cdef Binding _bind(self, Py_ssize_t table_id, Py_ssize_t definition)
    cdef int _rows(self, int type_code) except -1
    cdef Binding _binding(self)
    cdef int _take(self, TableSink sink, int type_code) except -1
    cdef int _recount(self) except -1
    cdef int _open_transaction(self) except -1
    cdef int _enter(self, Cursor cursor, Py_ssize_t frame) except -1
