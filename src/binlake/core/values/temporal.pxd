# Packed dates and times (temporal_wire.pxd) as numbers: days, or microseconds, since 1970, or of a
# duration.
#
# Zero dates, partial dates (a zero year, month or day) and days that their month lacks have no such
# number.

from libc.stdint cimport INT64_MIN, int64_t

from binlake.core.values.civil cimport days_of


cdef inline int64_t month_days(int64_t year, int64_t month) noexcept nogil:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


cdef inline int64_t days(int64_t packed) noexcept nogil:
    """Days since 1970-01-01 of a packed date (proleptic Gregorian), or INT64_MIN."""
    cdef int64_t ym = packed >> 46
    cdef int64_t year = ym // 13
    cdef int64_t month = ym % 13
    cdef int64_t day = packed >> 41 & 31
    if year == 0 or month == 0 or day == 0:
        return INT64_MIN
    if day > 28 and day > month_days(year, month):
        return INT64_MIN
    return days_of(year, month, day)


cdef inline int64_t time_us(int64_t packed) noexcept nogil:
    """Microseconds of the time of day, or duration, in a packed value that is not negative."""
    cdef int64_t seconds = (
        (packed >> 36 & 1023) * 3600 + (packed >> 30 & 63) * 60 + (packed >> 24 & 63)
    )
    return seconds * 1_000_000 + (packed & 0xFFFFFF)


cdef inline int64_t time_of_day(int64_t packed) noexcept nogil:
    """The time of a packed datetime, packed."""
    return packed & ((<int64_t>1 << 41) - 1)
