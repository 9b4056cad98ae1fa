# DECIMAL without the interpreter's lock: wire bytes to groups of digits, to 128 bits, to text.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from binlake.core.memory.failure cimport NOT_DIGITS, Failure, fail
from binlake.core.memory.growing cimport Bytes, mark, room
from binlake.core.memory.reader cimport Reader, load_head, take, unlikely

cdef enum:
    MAX_GROUPS = 20  # 81 digits before and after the point make fewer
    DECIMAL_ROOM = 96  # "-0." and 81 digits

# The groups of DECIMAL(precision, scale): `digits[i]` decimal digits of group i are in `widths[i]`
# bytes, and their value is below `bounds[i]`; `whole` groups stand before the point. `shifts[i]` is
# how many bits follow the group, and `masks[i]` are its own.
cdef struct DecimalShape:
    int count
    int whole
    int width
    uint8_t digits[MAX_GROUPS]
    uint8_t widths[MAX_GROUPS]
    uint32_t bounds[MAX_GROUPS]
    uint16_t shifts[MAX_GROUPS]
    uint32_t masks[MAX_GROUPS]

# The values of the groups. `low` is the whole number without point and sign, if it has at most 18
# digits.
cdef struct Decimal:
    bint negative
    uint64_t low
    uint32_t groups[MAX_GROUPS]

cdef int shape_decimal(DecimalShape* shape, int precision, int scale) noexcept nogil
cdef void widen_decimal(const DecimalShape* shape, const Decimal* number, uint64_t* out) noexcept nogil
cdef int write_decimal(const DecimalShape* shape, const Decimal* number, Bytes* out, Failure* failure) noexcept nogil


cdef inline uint32_t _load_group(const uint8_t* at, int width) noexcept nogil:
    """1 to 4 bytes that are there, big-endian."""
    if width == 4:
        return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]
    if width == 3:
        return <uint32_t>at[0] << 16 | <uint32_t>at[1] << 8 | at[2]
    if width == 2:
        return <uint32_t>at[0] << 8 | at[1]
    return at[0]


cdef inline int read_decimal(const DecimalShape* shape, Reader* r, Decimal* number) noexcept nogil:
    """Read one number; digits that cannot be are a failure."""
    cdef const uint8_t* at = take(r, shape.width)
    cdef uint32_t value, inverted, flip
    cdef int i, width
    if unlikely(at == NULL):
        return -1
    number.negative = shape.width > 0 and at[0] < 0x80
    number.low = 0
    for i in range(shape.count):
        width = shape.widths[i]
        value = _load_group(at, width)
        inverted = <uint32_t>0xFFFFFFFF >> (32 - 8 * width) if number.negative else 0
        flip = <uint32_t>0x80 << (8 * width - 8) if i == 0 else 0
        value ^= inverted ^ flip
        if unlikely(value >= shape.bounds[i]):
            r.pos -= shape.width
            return fail(r.failure, NOT_DIGITS, r.pos - r.start, value, shape.digits[i])
        number.groups[i] = value
        number.low = number.low * shape.bounds[i] + value
        at += width
    return 0


cdef inline int read_small_decimal(const DecimalShape* shape, Reader* r, int64_t* number) noexcept nogil:
    """Read one number of at most 18 digits in 1 to 8 bytes, without its point."""
    cdef const uint8_t* at = take(r, shape.width)
    cdef uint64_t raw, group
    cdef uint64_t whole = 0
    cdef bint negative
    cdef int i
    if unlikely(at == NULL):
        return -1
    raw = load_head(r, at, shape.width)
    negative = at[0] < 0x80
    if negative:
        raw = ~raw
    raw ^= <uint64_t>0x80 << (8 * shape.width - 8)
    for i in range(shape.count):
        group = raw >> shape.shifts[i] & shape.masks[i]
        if unlikely(group >= shape.bounds[i]):
            r.pos = at
            return fail(r.failure, NOT_DIGITS, at - r.start, <int64_t>group, shape.digits[i])
        whole = whole * shape.bounds[i] + group
    number[0] = -<int64_t>whole if negative else <int64_t>whole
    return 0
