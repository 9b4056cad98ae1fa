# The head of a rows event, without the interpreter's lock.

from libc.stdint cimport int64_t, uint8_t

from binlake.core.memory.cursor cimport Cursor
from binlake.core.memory.reader cimport Reader

# `present` are the bitmaps of present columns, `bitmap_bytes` each: of the first image, behind it
# of the second if there are two. `extra` are the `extra_bytes` of the extra header.
cdef struct RowsHead:
    int64_t table_id
    int flags
    const uint8_t* extra
    int64_t extra_bytes
    int64_t width
    int64_t bitmap_bytes
    const uint8_t* present

cdef int read_rows_head(Reader* r, int table_id_bytes, int version, int bitmaps, RowsHead* head) noexcept nogil

cdef class RowsHeader:
    cdef readonly Py_ssize_t table_id
    cdef readonly int flags
    cdef readonly Py_ssize_t extra_start
    cdef readonly Py_ssize_t extra_end
    cdef readonly Py_ssize_t width
    cdef readonly Py_ssize_t bitmap_bytes
    cdef readonly Py_ssize_t present
    cdef readonly Py_ssize_t present_after
    cdef readonly Py_ssize_t rows_start
