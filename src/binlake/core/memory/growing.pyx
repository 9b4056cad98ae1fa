"""Growing bytes in C memory, and the objects that own them when they are finished."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from binlake.core.memory.failure cimport COLUMN_FULL, NO_MEMORY, fail

cimport cython

cdef enum:
    _SMALLEST = 256

cdef int64_t _LIMIT = 0x7FFFFFFF  # Arrow's string layout counts with int32
cdef uint8_t _NOTHING = 0


cdef int grow(Bytes* out, int64_t extra, Failure* failure) noexcept nogil:
    """Make room for `extra` (not negative) more bytes.

    Fails beyond what one Arrow string column can hold.
    """
    cdef int64_t wanted
    if extra > _LIMIT - out.count:
        return fail(failure, COLUMN_FULL, -1, 0, 0)
    wanted = max(out.count + extra, 2 * out.capacity, out.first, <int64_t>_SMALLEST)
    wanted = min(wanted, _LIMIT)
    if resize(<void**>&out.at, wanted, failure):
        return -1
    out.capacity = wanted
    return 0


cdef int resize(void** at, int64_t bytes, Failure* failure) noexcept nogil:
    """Move what is at `at` to memory of so many bytes."""
    cdef void* moved = realloc(at[0], <size_t>max(bytes, <int64_t>1))
    if moved == NULL:
        return fail(failure, NO_MEMORY, -1, 0, 0)
    at[0] = moved
    return 0


cdef int clear_validity(
    uint8_t** validity, int64_t row, int64_t capacity, Failure* failure
) noexcept nogil:
    """`row` is the first that is null: take the bitmap of all rows."""
    if resize(<void**>validity, (capacity + 7) >> 3, failure):
        return -1
    memset(validity[0], 0xFF, <size_t>((capacity + 7) >> 3))
    validity[0][row >> 3] &= <uint8_t>~(1 << (row & 7))
    return 0


cdef void release(Bytes* out) noexcept nogil:
    """Give the memory back."""
    free(out.at)
    out.at = NULL
    out.count = out.capacity = 0


@cython.final
cdef class OwnedBytes:
    """Bytes of C memory, which are freed with this object; it has the buffer protocol."""

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.at if self.count else &_NOTHING, self.count, 0, flags)

    def __dealloc__(self):
        free(self.at)


cdef object hand_over(void** at, int64_t bytes, int64_t capacity):
    """A memoryview of the first `bytes` of `capacity` bytes, which it owns; `at` becomes NULL."""
    cdef OwnedBytes owner = OwnedBytes.__new__(OwnedBytes)
    cdef void* smaller
    owner.at = <uint8_t*>at[0]
    at[0] = NULL
    owner.count = bytes
    if capacity - bytes > bytes >> 2 and owner.at != NULL:
        smaller = realloc(owner.at, <size_t>max(bytes, <int64_t>1))
        if smaller != NULL:
            owner.at = <uint8_t*>smaller
    return memoryview(owner)


cdef object detach(Bytes* out):
    """Hand over the bytes, without a copy, and start again, empty.

    A batch is mostly as large as the one before, so the first byte of the next one takes that
    much room at once.
    """
    cdef int64_t count = out.count
    cdef int64_t capacity = out.capacity
    out.first = max(count + (count >> 4), <int64_t>_SMALLEST)
    out.count = out.capacity = 0
    return hand_over(<void**>&out.at, count, capacity)
