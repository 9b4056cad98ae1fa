# Wire bytes of dates and times to packed numbers, once for all kernels.
#
# Two packed forms, which are the server's own (mysys/my_time.cc, TIME_to_longlong_*_packed):
#
# - a date or datetime: `((year * 13 + month) << 5 | day) << 41 | hour << 36 | minute << 30 |
#   second << 24 | microsecond`; zero and partial dates have zero fields;
# - a time: `hour << 36 | minute << 30 | second << 24 | microsecond`, negated as a whole.
#
# Timestamps come as microseconds since 1970 UTC; the zero timestamp as 0.
#
# Fields that no server can have written (month 13, minute 60) are a failure; a day that the month
# lacks can be stored (sql_mode ALLOW_INVALID_DATES) and is passed on.

from libc.stdint cimport int64_t, uint8_t, uint64_t

from binlake.core.memory.failure cimport NOT_A_DATE, NOT_A_DATETIME, NOT_A_TIMESTAMP, Fault, fail
from binlake.core.memory.reader cimport Reader, load64, load_head, take, unlikely

cdef enum:
    MAX_HOUR = 838  # TIME: ±838:59:59
    YEARS = 10_000

cdef int read_datetime_old(Reader* r, int fsp, int64_t* packed) noexcept nogil
cdef int read_time2(Reader* r, int fsp, int64_t* packed) noexcept nogil
cdef int read_time_old(Reader* r, int fsp, int64_t* packed) noexcept nogil
cdef int read_timestamp_old(Reader* r, int fsp, int64_t* us) noexcept nogil


cdef inline int refuse(Reader* r, const uint8_t* at, Fault fault) noexcept nogil:
    """The bytes taken last, from `at` on, are no such value."""
    r.pos = at
    return fail(r.failure, fault, at - r.start, 0, 0)


cdef inline int64_t microseconds(int64_t fraction, int fsp) noexcept nogil:
    """Microseconds of the fraction bytes that a column of `fsp` digits has."""
    if fsp > 4:
        return fraction
    return fraction * 100 if fsp > 2 else fraction * 10_000


cdef inline int read_date(Reader* r, int64_t* packed) noexcept nogil:
    """3 bytes little-endian: year << 9 | month << 5 | day."""
    cdef const uint8_t* at = take(r, 3)
    cdef int64_t v, month, year
    if unlikely(at == NULL):
        return -1
    v = at[0] | at[1] << 8 | at[2] << 16
    month = v >> 5 & 15
    year = v >> 9
    if unlikely(month > 12 or year >= YEARS):
        return refuse(r, at, NOT_A_DATE)
    packed[0] = (year * 13 + month) << 46 | (v & 31) << 41
    return 0


cdef inline int read_datetime2(Reader* r, int fsp, int64_t* packed) noexcept nogil:
    """5 bytes big-endian, offset by 2**39, and the fraction."""
    cdef int n = (fsp + 1) >> 1
    cdef const uint8_t* at = take(r, 5 + n)
    cdef uint64_t raw
    cdef int64_t v, us
    if unlikely(at == NULL):
        return -1
    raw = load_head(r, at, 5 + n)
    us = microseconds(<int64_t>(raw & ((<uint64_t>1 << (8 * n)) - 1)), fsp)
    v = <int64_t>(raw >> (8 * n) & ((<uint64_t>1 << 39) - 1))
    # bit 39, set in every datetime that a server stores, is the sign
    if unlikely(
        not at[0] & 0x80
        or us > 999_999
        or v & 63 > 59
        or v >> 6 & 63 > 59
        or v >> 12 & 31 > 23
        or v >> 22 >= YEARS * 13
    ):
        return refuse(r, at, NOT_A_DATETIME)
    packed[0] = v << 24 | us
    return 0


cdef inline int read_timestamp2(Reader* r, int fsp, int64_t* us) noexcept nogil:
    """4 bytes big-endian, unsigned seconds, and the fraction."""
    cdef int n = (fsp + 1) >> 1
    cdef const uint8_t* at = take(r, 4 + n)
    cdef int64_t v, fraction
    if unlikely(at == NULL):
        return -1
    v = <int64_t>load_head(r, at, 4 + n)
    fraction = microseconds(v & ((<int64_t>1 << (8 * n)) - 1), fsp)
    if unlikely(fraction > 999_999):
        return refuse(r, at, NOT_A_TIMESTAMP)
    us[0] = (v >> (8 * n)) * 1_000_000 + fraction
    return 0
