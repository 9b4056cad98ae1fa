# The C view of cursor.py, for the compiled modules that cimport it.
#
# Py_ssize_t stands for "signed 64 bits": only 64-bit platforms are supported.

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcpy

cdef class Cursor:
    cdef readonly object view
    cdef const unsigned char[::1] data
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t pos
    cdef readonly Py_ssize_t end

    cpdef int enter(self, Py_ssize_t start, Py_ssize_t end) except -1
    cpdef int bound(self, Py_ssize_t pos, Py_ssize_t end) except -1
    cpdef int need(self, Py_ssize_t count) except -1
    cpdef int skip(self, Py_ssize_t count) except -1
    cpdef Py_ssize_t left(self) noexcept
    cpdef int u8(self) except -1
    cpdef int u16(self) except -1
    cpdef int u24(self) except -1
    cpdef Py_ssize_t u32(self) except -1
    cpdef unsigned long long u64(self) except? 0xEEEEEEEEEEEEEEEE
    cpdef unsigned long long le_uint(self, int width) except? 0xEEEEEEEEEEEEEEEE
    cpdef unsigned long long lenenc(self) except? 0xEEEEEEEEEEEEEEEE
    cpdef Py_ssize_t length(self) except -1
    cpdef bytes take(self, Py_ssize_t count)
