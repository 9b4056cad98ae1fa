# The C view of rows_header.py, for the compiled modules that cimport it.

from binlake.core.cursor cimport Cursor

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
    cdef public bint is_partial

    cpdef int parse(self, Cursor cursor, int table_id_bytes, int version, int bitmaps) except -1
