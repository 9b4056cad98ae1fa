# Growing bytes in C memory, which Arrow takes over without a copy. The only place where the code
# without the interpreter's lock takes memory for values.

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from binlake.core.memory.failure cimport Failure
from binlake.core.memory.reader cimport unlikely

# `count` bytes at `at`, with room for `capacity`. A zeroed struct is empty. `first` is the smallest size of the first
# allocation: the size that the batch before needed.
cdef struct Bytes:
    uint8_t* at
    int64_t count
    int64_t capacity
    int64_t first

cdef class OwnedBytes:
    cdef uint8_t* at
    cdef Py_ssize_t count

cdef int grow(Bytes* out, int64_t extra, Failure* failure) noexcept nogil
cdef int resize(void** at, int64_t bytes, Failure* failure) noexcept nogil
cdef int clear_validity(uint8_t** validity, int64_t row, int64_t capacity, Failure* failure) noexcept nogil
cdef void release(Bytes* out) noexcept nogil
cdef object hand_over(void** at, int64_t bytes, int64_t capacity)
cdef object detach(Bytes* out)


cdef inline int room(Bytes* out, int64_t extra, Failure* failure) noexcept nogil:
    """Make room for `extra` more bytes."""
    if unlikely(extra > out.capacity - out.count):
        return grow(out, extra, failure)
    return 0


cdef inline int append(Bytes* out, const uint8_t* data, int64_t size, Failure* failure) noexcept nogil:
    """Append `size` bytes at `data`."""
    if room(out, size, failure):
        return -1
    if size > 0:
        memcpy(out.at + out.count, data, <size_t>size)
        out.count += size
    return 0


cdef inline void mark(Bytes* out, int character) noexcept nogil:
    """Append one character, for which there is room."""
    out.at[out.count] = <uint8_t>character
    out.count += 1
