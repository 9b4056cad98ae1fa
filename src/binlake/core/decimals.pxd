# The C view of decimals.py, for the compiled modules that cimport it.

from libc.string cimport memcpy

from binlake.core.buffers cimport ByteBuffer
from binlake.core.cursor cimport Cursor
from binlake.core.sink cimport Sink128, VarSink

cdef class DecimalReader:
    cdef int count
    cdef int whole  # groups before the point
    cdef readonly Py_ssize_t width
    cdef bint negative
    cdef unsigned long long low
    cdef unsigned char[::1] digits
    cdef unsigned char[::1] widths
    cdef unsigned int[::1] bounds
    cdef unsigned int[::1] groups

    cdef int read(self, Cursor c) except -1
    cdef int write(self, ByteBuffer out) except -1
    cdef Py_ssize_t _group(self, ByteBuffer out, int i, Py_ssize_t at, bint leading) except -1
