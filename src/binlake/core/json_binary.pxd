# The C view of json_binary.py, for the JSON kernel. (`except -1` is said here and not by a
# decorator there: else Cython asks PyErr_Occurred after every call.)

from libc.string cimport memcpy

from binlake.core.buffers cimport ByteBuffer
from binlake.core.cursor cimport Cursor
from binlake.core.decimals cimport DecimalReader
from binlake.core.number_text cimport write_double, write_number
from binlake.core.temporal_text cimport write_date, write_time

cdef class JsonRenderer:
    cdef Cursor c
    cdef ByteBuffer out
    cdef Py_ssize_t left  # bytes of the document that no value has used up yet
    cdef Py_ssize_t at  # where the data begins whose length was read last

    cdef int render(self, Cursor c, Py_ssize_t size, ByteBuffer out) except -1
    cdef int _refuse_use(self, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t count) except -1
    cdef Py_ssize_t _uint(self, Py_ssize_t pos, Py_ssize_t end, int width) except -1
    cdef int _value(self, int kind, Py_ssize_t pos, Py_ssize_t end, int depth) except -1
    cdef int _container(self, int kind, Py_ssize_t start, Py_ssize_t end, int depth) except -1
    cdef int _scalar(self, int kind, Py_ssize_t pos) except -1
    cdef unsigned long long _bits(self, Py_ssize_t pos, int width) noexcept
    cdef Py_ssize_t _length(self, Py_ssize_t pos, Py_ssize_t end) except -1
    cdef int _long_string(self, Py_ssize_t pos, Py_ssize_t size) except -1
    cdef int _escape(self, int byte) except -1
    cdef int _character(self, Py_ssize_t pos, Py_ssize_t end) except -1
    cdef int _double(self, Py_ssize_t pos) except -1
    cdef int _opaque(self, int sql_type, Py_ssize_t pos, Py_ssize_t end) except -1
    cdef int _decimal(self, Py_ssize_t size) except -1
    cdef int _temporal(self, int sql_type) except -1
