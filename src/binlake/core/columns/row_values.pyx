"""The values of a row: from the wire bytes of an image to the memory of its columns.

One loop goes over the columns of an image. The kinds that most tables consist of are decoded in it:
a call for each value would cost as much as the value itself.

All functions without a docstring of their own return 0, or -1 and describe the failure.
"""

from libc.stdint cimport INT64_MIN, int16_t, int32_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from binlake.core.values.decimals cimport (
    Decimal,
    read_decimal,
    read_small_decimal,
    widen_decimal,
    write_decimal,
)
from binlake.core.memory.failure cimport NOT_A_CHARACTER, UNDECODABLE, fail
from binlake.core.memory.growing cimport Bytes, mark, room
from binlake.core.values.json_binary cimport render_json
from binlake.core.memory.reader cimport (
    lacks,
    likely,
    load,
    load16,
    load32,
    load64,
    load_big,
    read_prefix,
    take,
    unlikely,
)
from binlake.core.columns.column cimport (
    ALWAYS_NULL,
    BIG_TO_64,
    BIG_TO_128,
    BYTES,
    CANNOT,
    COPY_8,
    COPY_16,
    COPY_32,
    COPY_64,
    DATE_TO_DAYS,
    DATE_TO_TEXT,
    DATETIME2_TO_TEXT,
    DATETIME2_TO_US,
    DATETIME_OLD_TO_TEXT,
    DATETIME_OLD_TO_US,
    DECIMAL_TO_128,
    DECIMAL_TO_TEXT,
    JSON_TO_TEXT,
    LATIN_TO_TEXT,
    LITTLE_TO_128,
    SIGNED_24_TO_32,
    SKIP_FIXED,
    SKIP_PREFIXED,
    SMALL_DECIMAL_TO_128,
    TIME2_TO_TEXT,
    TIME2_TO_US,
    TIME_OLD_TO_TEXT,
    TIMESTAMP2_TO_TEXT,
    TIMESTAMP2_TO_US,
    TIMESTAMP_OLD_TO_TEXT,
    TIMESTAMP_OLD_TO_US,
    UNSIGNED_8_TO_16,
    UNSIGNED_16_TO_32,
    UNSIGNED_24_TO_32,
    UNSIGNED_TO_64,
    Kind,
    put_null,
    put_us,
)
from binlake.core.values.temporal cimport days, time_of_day, time_us
from binlake.core.values.temporal_text cimport (
    TEMPORAL_ROOM,
    pack_timestamp,
    write_date,
    write_time,
)
from binlake.core.values.temporal_wire cimport (
    read_date,
    read_datetime2,
    read_datetime_old,
    read_time2,
    read_time_old,
    read_timestamp2,
    read_timestamp_old,
)

cdef enum:
    _AT_ONCE = 64  # bytes of a value that are copied without asking how many they are


cdef int put_value(Column* column, Reader* r, int64_t row, int64_t capacity) noexcept nogil:
    """Decode the value at the reader as the value of `row`."""
    cdef uint8_t nulls = 0
    return put_values(&column, 1, &nulls, r, row, capacity)


cdef int put_values(
    Column** columns, int64_t count, const uint8_t* nulls, Reader* r, int64_t row, int64_t capacity
) noexcept nogil:
    """Decode the values at the reader as those of `row`; `nulls` has one bit for each column.

    `pos` is the reader's position meanwhile: the compiler must assume that a stored value changes
    what a pointer leads to.
    """
    cdef const uint8_t* pos = r.pos
    cdef int64_t null_bytes = (count + 7) >> 3
    cdef uint64_t bits = 0
    cdef Column* column
    cdef Kind kind
    cdef int64_t i
    cdef int64_t size = 0
    for i in range(count):
        column = columns[i]
        if not i & 63:  # the bits of the next 64 columns
            bits = load(nulls + (i >> 3), <int>min(null_bytes - (i >> 3), <int64_t>8))
        kind = column.kind
        if bits & 1:
            if unlikely(put_null(column, row, capacity, r.failure)):
                return -1
        elif kind == COPY_32:
            if unlikely(lacks(r, pos, 4)):
                return -1
            (<uint32_t*>column.values)[row] = load32(pos)
            pos += 4
        elif kind == BYTES:
            r.pos = pos
            size = read_prefix(r, column.width)
            pos = r.pos
            if unlikely(size < 0 or lacks(r, pos, size) or _put_bytes(column, r, pos, size, row)):
                return -1
            pos += size
        elif kind == COPY_64:
            if unlikely(lacks(r, pos, 8)):
                return -1
            (<uint64_t*>column.values)[row] = load64(pos)
            pos += 8
        elif kind == COPY_8:
            if unlikely(lacks(r, pos, 1)):
                return -1
            column.values[row] = pos[0]
            pos += 1
        elif kind == COPY_16:
            if unlikely(lacks(r, pos, 2)):
                return -1
            (<uint16_t*>column.values)[row] = load16(pos)
            pos += 2
        elif kind == UNSIGNED_TO_64:
            size = column.width
            if unlikely(lacks(r, pos, size)):
                return -1
            (<uint64_t*>column.values)[row] = (
                load32(pos) if size == 4 else pos[0] if size == 1 else load(pos, <int>size)
            )
            pos += size
        elif kind == DATETIME2_TO_US:
            r.pos = pos
            if unlikely(
                read_datetime2(r, column.fsp, &size)
                or put_us(column, size, row, capacity, r.failure)
            ):
                return -1
            pos = r.pos
        elif kind == SMALL_DECIMAL_TO_128:
            r.pos = pos
            if unlikely(read_small_decimal(column.decimal, r, &size)):
                return -1
            (<int64_t*>column.values)[2 * row] = size
            (<int64_t*>column.values)[2 * row + 1] = size >> 63
            pos = r.pos
        else:
            r.pos = pos
            if unlikely(_put_other(column, r, row, capacity)):
                return -1
            pos = r.pos
        bits >>= 1
    r.pos = pos
    return 0


