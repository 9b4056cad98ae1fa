# The checked reader of the code that runs without the interpreter's lock: the only place where it
# reads event bytes. Every read is checked against the end of its event.
#
# A read that does not fit describes the failure, leaves the position where it was, and returns
# NULL or -1.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from binlake.core.memory.failure cimport CUT_OFF, NOT_A_LENGTH, Failure, fail

cdef extern from *:
    bint unlikely(bint) noexcept nogil
    bint likely(bint) noexcept nogil

# A position in the body of an event. Offsets in failures count from `start`.
cdef struct Reader:
    const uint8_t* start
    const uint8_t* pos
    const uint8_t* end
    Failure* failure


cdef inline int64_t left(Reader* r) noexcept nogil:
    """How many bytes are left."""
    return r.end - r.pos


cdef inline const uint8_t* take(Reader* r, int64_t count) noexcept nogil:
    """The next `count` bytes, which are stepped over; NULL if there are not as many."""
    cdef const uint8_t* at = r.pos
    if unlikely(count > r.end - at):
        fail(r.failure, CUT_OFF, at - r.start, count, r.end - at)
        return NULL
    r.pos = at + count
    return at


cdef inline bint lacks(Reader* r, const uint8_t* pos, int64_t count) noexcept nogil:
    """Whether there are not `count` bytes at `pos`, a position of the reader. For loops that keep the
    position themselves; those that go on may load the bytes.
    """
    if likely(count <= r.end - pos):
        return False
    r.pos = pos
    return take(r, count) == NULL


cdef inline uint64_t load(const uint8_t* at, int count) noexcept nogil:
    """`count` bytes (0 to 8) that are there, little-endian."""
    cdef uint64_t value = 0
    cdef int i
    for i in range(count):
        value |= <uint64_t>at[i] << (8 * i)
    return value


cdef inline uint64_t load_big(const uint8_t* at, int count) noexcept nogil:
    """`count` bytes (0 to 8) that are there, big-endian."""
    cdef uint64_t value = 0
    cdef int i
    for i in range(count):
        value = value << 8 | at[i]
    return value


cdef inline uint16_t load16(const uint8_t* at) noexcept nogil:
    """Two bytes that are there, little-endian."""
    return <uint16_t>(at[0] | <uint16_t>at[1] << 8)


cdef inline uint32_t load32(const uint8_t* at) noexcept nogil:
    """Four bytes that are there, little-endian."""
    return at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 24


cdef inline uint64_t load64(const uint8_t* at) noexcept nogil:
    """Eight bytes that are there, little-endian."""
    return <uint64_t>load32(at) | <uint64_t>load32(at + 4) << 32


cdef inline uint64_t load_head(Reader* r, const uint8_t* at, int count) noexcept nogil:
    """`count` bytes (1 to 8) of `take`, big-endian: with one load where eight bytes are there."""
    cdef uint64_t value
    if likely(r.end - at >= 8):
        value = load64(at)
        value = (
            value << 56
            | (value >> 8 & 0xFF) << 48
            | (value >> 16 & 0xFF) << 40
            | (value >> 24 & 0xFF) << 32
            | (value >> 32 & 0xFF) << 24
            | (value >> 40 & 0xFF) << 16
            | (value >> 48 & 0xFF) << 8
            | value >> 56
        )
        return value >> (64 - 8 * count)
    return load_big(at, count)


cdef inline int64_t read_prefix(Reader* r, int bytes) noexcept nogil:
    """A length of 1 to 4 bytes, little-endian, not checked against what is left; -1: cut off."""
    cdef const uint8_t* at = take(r, bytes)
    if unlikely(at == NULL):
        return -1
    if bytes == 1:
        return at[0]
    if bytes == 2:
        return load16(at)
    return <int64_t>load(at, bytes)


cdef inline int read_lenenc(Reader* r, uint64_t* value) noexcept nogil:
    """A length-encoded integer (0-250 direct, 0xFC 2, 0xFD 3, 0xFE 8 bytes)."""
    cdef const uint8_t* at = take(r, 1)
    cdef int width
    if at == NULL:
        return -1
    if at[0] < 0xFB:
        value[0] = at[0]
        return 0
    if at[0] == 0xFC:
        width = 2
    elif at[0] == 0xFD:
        width = 3
    elif at[0] == 0xFE:
        width = 8
    else:
        r.pos = at
        return fail(r.failure, NOT_A_LENGTH, at - r.start, at[0], 0)
    r.pos = at
    if take(r, 1 + width) == NULL:
        return -1
    value[0] = load(at + 1, width)
    return 0
