"""The wire bytes of dates and times that are rare: TIME, and all formats of before MySQL 5.6.

`temporal_wire.pxd` defines the results, and handles the frequent types.

MariaDB has fractional digits in the old formats, too (mysql56_temporal_format=OFF; sql/field.cc,
Field_datetime_hires, Field_time_hires, Field_timestamp_hires).
"""

from binlake.core.memory.failure cimport NOT_A_DATETIME_OLD, NOT_A_TIME, NOT_A_TIME_OLD
from binlake.core.memory.reader cimport load32

cdef int64_t _TIME2_ZERO = 0x800000000000
cdef uint64_t _LAST_DATETIME = 99991231235959
cdef enum:
    _TIME_OLD_ZERO_SECONDS = 839 * 3600  # one above ±838:59:59


cdef int64_t _power10(int count) noexcept nogil:
    cdef int64_t value = 1
    cdef int _i
    for _i in range(count):
        value *= 10
    return value


cdef int read_datetime_old(Reader* r, int fsp, int64_t* packed) noexcept nogil:
    """8 bytes little-endian, the decimal number YYYYMMDDhhmmss.

    With fractional digits: 6, 6, 7, 7, 7, 8 bytes big-endian for 1 to 6 of them, the number
    ((((year * 13 + month) * 32 + day) * 24 + hour) * 60 + minute) * 60 + second, times 10**fsp, and
    the fraction.
    """
    cdef const uint8_t* at
    cdef uint64_t raw
    cdef int64_t v, day, time, second, minute, hour, month, ym
    if fsp:
        return _read_datetime_hires(r, fsp, packed)
    at = take(r, 8)
    if at == NULL:
        return -1
    raw = load64(at)
    if raw > _LAST_DATETIME:
        return refuse(r, at, NOT_A_DATETIME_OLD)
    v = <int64_t>raw
    day = v // 1_000_000
    time = v % 1_000_000
    second = time % 100
    minute = time // 100 % 100
    hour = time // 10_000
    month = day // 100 % 100
    if second > 59 or minute > 59 or hour > 23 or month > 12 or day % 100 > 31:
        return refuse(r, at, NOT_A_DATETIME_OLD)
    ym = day // 10_000 * 13 + month
    packed[0] = (ym << 5 | day % 100) << 41 | hour << 36 | minute << 30 | second << 24
    return 0


cdef int _read_datetime_hires(Reader* r, int fsp, int64_t* packed) noexcept nogil:
    cdef int width = 6 + (1 if fsp > 2 else 0) + (1 if fsp > 5 else 0)
    cdef const uint8_t* at = take(r, width)
    cdef int64_t unit = _power10(fsp)
    cdef uint64_t raw
    cdef int64_t v, us, time
    if at == NULL:
        return -1
    raw = load_head(r, at, width)
    if raw >> 62:
        return refuse(r, at, NOT_A_DATETIME)
    v = <int64_t>raw
    us = v % unit * _power10(6 - fsp)
    v //= unit
    time = v % 86_400
    v //= 86_400
    if v >> 5 >= YEARS * 13:
        return refuse(r, at, NOT_A_DATETIME)
    packed[0] = v << 41 | time // 3600 << 36 | time // 60 % 60 << 30 | time % 60 << 24 | us
    return 0


cdef int read_time2(Reader* r, int fsp, int64_t* packed) noexcept nogil:
    """3 bytes big-endian, offset by 2**23, and the fraction.

    A negative time is stored so that bytes sort: the hours to seconds are rounded down and the
    fraction counts up from there; fsp 5 and 6 are one six-byte number.
    """
    cdef int n = (fsp + 1) >> 1
    cdef const uint8_t* at = take(r, 3 + n)
    cdef int64_t v, hms, fraction, value, p
    if at == NULL:
        return -1
    v = <int64_t>load_head(r, at, 3 + n)
    if n == 3:
        value = v - _TIME2_ZERO
    else:
        hms = (v >> (8 * n)) - 0x800000
        fraction = v & ((<int64_t>1 << (8 * n)) - 1)
        if hms < 0 and fraction != 0:
            hms += 1
            fraction -= <int64_t>1 << (8 * n)
        value = hms * 0x1000000 + microseconds(fraction, fsp)
    p = -value if value < 0 else value
    if (
        p >> 36 > MAX_HOUR
        or p >> 30 & 63 > 59
        or p >> 24 & 63 > 59
        or p & 0xFFFFFF > 999_999
    ):
        return refuse(r, at, NOT_A_TIME)
    packed[0] = value
    return 0


cdef int read_time_old(Reader* r, int fsp, int64_t* packed) noexcept nogil:
    """3 bytes little-endian, signed, the decimal number HHMMSS.

    With fractional digits: 4, 4, 5, 5, 5, 6 bytes big-endian, the seconds times 10**fsp and the
    fraction, negated as a whole, above 839 hours.
    """
    cdef const uint8_t* at
    cdef int64_t v, second, minute, value
    cdef bint negative
    if fsp:
        return _read_time_hires(r, fsp, packed)
    at = take(r, 3)
    if at == NULL:
        return -1
    v = at[0] | at[1] << 8 | at[2] << 16
    negative = v > 0x7FFFFF
    if negative:
        v = 0x1000000 - v
    second = v % 100
    minute = v // 100 % 100
    if second > 59 or minute > 59 or v // 10_000 > MAX_HOUR:
        return refuse(r, at, NOT_A_TIME_OLD)
    value = v // 10_000 << 36 | minute << 30 | second << 24
    packed[0] = -value if negative else value
    return 0


cdef int _read_time_hires(Reader* r, int fsp, int64_t* packed) noexcept nogil:
    cdef int width = 4 + (1 if fsp > 2 else 0) + (1 if fsp > 5 else 0)
    cdef const uint8_t* at = take(r, width)
    cdef int64_t unit = _power10(fsp)
    cdef int64_t v, us, value
    cdef bint negative
    if at == NULL:
        return -1
    v = <int64_t>load_head(r, at, width) - _TIME_OLD_ZERO_SECONDS * unit
    negative = v < 0
    if negative:
        v = -v
    us = v % unit * _power10(6 - fsp)
    v //= unit
    if v // 3600 > MAX_HOUR:
        return refuse(r, at, NOT_A_TIME)
    value = v // 3600 << 36 | v // 60 % 60 << 30 | v % 60 << 24 | us
    packed[0] = -value if negative else value
    return 0


cdef int read_timestamp_old(Reader* r, int fsp, int64_t* us) noexcept nogil:
    """4 bytes little-endian, unsigned seconds.

    With fractional digits: 4 bytes big-endian, and 1, 1, 2, 2, 3, 3 bytes big-endian with the
    fraction in units of its last digit.
    """
    cdef int n = (fsp + 1) >> 1
    cdef const uint8_t* at = take(r, 4 + n)
    cdef int64_t v, fraction
    if at == NULL:
        return -1
    if fsp == 0:
        us[0] = <int64_t>(load32(at)) * 1_000_000
        return 0
    v = <int64_t>load_head(r, at, 4 + n)
    fraction = v & ((<int64_t>1 << (8 * n)) - 1)
    if fraction >= _power10(fsp):
        return refuse(r, at, NOT_A_TIMESTAMP)
    us[0] = (v >> (8 * n)) * 1_000_000 + fraction * _power10(6 - fsp)
    return 0
