# The C view of buffers.py, for the compiled modules that cimport it.

from cpython.bytearray cimport PyByteArray_FromStringAndSize
from libc.string cimport memcmp, memcpy

from binlake.core.memory.cursor cimport Cursor

cdef class ByteBuffer:
    cdef bytearray raw
    cdef unsigned char[::1] view
    cdef public Py_ssize_t size
    cdef readonly Py_ssize_t capacity
    cdef Py_ssize_t first

    cpdef int reserve(self, Py_ssize_t extra) except -1
    cpdef int copy(self, Cursor cursor, Py_ssize_t count) except -1
    cpdef int put(self, bytes data) except -1
    cpdef object detach(self)

cdef class ByteKey:
    cdef readonly bytes data
    cdef readonly Py_ssize_t size
    cdef const unsigned char[::1] view

    cpdef bint at(self, Cursor cursor, Py_ssize_t pos) except -1
