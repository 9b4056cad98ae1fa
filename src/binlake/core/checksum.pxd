# zlib's crc32 by address: Python's own zlib.crc32 costs 60 ns a call more, and needs the GIL.

cdef extern from "zlib.h" nogil:
    unsigned long zlib_crc32 "crc32"(unsigned long crc, const unsigned char *data, unsigned int size)

cimport cython
from binlake.core.frames cimport FrameBlock

cpdef Py_ssize_t first_bad(
    const unsigned char[::1] data,
    long long base,
    FrameBlock block,
    Py_ssize_t first,
    Py_ssize_t last,
) except -2
cpdef unsigned int event_crc32(const unsigned char[::1] data) except? 0xFFFFFFFF
cpdef unsigned int stored_crc32(const unsigned char[::1] data) except? 0xFFFFFFFF

cdef unsigned int _stored(const unsigned char[::1] data, Py_ssize_t end) except? 0xFFFFFFFF nogil
cdef unsigned int _event_crc(
    const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end
) except? 0xFFFFFFFF nogil
cdef unsigned int _crc_of_byte(unsigned int crc, unsigned int byte) noexcept nogil
cdef unsigned int _crc(
    unsigned int crc, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end
) except? 0xFFFFFFFF nogil
