# The C view of image.py, for the compiled modules that cimport it.

from binlake.core.buffers cimport ByteKey
from binlake.core.cursor cimport Cursor
from binlake.core.sink cimport Sink, Validity

cdef class Step:
    cdef Sink sink
    cdef Step after

cdef class Columns:
    cdef Step steps
    cdef list indexes
    cdef Py_ssize_t count
    cdef Py_ssize_t null_bytes

cdef class Layout:
    cdef ByteKey key
    cdef Columns image
    cdef Columns carried
    cdef readonly bytes present
    cdef list absent

cdef class ImageSink:
    cdef readonly Py_ssize_t width
    cdef readonly Py_ssize_t rows
    cdef Py_ssize_t capacity
    cdef Py_ssize_t first
    cdef Validity validity
    cdef tuple plans
    cdef tuple wanted
    cdef list sinks
    cdef list variable
    cdef Py_ssize_t row_bytes
    cdef Py_ssize_t largest
    cdef Layout layout
    cdef dict layouts
    cdef dict presences
    cdef list runs
    cdef bytes run
    cdef Py_ssize_t run_start

    cdef int select(self, Cursor c, Py_ssize_t bitmap, Py_ssize_t width) except -1
    cdef int select_over(self, Cursor c, Py_ssize_t bitmaps, Py_ssize_t width, ImageSink passed) except -1
    cdef int choose(self, Cursor c, Py_ssize_t bitmaps, Py_ssize_t width, ImageSink passed) except -1
    cdef Layout lay_out(self, bytes raw, ImageSink passed)
    cdef bint carries(self) noexcept
    cdef int carry(self, Cursor c) except -1
    cdef int append(self, Cursor c) except -1
    cdef Py_ssize_t next_row(self) except -1
    cdef int append_missing(self) except -1
    cdef Py_ssize_t held(self) noexcept
    cdef int grow(self) except -1
