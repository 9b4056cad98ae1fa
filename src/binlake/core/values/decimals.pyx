"""DECIMAL: to decimal128, or to the server's text.

Wire, big-endian: the digits before and after the point in groups of 9, each in 4 bytes; a
shorter first group before the point, and a shorter last one after it, take 1 to 4 bytes. The
first bit is flipped; in a negative number all bits are inverted besides.
Source: strings/decimal.cc (decimal2bin, bin2decimal).
"""

cdef enum:
    _MAX_DIGITS = 81  # 9 groups. A column has at most 65, but JSON counts leading zeros too

cdef int* _GROUP_BYTES = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4]  # of a group of 0 to 9 digits


cdef int shape_decimal(DecimalShape* shape, int precision, int scale) noexcept nogil:
    """Make the shape of DECIMAL(precision, scale); -1 if there is no such type."""
    cdef int shift, i
    if not (0 <= scale <= precision <= _MAX_DIGITS):
        return -1
    shape.count = shape.width = 0
    if (precision - scale) % 9:
        _add_group(shape, (precision - scale) % 9)
    _add_groups(shape, (precision - scale) // 9)
    shape.whole = shape.count
    _add_groups(shape, scale // 9)
    if scale % 9:
        _add_group(shape, scale % 9)
    shift = 8 * shape.width
    for i in range(shape.count):
        shift -= 8 * shape.widths[i]
        shape.shifts[i] = <uint16_t>shift
        shape.masks[i] = <uint32_t>0xFFFFFFFF >> (32 - 8 * shape.widths[i])
    return 0


cdef void _add_groups(DecimalShape* shape, int count) noexcept nogil:
    cdef int _i
    for _i in range(count):
        _add_group(shape, 9)


cdef void _add_group(DecimalShape* shape, int digits) noexcept nogil:
    cdef uint32_t bound = 1
    cdef int _i
    for _i in range(digits):
        bound *= 10
    shape.digits[shape.count] = <uint8_t>digits
    shape.widths[shape.count] = <uint8_t>_GROUP_BYTES[digits]
    shape.bounds[shape.count] = bound
    shape.width += _GROUP_BYTES[digits]
    shape.count += 1


cdef void widen_decimal(
    const DecimalShape* shape, const Decimal* number, uint64_t* out
) noexcept nogil:
    """The unscaled number of at most 38 digits, in two's complement: `out[0]` is the low half."""
    cdef uint64_t low = 0, high = 0, carry, part, bound
    cdef int i
    for i in range(shape.count):
        # (high, low) * bound + group, in 32-bit steps so that nothing overflows
        bound = shape.bounds[i]
        carry = (low & <uint32_t>0xFFFFFFFF) * bound + number.groups[i]
        part = (low >> 32) * bound + (carry >> 32)
        low = part << 32 | (carry & <uint32_t>0xFFFFFFFF)
        high = high * bound + (part >> 32)
    if number.negative and (low | high) != 0:
        low = ~low + 1
        high = ~high
        if low == 0:
            high += 1
    out[0] = low
    out[1] = high


cdef int write_decimal(
    const DecimalShape* shape, const Decimal* number, Bytes* out, Failure* failure
) noexcept nogil:
    """Append the number as the server writes it: all digits of the scale, no more zeros."""
    cdef int64_t start
    cdef int i
    if room(out, DECIMAL_ROOM, failure):
        return -1
    if number.negative:
        mark(out, c"-")
    start = out.count
    for i in range(shape.whole):
        _write_group(out, number.groups[i], 0 if out.count == start else shape.digits[i])
    if out.count == start:
        mark(out, c"0")
    if shape.whole < shape.count:
        mark(out, c".")
        for i in range(shape.whole, shape.count):
            _write_group(out, number.groups[i], shape.digits[i])
    return 0


cdef void _write_group(Bytes* out, uint32_t value, int width) noexcept nogil:
    """Write a group in `width` digits; 0: in as many as it has, none for zero."""
    cdef uint64_t bound = 1
    cdef uint8_t* at
    cdef int _i
    if width == 0:
        while bound <= value:
            bound *= 10
            width += 1
    out.count += width
    at = out.at + out.count
    for _i in range(width):
        at -= 1
        at[0] = <uint8_t>(c"0" + value % 10)
        value //= 10