cdef inline int _put_bytes(
    Column* column, Reader* r, const uint8_t* at, int64_t size, int64_t row
) noexcept nogil:
    """Append `size` bytes at `at`, which are there."""
    cdef int64_t count = column.data.count
    cdef uint8_t* to
    if unlikely(room(&column.data, size + _AT_ONCE, r.failure)):
        return -1
    to = column.data.at + count
    if likely(size <= _AT_ONCE and r.end - at >= _AT_ONCE):
        # copies of fixed sizes; later writes replace the bytes behind the value
        memcpy(to, at, 16)
        if size > 16:
            memcpy(to + 16, at + 16, 16)
            if size > 32:
                memcpy(to + 32, at + 32, 32)
    else:
        memcpy(to, at, <size_t>size)
    count += size
    if unlikely(size < column.padded):
        column.data.count = count
        if room(&column.data, column.padded - size, r.failure):
            return -1
        memset(column.data.at + count, 0, <size_t>(column.padded - size))
        count += column.padded - size
    column.data.count = count
    column.offsets[row + 1] = <uint32_t>count
    return 0


cdef int _put_other(Column* column, Reader* r, int64_t row, int64_t capacity) noexcept nogil:
    """`put_value` for the kinds that have no place in the loop, because they are long or not frequent."""
    cdef Kind kind = column.kind
    cdef const uint8_t* at
    cdef int64_t size
    cdef int64_t number = 0
    cdef Decimal decimal
    if kind == JSON_TO_TEXT:
        size = read_prefix(r, column.width)
        if unlikely(size < 0 or render_json(r, size, &column.data)):
            return -1
        column.offsets[row + 1] = <uint32_t>column.data.count
    elif kind == TIMESTAMP2_TO_US:
        if unlikely(read_timestamp2(r, column.fsp, &number)):
            return -1
        if unlikely(number == 0):
            column.zero_dates += 1
            return put_null(column, row, capacity, r.failure)
        (<int64_t*>column.values)[row] = number
    elif kind == DECIMAL_TO_128:
        if unlikely(read_decimal(column.decimal, r, &decimal)):
            return -1
        widen_decimal(column.decimal, &decimal, <uint64_t*>column.values + 2 * row)
    elif kind == DATE_TO_DAYS:
        if unlikely(read_date(r, &number)):
            return -1
        number = days(number)
        if unlikely(number == INT64_MIN):
            column.zero_dates += 1
            return put_null(column, row, capacity, r.failure)
        (<int32_t*>column.values)[row] = <int32_t>number
    elif kind == LITTLE_TO_128:
        at = take(r, 8)
        if unlikely(at == NULL):
            return -1
        (<uint64_t*>column.values)[2 * row] = load64(at)
        (<uint64_t*>column.values)[2 * row + 1] = 0
    elif kind == SKIP_FIXED:
        return -1 if unlikely(take(r, column.width) == NULL) else 0
    elif kind == SKIP_PREFIXED:
        size = read_prefix(r, column.width)
        return -1 if unlikely(size < 0 or take(r, size) == NULL) else 0
    else:
        return _put_rare(column, r, row, capacity)
    return 0


# -- values that are rare ------------------------------------------------------------------------


