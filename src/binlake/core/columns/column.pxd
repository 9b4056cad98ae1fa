# One column: where its decoded values collect.
#
# All columns of an image count rows together, so a value is put *at a row*. The owner calls
# `reserve` before a row beyond the capacity, and `fill` for rows that have no image.

from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from binlake.core.values.decimals cimport DecimalShape
from binlake.core.memory.failure cimport Failure
from binlake.core.memory.growing cimport Bytes, clear_validity
from binlake.core.memory.reader cimport unlikely
from binlake.core.values.temporal cimport days, time_of_day, time_us

# The operation on a value: from wire bytes to the stored value.
cdef enum Kind:
    SKIP_FIXED  # `width` bytes
    SKIP_PREFIXED  # a length of `width` bytes, and as many
    CANNOT  # only nulls can be read
    ALWAYS_NULL
    COPY_8  # as they are
    COPY_16
    COPY_32
    COPY_64
    UNSIGNED_8_TO_16
    UNSIGNED_16_TO_32
    UNSIGNED_24_TO_32
    SIGNED_24_TO_32
    UNSIGNED_TO_64  # `width` bytes
    BIG_TO_64  # `width` bytes, big-endian
    LITTLE_TO_128  # 8 bytes, unsigned
    BIG_TO_128
    YEAR_TO_16
    SMALL_DECIMAL_TO_128  # at most 18 digits in at most 8 bytes
    DECIMAL_TO_128
    DECIMAL_TO_TEXT
    DATE_TO_DAYS
    DATE_TO_TEXT
    DATETIME2_TO_US
    DATETIME2_TO_TEXT
    DATETIME_OLD_TO_US
    DATETIME_OLD_TO_TEXT
    TIMESTAMP2_TO_US
    TIMESTAMP2_TO_TEXT
    TIMESTAMP_OLD_TO_US
    TIMESTAMP_OLD_TO_TEXT
    TIME2_TO_US
    TIME2_TO_TEXT
    TIME_OLD_TO_US
    TIME_OLD_TO_TEXT
    BYTES  # a length of `width` bytes, and as many, padded to `padded`
    LATIN_TO_TEXT  # the same through a table
    JSON_TO_TEXT

# A single-byte character set: the UTF-8 of each byte, `sizes` bytes of it; 0: no such character.
cdef struct Latin:
    uint8_t sizes[256]
    uint8_t entries[1024]

# One column. `values` has `item` bytes a row; `item` 0: of variable width, then `offsets` has one
# entry more than there are rows, and the bytes are in `data`. `validity` (one bit a row, 1 = valid)
# is NULL while nothing is null. Only a column that is `kept` has any of them. `last_day` and
# `last_days` are the date converted last: consecutive rows mostly have the same day. `listed_bytes` is the size
# of its name in the list that finishing a row adds beside the values (see `Listing` in layouts.pxd). Finishing inflates
# the values of a column that is `compressed`.
cdef struct Column:
    Kind kind
    bint kept
    int32_t width
    int32_t item
    int32_t fsp
    int64_t ordinal
    int64_t padded
    int64_t listed_bytes
    bint compressed
    uint8_t* values
    uint32_t* offsets
    uint8_t* validity
    Bytes data
    int64_t null_count
    int64_t zero_dates
    int64_t last_day
    int64_t last_days
    DecimalShape* decimal
    Latin* latin

cdef int reserve(Column* column, int64_t rows, int64_t capacity, Failure* failure) noexcept nogil
cdef void fill(Column* column, int64_t first, int64_t last) noexcept nogil
cdef void forget_rows(Column* column) noexcept nogil
cdef int64_t held_bytes(const Column* column, int64_t rows) noexcept nogil
cdef object take_validity(uint8_t** validity, int64_t count, int64_t capacity)


cdef inline int put_null(
    Column* column, int64_t row, int64_t capacity, Failure* failure
) noexcept nogil:
    """`row` is null; its value is zero, or empty."""
    if unlikely(column.validity == NULL):
        if not column.kept:
            return 0
        if clear_validity(&column.validity, row, capacity, failure):
            return -1
    else:
        column.validity[row >> 3] &= <uint8_t>~(1 << (row & 7))
    column.null_count += 1
    if column.item == 8:
        (<uint64_t*>column.values)[row] = 0
    elif column.item == 0:
        if column.offsets != NULL:
            column.offsets[row + 1] = <uint32_t>column.data.count
    else:
        memset(column.values + row * column.item, 0, <size_t>column.item)
    return 0


cdef inline int put_us(
    Column* column, int64_t packed, int64_t row, int64_t capacity, Failure* failure
) noexcept nogil:
    """A packed datetime as microseconds since 1970-01-01 00:00:00, without a zone."""
    cdef int64_t day = packed >> 41
    if day != column.last_day:
        column.last_day = day
        column.last_days = days(packed)
    if unlikely(column.last_days == INT64_MIN):
        column.zero_dates += 1
        return put_null(column, row, capacity, failure)
    (<int64_t*>column.values)[row] = (
        (column.last_days * 86_400) * 1_000_000 + time_us(time_of_day(packed))
    )
    return 0
