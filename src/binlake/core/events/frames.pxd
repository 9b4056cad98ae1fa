# FrameBlock for compiled modules that cimport it; frames.py is the implementation.

cimport cython

from binlake.core.events.format_constants cimport (
    FLAGS_AT,
    FORMAT_DESCRIPTION_EVENT,
    HEADER_BYTES,
    HEADER_BYTES_V1,
    LENGTH_AT,
    LOG_POS_AT,
    SERVER_ID_AT,
    TIMESTAMP_AT,
    TYPE_AT,
)


@cython.final
cdef class FrameBlock:
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t capacity
    cdef readonly long long[::1] offset
    cdef readonly unsigned char[::1] type_code
    cdef readonly unsigned int[::1] length
    cdef readonly unsigned int[::1] timestamp
    cdef readonly unsigned int[::1] server_id
    cdef readonly unsigned int[::1] log_pos
    cdef readonly unsigned short[::1] flags

    cdef _allocate(self, Py_ssize_t capacity)
    cdef _reserve(self)


cpdef tuple scan(
    const unsigned char[::1] data,
    long long base,
    Py_ssize_t pos,
    Py_ssize_t end,
    unsigned int header_length,
    FrameBlock block,
)
cpdef tuple scan_v1(
    const unsigned char[::1] data,
    long long base,
    Py_ssize_t pos,
    Py_ssize_t end,
    FrameBlock block,
)
cpdef read_frame(const unsigned char[::1] data, long long base, Py_ssize_t pos)
cpdef Py_ssize_t find_anchor(
    const unsigned char[::1] data,
    long long base,
    Py_ssize_t pos,
    Py_ssize_t end,
    unsigned int header_length,
) except -2
cpdef Py_ssize_t find_pair(
    const unsigned char[::1] data,
    Py_ssize_t pos,
    Py_ssize_t end,
    unsigned int header_length,
    const unsigned char[::1] known_types,
) except -2
cpdef Py_ssize_t first_unanchored(FrameBlock block, Py_ssize_t first, Py_ssize_t last) except -2

cdef (Py_ssize_t, int) _scan(
    const unsigned char[::1] data,
    long long base,
    Py_ssize_t pos,
    Py_ssize_t end,
    unsigned int minimum,
    FrameBlock block,
) nogil
cdef inline unsigned int _u32(const unsigned char[::1] data, Py_ssize_t at) noexcept nogil
