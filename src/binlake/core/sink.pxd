# The C view of sink.py: what every kernel inherits.

from binlake.core.buffers cimport ByteBuffer
from binlake.core.cursor cimport Cursor

cdef class Validity:
    cdef readonly Py_ssize_t null_count
    cdef Py_ssize_t capacity
    cdef bytearray raw
    cdef unsigned char[::1] bits

    cdef int clear(self, Py_ssize_t row) except -1
    cdef int reserve(self, Py_ssize_t rows) except -1

cdef class Sink:
    cdef readonly Py_ssize_t zero_dates
    cdef Validity validity

    cdef int append(self, Cursor c, Py_ssize_t row) except -1
    cdef int append_null(self, Py_ssize_t row) except -1
    cdef int reserve(self, Py_ssize_t rows) except -1
    cdef Py_ssize_t var_bytes(self) noexcept
    cdef Py_ssize_t row_bytes(self) noexcept
    cdef object take_offsets(self, Py_ssize_t count)
    cdef object take_data(self, Py_ssize_t count)

cdef class FixedSink(Sink):
    cdef Py_ssize_t item_bytes
    cdef bytearray raw

    cdef int bind(self) except -1

cdef class Sink8(FixedSink):
    cdef unsigned char[::1] values

cdef class Sink16(FixedSink):
    cdef unsigned short[::1] values

cdef class Sink32(FixedSink):
    cdef unsigned int[::1] values

cdef class Sink64(FixedSink):
    cdef unsigned long long[::1] values

cdef class Sink128(FixedSink):
    cdef unsigned long long[::1] values

cdef class VarSink(Sink):
    cdef ByteBuffer out
    cdef bytearray raw
    cdef unsigned int[::1] offsets
    cdef Py_ssize_t filled

    cdef int fill(self, Py_ssize_t row) except -1
    cdef int append_bytes(self, bytes value, Py_ssize_t row) except -1

cdef class SkipFixed(Sink):
    cdef Py_ssize_t width

cdef class SkipPrefixed(Sink):
    cdef int prefix

cdef class Undecodable(Sink):
    cdef str why
