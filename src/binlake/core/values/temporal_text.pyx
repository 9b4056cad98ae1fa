"""Dates and times as the server's text: what its SELECT prints at time zone +00:00.

`YYYY-MM-DD`, `[-]HH:MM:SS` with more digits of hours where needed, and exactly as many
fractional digits as the column declares; zero and partial dates included.
"""

from libc.stdint cimport uint8_t

from binlake.core.values.civil cimport Civil, civil_of
from binlake.core.memory.growing cimport mark


cdef void _digits(Bytes* out, int64_t value, int count) noexcept nogil:
    """Write `value` with `count` decimal digits; the room is reserved."""
    cdef uint8_t* at
    cdef int _i
    out.count += count
    at = out.at + out.count
    for _i in range(count):
        at -= 1
        at[0] = <uint8_t>(c"0" + value % 10)
        value //= 10


cdef void write_date(Bytes* out, int64_t packed) noexcept nogil:
    """YYYY-MM-DD of a packed date or datetime; the room is reserved."""
    cdef int64_t ym = packed >> 46
    _digits(out, ym // 13, 4)
    mark(out, c"-")
    _digits(out, ym % 13, 2)
    mark(out, c"-")
    _digits(out, packed >> 41 & 31, 2)


cdef void write_time(Bytes* out, int64_t packed, int fsp) noexcept nogil:
    """HH:MM:SS and fraction of a packed time that is not negative; the room is reserved."""
    cdef int64_t hour = packed >> 36
    cdef int64_t fraction
    cdef int _i
    _digits(out, hour, 3 if hour > 99 else 2)
    mark(out, c":")
    _digits(out, packed >> 30 & 63, 2)
    mark(out, c":")
    _digits(out, packed >> 24 & 63, 2)
    if fsp > 0:
        fraction = packed & 0xFFFFFF
        for _i in range(6 - fsp):
            fraction //= 10
        mark(out, c".")
        _digits(out, fraction, fsp)


cdef int64_t pack_timestamp(int64_t us) noexcept nogil:
    """The packed datetime of microseconds since 1970, not negative; 0 is the zero date."""
    cdef int64_t second, time
    cdef Civil date
    if us == 0:
        return 0
    second = us // 1_000_000
    date = civil_of(second // 86_400)
    second %= 86_400
    time = second // 3600 << 36 | second // 60 % 60 << 30 | second % 60 << 24 | us % 1_000_000
    return (date.year * 13 + date.month) << 46 | date.day << 41 | time
