# The state of rendering a binary JSON document, for the modules that render its values.
#
# Functions without a docstring of their own return 0, or -1 and describe the failure.

from libc.stdint cimport int64_t, uint8_t

from binlake.core.memory.failure cimport JSON_BEYOND, JSON_LENGTH, JSON_OVERLAP, Failure, Fault, fail
from binlake.core.memory.growing cimport Bytes
from binlake.core.memory.reader cimport unlikely

# A document at work: `left` of its bytes are not used up yet. Bytes up to `readable`, the end of
# the event, may be loaded though they belong to something else.
cdef struct Document:
    const uint8_t* start  # of the event body
    const uint8_t* readable
    int64_t left
    Bytes* out
    Failure* failure


cdef inline int refuse(Document* d, const uint8_t* at, Fault fault, int64_t what) noexcept nogil:
    return fail(d.failure, fault, at - d.start, what, 0)


cdef inline int use(
    Document* d, const uint8_t* at, const uint8_t* end, int64_t count
) noexcept nogil:
    """Check that `count` bytes are at `at`, before `end`, and use them up."""
    if unlikely(count > end - at):
        return refuse(d, at, JSON_BEYOND, 0)
    if unlikely(count > d.left):
        return refuse(d, at, JSON_OVERLAP, 0)
    d.left -= count
    return 0


cdef inline const uint8_t* read_length(
    Document* d, const uint8_t* at, const uint8_t* end, int64_t* size
) noexcept nogil:
    """Read a length (7 bits a byte, the high bit: more), use up its data; where these are."""
    cdef int i
    size[0] = 0
    for i in range(5):
        if use(d, at + i, end, 1):
            return NULL
        size[0] |= <int64_t>(at[i] & 0x7F) << (7 * i)
        if at[i] < 0x80:
            if use(d, at + i + 1, end, size[0]):
                return NULL
            return at + i + 1
    refuse(d, at, JSON_LENGTH, 0)
    return NULL
