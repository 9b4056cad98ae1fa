# cython: boundscheck=False
"""Values of columns as text: one function for each form, over the buffers of a column.

The caller has checked that the column has a value at this place. Where its offsets point is checked
here.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy

from binlake.core.values.civil cimport days_of
from binlake.core.text.text_output cimport (
    NO_MEMORY,
    OK,
    hex_digit,
    put,
    put_byte,
    put_digits,
    put_hex,
    put_json_text,
    reserve,
    short_escape,
)


cdef int put_integer(Output* out, const Column* column, int64_t place) noexcept nogil:
    cdef const uint8_t* at = column.data + place * column.width
    cdef uint64_t value
    cdef int64_t number
    cdef bint negative = False
    cdef int8_t i8
    cdef int16_t i16
    cdef int32_t i32
    cdef uint16_t u16
    cdef uint32_t u32
    if column.width == 8:
        memcpy(&value, at, 8)
        number = <int64_t>value
    elif column.width == 4:
        memcpy(&u32, at, 4)
        value = u32
        memcpy(&i32, at, 4)
        number = i32
    elif column.width == 2:
        memcpy(&u16, at, 2)
        value = u16
        memcpy(&i16, at, 2)
        number = i16
    else:
        value = at[0]
        i8 = <int8_t>at[0]
        number = i8
    if column.is_signed:
        negative = number < 0
        value = <uint64_t>0 - <uint64_t>number if negative else <uint64_t>number
    return put_digits(out, value, negative)


cdef int put_both_signs(Output* out, const Column* column, int64_t place) noexcept nogil:
    cdef uint64_t value = 0
    cdef int64_t number
    cdef int unused = 64 - 8 * column.width
    memcpy(&value, column.data + place * column.width, column.width)
    number = <int64_t>(value << unused) >> unused
    if number >= 0:
        return put_digits(out, <uint64_t>number, False)
    if put_digits(out, <uint64_t>0 - <uint64_t>number, True) or put(out, " (", 2):
        return NO_MEMORY
    value = <uint64_t>number
    if column.bits < 64:
        value &= (<uint64_t>1 << column.bits) - 1
    if put_digits(out, value, False):
        return NO_MEMORY
    return put(out, ")", 1)


cdef int put_bits(Output* out, const Column* column, int64_t place) noexcept nogil:
    cdef uint64_t value = 0
    cdef int bit, first
    memcpy(&value, column.data + place * column.width, column.width)
    if reserve(out, column.bits):
        return NO_MEMORY
    for bit in range(column.bits):
        first = column.bits - 1 - bit if column.form == BITS else (bit & ~7) + 7 - (bit & 7)
        put_byte(out, c"1" if value >> first & 1 else c"0")
    return OK


cdef int put_real(Output* out, const Column* column, int64_t place) noexcept nogil:
    cdef float single
    cdef double value
    cdef char[64] text
    cdef int size
    if column.width == 4:
        memcpy(&single, column.data + place * 4, 4)
        size = snprintf(text, 64, "%-20g", <double>single)
    else:
        memcpy(&value, column.data + place * 8, 8)
        size = snprintf(text, 64, "%-.20g", value)
    return put(out, text, size)


cdef int put_unix_time(Output* out, const uint8_t* text, int64_t size) noexcept nogil:
    """`2026-11-21 07:09:00.12` as seconds and `.12`; of a zero date 0."""
    cdef int64_t number[6]
    cdef int64_t seconds = 0
    cdef int part, i
    cdef int64_t at = 0
    if size < 19:
        return BAD_OFFSET
    for part in range(6):
        number[part] = 0
        for i in range(4 if part == 0 else 2):
            number[part] = number[part] * 10 + text[at] - 48
            at += 1
        at += 1
    if number[0]:
        seconds = days_of(number[0], number[1], number[2]) * 86400
        seconds += number[3] * 3600 + number[4] * 60 + number[5]
    if put_digits(out, <uint64_t>seconds, False):
        return NO_MEMORY
    return put(out, <const char*>text + 19, size - 19)


cdef int put_tool_text(Output* out, const uint8_t* data, int64_t size, bint letters) noexcept nogil:
    cdef int64_t i
    cdef uint8_t byte
    cdef char* to
    if reserve(out, 4 * size):
        return NO_MEMORY
    to = out.data + out.used
    for i in range(size):
        byte = data[i]
        if byte >= 32 and byte != 39 and byte != 92:
            to[0] = <char>byte
            to += 1
            continue
        to[0] = c"\\"
        if byte >= 32:
            to[1] = <char>byte
            to += 2
        elif letters and short_escape(byte):
            to[1] = short_escape(byte)
            to += 2
        else:
            to[1] = c"x"
            to[2] = <char>hex_digit(byte >> 4)
            to[3] = <char>hex_digit(byte & 15)
            to += 4
    out.used = to - out.data
    return OK


cdef int put_fixed(Output* out, const Column* column, int64_t place) noexcept nogil:
    if column.form == INTEGER:
        return put_integer(out, column, place)
    if column.form == BOTH_SIGNS:
        return put_both_signs(out, column, place)
    if column.form == REAL:
        return put_real(out, column, place)
    return put_bits(out, column, place)


cdef int put_value(Output* out, const Column* column, int64_t place) noexcept nogil:
    """A value that is not null; `place` counts in the buffers."""
    cdef int64_t start, end
    cdef int32_t start32, end32
    if column.width:
        return put_fixed(out, column, place)
    if column.offset_bytes == 8:
        memcpy(&start, column.offsets + place * 8, 8)
        memcpy(&end, column.offsets + place * 8 + 8, 8)
    else:
        memcpy(&start32, column.offsets + place * 4, 4)
        memcpy(&end32, column.offsets + place * 4 + 4, 4)
        start = start32
        end = end32
    if start < 0 or end < start or end > column.data_bytes:
        return BAD_OFFSET
    if column.form == RAW:
        return put(out, <const char*>column.data + start, end - start)
    if column.form == MYSQL_TEXT or column.form == MARIADB_TEXT:
        return put_tool_text(out, column.data + start, end - start, column.form == MYSQL_TEXT)
    if column.form == UNIX_TIME:
        return put_unix_time(out, column.data + start, end - start)
    if column.form == JSON_TEXT:
        return put_json_text(out, column.data + start, end - start)
    return put_hex(out, column.data + start, end - start)