cdef int _put_rare(Column* column, Reader* r, int64_t row, int64_t capacity) noexcept nogil:
    """`put_value` for all other kinds."""
    cdef Kind kind = column.kind
    cdef const uint8_t* at
    cdef uint32_t word
    cdef int64_t size
    if kind == ALWAYS_NULL:
        return put_null(column, row, capacity, r.failure)
    if kind == CANNOT:
        r.failure.column = column.ordinal
        return fail(r.failure, UNDECODABLE, -1, 0, 0)
    if kind == DECIMAL_TO_TEXT:
        return _put_decimal_text(column, r, row)
    if kind == LATIN_TO_TEXT:
        size = read_prefix(r, column.width)
        return -1 if size < 0 else put_latin(column, r, size, row)
    if DATE_TO_TEXT <= kind <= TIME_OLD_TO_TEXT:
        return _put_temporal(column, r, row, capacity)
    at = take(r, column.width)
    if at == NULL:
        return -1
    if kind == UNSIGNED_8_TO_16:
        (<uint16_t*>column.values)[row] = at[0]
    elif kind == UNSIGNED_16_TO_32:
        (<uint32_t*>column.values)[row] = load16(at)
    elif kind == UNSIGNED_24_TO_32 or kind == SIGNED_24_TO_32:
        word = <uint32_t>load(at, 3)
        if kind == SIGNED_24_TO_32 and word >> 23:
            word |= <uint32_t>0xFF000000
        (<uint32_t*>column.values)[row] = word
    elif kind == BIG_TO_64:
        (<uint64_t*>column.values)[row] = load_big(at, column.width)
    elif kind == BIG_TO_128:
        (<uint64_t*>column.values)[2 * row] = load_big(at, 8)
        (<uint64_t*>column.values)[2 * row + 1] = 0
    else:  # YEAR_TO_16: 0 is the year 0000, otherwise years since 1900
        (<int16_t*>column.values)[row] = <int16_t>(at[0] + 1900 if at[0] else 0)
    return 0


cdef int _put_decimal_text(Column* column, Reader* r, int64_t row) noexcept nogil:
    cdef Decimal number
    if read_decimal(column.decimal, r, &number):
        return -1
    if write_decimal(column.decimal, &number, &column.data, r.failure):
        return -1
    column.offsets[row + 1] = <uint32_t>column.data.count
    return 0


cdef int put_latin(Column* column, Reader* r, int64_t size, int64_t row) noexcept nogil:
    """The next `size` bytes, text of a single-byte character set, as UTF-8."""
    cdef const uint8_t* at = take(r, size)
    cdef uint8_t* to
    cdef int64_t i
    cdef int width
    if at == NULL or room(&column.data, 4 * size + 4, r.failure):
        return -1
    to = column.data.at + column.data.count
    for i in range(size):
        width = column.latin.sizes[at[i]]
        if width == 0:
            return fail(r.failure, NOT_A_CHARACTER, at + i - r.start, at[i], 0)
        memcpy(to, column.latin.entries + 4 * at[i], 4)
        to += width
    column.data.count = to - column.data.at
    column.offsets[row + 1] = <uint32_t>column.data.count
    return 0


cdef int _put_temporal(Column* column, Reader* r, int64_t row, int64_t capacity) noexcept nogil:
    """Dates and times whose kinds are between DATE_TO_TEXT and TIME_OLD_TO_TEXT."""
    cdef Kind kind = column.kind
    cdef int64_t number
    if kind == DATE_TO_TEXT:
        if read_date(r, &number):
            return -1
    elif kind == DATETIME2_TO_TEXT:
        if read_datetime2(r, column.fsp, &number):
            return -1
    elif kind == DATETIME_OLD_TO_US or kind == DATETIME_OLD_TO_TEXT:
        if read_datetime_old(r, column.fsp, &number):
            return -1
    elif kind == TIMESTAMP2_TO_TEXT:
        if read_timestamp2(r, column.fsp, &number):
            return -1
    elif kind == TIMESTAMP_OLD_TO_US or kind == TIMESTAMP_OLD_TO_TEXT:
        if read_timestamp_old(r, column.fsp, &number):
            return -1
    elif kind == TIME2_TO_US or kind == TIME2_TO_TEXT:
        if read_time2(r, column.fsp, &number):
            return -1
    elif read_time_old(r, column.fsp, &number):
        return -1
    if column.item == 0:
        if kind == TIMESTAMP2_TO_TEXT or kind == TIMESTAMP_OLD_TO_TEXT:
            number = pack_timestamp(number)
        return put_temporal_text(column, number, row, r.failure)
    if kind == DATETIME_OLD_TO_US:
        return put_us(column, number, row, capacity, r.failure)
    if kind == TIMESTAMP_OLD_TO_US:
        if number == 0:
            column.zero_dates += 1
            return put_null(column, row, capacity, r.failure)
    else:
        number = -time_us(-number) if number < 0 else time_us(number)
    (<int64_t*>column.values)[row] = number
    return 0


cdef int put_temporal_text(
    Column* column, int64_t packed, int64_t row, Failure* failure
) noexcept nogil:
    """A packed date, datetime or time as the server's text."""
    cdef Kind kind = column.kind
    cdef Bytes* out = &column.data
    if room(out, TEMPORAL_ROOM, failure):
        return -1
    if kind == TIME2_TO_TEXT or kind == TIME_OLD_TO_TEXT:
        if packed < 0:
            packed = -packed
            mark(out, c"-")
        write_time(out, packed, column.fsp)
    else:
        write_date(out, packed)
        if kind != DATE_TO_TEXT:
            mark(out, c" ")
            write_time(out, time_of_day(packed), column.fsp)
    column.offsets[row + 1] = <uint32_t>out.count
    return 0
