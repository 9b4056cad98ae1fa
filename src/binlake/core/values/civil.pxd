# Days since 1970-01-01 and dates of the proleptic Gregorian calendar, in both directions.
#
# Years are counted from March on, so that the leap day is the last of its year; 400 years, an era,
# always have 146,097 days.

from libc.stdint cimport int64_t

cdef enum:
    EPOCH_DAY = 719_468  # 1970-01-01, counted from March 1st of the year 0
    ERA_DAYS = 146_097


cdef struct Civil:
    int64_t year
    int64_t month
    int64_t day


cdef inline Civil civil_of(int64_t days) noexcept nogil:
    """The date of a day in the year 0 or later."""
    cdef Civil date
    cdef int64_t day = days + EPOCH_DAY
    cdef int64_t era = day // ERA_DAYS
    cdef int64_t of_era = day % ERA_DAYS
    cdef int64_t year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    cdef int64_t of_year = of_era - (365 * year + year // 4 - year // 100)
    cdef int64_t march = (5 * of_year + 2) // 153
    date.day = of_year - (153 * march + 2) // 5 + 1
    date.month = march + 3 if march < 10 else march - 9
    date.year = year + era * 400 + (1 if date.month <= 2 else 0)
    return date


cdef inline int64_t days_of(int64_t year, int64_t month, int64_t day) noexcept nogil:
    """The day of a date in the year 1 or later. A day that its month lacks counts on."""
    if month <= 2:
        year -= 1
        month += 12
    return (
        year * 365 + year // 4 - year // 100 + year // 400
        + (153 * (month - 3) + 2) // 5 + day - 1 - EPOCH_DAY
    )
