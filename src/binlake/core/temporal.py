"""Kernels of dates and times as numbers: days, or microseconds, since 1970, or of a duration.

Zero dates, partial dates (a zero year, month or day) and days that their month lacks have no
such number: they become null and are counted in `zero_dates`.
"""

from __future__ import annotations

import cython

from binlake.core.cursor import Cursor
from binlake.core.sink import Sink32, Sink64
from binlake.core.temporal_wire import (
    read_date,
    read_datetime2,
    read_datetime_old,
    read_time2,
    read_time_old,
    read_timestamp2,
    read_timestamp_old,
)

__all__ = ["Date", "Datetime2", "DatetimeOld", "Time2", "TimeOld", "Timestamp2", "TimestampOld"]

# C constants: a larger literal than int holds would be a Python object
_TIME_OF_DAY = cython.declare(cython.Py_ssize_t, (1 << 41) - 1)  # the low bits of a datetime
_DAY_US = cython.declare(cython.Py_ssize_t, 86_400_000_000)
_LOW_32 = cython.declare(cython.Py_ssize_t, 0xFFFFFFFF)
_ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_NO_DAY = cython.declare(cython.Py_ssize_t, -0x80000000)


@cython.cfunc
def _days(packed: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Days since 1970-01-01 of a packed date (proleptic Gregorian), or _NO_DAY."""
    ym: cython.Py_ssize_t = packed >> 46
    year: cython.Py_ssize_t = ym // 13
    month: cython.Py_ssize_t = ym % 13
    day: cython.Py_ssize_t = packed >> 41 & 31
    if year == 0 or month == 0 or day == 0:
        return _NO_DAY
    if day > 28 and day > _month_days(year, month):
        return _NO_DAY
    # count years from March, so that the leap day is the last one
    if month <= 2:
        year -= 1
        month += 12
    return (
        year * 365
        + year // 4
        - year // 100
        + year // 400
        + (153 * (month - 3) + 2) // 5
        + day
        - 719469
    )


@cython.cfunc
def _month_days(year: cython.Py_ssize_t, month: cython.Py_ssize_t) -> cython.Py_ssize_t:
    if month == 2:
        leap: cython.bint = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return 29 if leap else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@cython.cfunc
@cython.inline
def _bits(value: cython.Py_ssize_t) -> cython.ulonglong:
    """The two's complement of a signed value."""
    return value & _ALL_ONES


@cython.cfunc
@cython.inline
def _time_us(packed: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Microseconds of the time of day, or duration, in a packed value that is not negative."""
    seconds: cython.Py_ssize_t = (
        (packed >> 36 & 1023) * 3600 + (packed >> 30 & 63) * 60 + (packed >> 24 & 63)
    )
    return seconds * 1_000_000 + (packed & 0xFFFFFF)


@cython.final
@cython.cclass
class Date(Sink32):
    """DATE to days since 1970-01-01."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        days: cython.Py_ssize_t = _days(read_date(c))
        if days == _NO_DAY:
            self.zero_dates += 1
            return self.append_null(row)
        self.values[row] = cython.cast(cython.uint, days & _LOW_32)
        return 0


@cython.cclass
class _DatetimeSink(Sink64):
    """A packed datetime to microseconds since 1970-01-01 00:00:00, without a zone."""

    last_day: cython.Py_ssize_t  # a packed date (bits from 41 up) and its days: rows that
    last_days: cython.Py_ssize_t  # follow each other are mostly of one day

    def __init__(self) -> None:
        Sink64.__init__(self)
        self.last_day = 0
        self.last_days = _NO_DAY

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put(self, packed: cython.Py_ssize_t, row: cython.Py_ssize_t) -> cython.int:
        """Store a packed datetime as the value of `row`."""
        day: cython.Py_ssize_t = packed >> 41
        if day != self.last_day:
            self.last_day = day
            self.last_days = _days(packed)
        if self.last_days == _NO_DAY:
            self.zero_dates += 1
            return self.append_null(row)
        time: cython.Py_ssize_t = packed & _TIME_OF_DAY
        self.values[row] = _bits(self.last_days * _DAY_US + _time_us(time))
        return 0


@cython.final
@cython.cclass
class Datetime2(_DatetimeSink):
    """DATETIME(fsp)."""

    fsp: cython.int

    def __init__(self, fsp: cython.int) -> None:
        _DatetimeSink.__init__(self)
        self.fsp = fsp

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        return self.put(read_datetime2(c, self.fsp), row)


@cython.final
@cython.cclass
class DatetimeOld(_DatetimeSink):
    """DATETIME of before MySQL 5.6; `fsp` digits: MariaDB only."""

    fsp: cython.int

    def __init__(self, fsp: cython.int) -> None:
        _DatetimeSink.__init__(self)
        self.fsp = fsp

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        return self.put(read_datetime_old(c, self.fsp), row)


@cython.cclass
class _TimeSink(Sink64):
    """A packed time to microseconds, negative ones too."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put(self, packed: cython.Py_ssize_t, row: cython.Py_ssize_t) -> cython.int:
        """Store a packed time as the value of `row`."""
        us: cython.Py_ssize_t = -_time_us(-packed) if packed < 0 else _time_us(packed)
        self.values[row] = _bits(us)
        return 0


@cython.final
@cython.cclass
class Time2(_TimeSink):
    """TIME(fsp)."""

    fsp: cython.int

    def __init__(self, fsp: cython.int) -> None:
        _TimeSink.__init__(self)
        self.fsp = fsp

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        return self.put(read_time2(c, self.fsp), row)


@cython.final
@cython.cclass
class TimeOld(_TimeSink):
    """TIME of before MySQL 5.6; `fsp` digits: MariaDB only."""

    fsp: cython.int

    def __init__(self, fsp: cython.int) -> None:
        _TimeSink.__init__(self)
        self.fsp = fsp

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        return self.put(read_time_old(c, self.fsp), row)


@cython.final
@cython.cclass
class Timestamp2(Sink64):
    """TIMESTAMP(fsp) to microseconds since 1970 UTC."""

    fsp: cython.int

    def __init__(self, fsp: cython.int) -> None:
        Sink64.__init__(self)
        self.fsp = fsp

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        us: cython.Py_ssize_t = read_timestamp2(c, self.fsp)
        if us == 0:
            self.zero_dates += 1
            return self.append_null(row)
        self.values[row] = _bits(us)
        return 0


@cython.final
@cython.cclass
class TimestampOld(Sink64):
    """TIMESTAMP of before MySQL 5.6 to microseconds since 1970 UTC; as DatetimeOld."""

    fsp: cython.int

    def __init__(self, fsp: cython.int) -> None:
        Sink64.__init__(self)
        self.fsp = fsp

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        us: cython.Py_ssize_t = read_timestamp_old(c, self.fsp)
        if us == 0:
            self.zero_dates += 1
            return self.append_null(row)
        self.values[row] = _bits(us)
        return 0
