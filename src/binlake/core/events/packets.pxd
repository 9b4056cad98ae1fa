# packets.py is the implementation; memcpy copies whole events without the interpreter.

from libc.string cimport memcpy

cimport cython

from binlake.core.events.format_constants cimport (
    FLAGS_AT,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_EVENT_ARTIFICIAL_F,
    LOG_POS_AT,
    TYPE_AT,
)

cpdef tuple copy_events(
    const unsigned char[::1] data,
    Py_ssize_t pos,
    Py_ssize_t end,
    unsigned char[::1] out,
    Py_ssize_t out_pos,
    long long offset,
    Py_ssize_t wrapped,
    const unsigned char[::1] plain,
)
cdef (Py_ssize_t, Py_ssize_t, int) _copy(
    const unsigned char[::1] data,
    Py_ssize_t pos,
    Py_ssize_t end,
    unsigned char[::1] out,
    Py_ssize_t out_pos,
    Py_ssize_t room,
    long long offset,
    Py_ssize_t wrapped,
    const unsigned char[::1] plain,
) nogil
cdef int _copy_bytes(
    unsigned char[::1] out,
    Py_ssize_t out_pos,
    const unsigned char[::1] data,
    Py_ssize_t at,
    Py_ssize_t length,
) except -1 nogil
cdef unsigned int _u32(const unsigned char[::1] data, Py_ssize_t at) except? 0xFFFFFFFF nogil
