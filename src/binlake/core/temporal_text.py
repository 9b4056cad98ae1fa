"""Kernels of dates and times as the server's text: what its SELECT prints at time zone +00:00.

`YYYY-MM-DD`, `[-]HH:MM:SS` with more digits of hours where needed, and exactly as many
fractional digits as the column declares; zero and partial dates included.
"""

from __future__ import annotations

import cython

from binlake.core.buffers import ByteBuffer
from binlake.core.cursor import Cursor
from binlake.core.sink import VarSink
from binlake.core.temporal_wire import (
    read_date,
    read_datetime2,
    read_datetime_old,
    read_time2,
    read_time_old,
    read_timestamp2,
    read_timestamp_old,
)

__all__ = [
    "DateText",
    "Datetime2Text",
    "DatetimeOldText",
    "Time2Text",
    "TimeOldText",
    "Timestamp2Text",
    "TimestampOldText",
    "write_date",
    "write_time",
]

_TIME_OF_DAY = cython.declare(cython.Py_ssize_t, (1 << 41) - 1)  # the low bits of a datetime
_LONGEST = cython.declare(cython.Py_ssize_t, 32)  # "9999-12-31 23:59:59.999999" is 26


@cython.cfunc
def _digits(out: ByteBuffer, value: cython.Py_ssize_t, count: cython.int) -> cython.int:
    """Write `value` with `count` decimal digits; the room is reserved."""
    at: cython.Py_ssize_t = out.size + count
    out.size = at
    _i: cython.int
    for _i in range(count):
        at -= 1
        out.view[at] = cython.cast(cython.uchar, 48 + value % 10)
        value //= 10
    return 0


@cython.cfunc
@cython.inline
def _mark(out: ByteBuffer, character: cython.uchar) -> cython.int:
    out.view[out.size] = character
    out.size += 1
    return 0


def write_date(out: ByteBuffer, packed: cython.Py_ssize_t) -> int:
    """YYYY-MM-DD of a packed date or datetime; the room is reserved."""
    ym: cython.Py_ssize_t = packed >> 46
    _digits(out, ym // 13, 4)
    _mark(out, 45)
    _digits(out, ym % 13, 2)
    _mark(out, 45)
    _digits(out, packed >> 41 & 31, 2)
    return 0


def write_time(out: ByteBuffer, packed: cython.Py_ssize_t, fsp: cython.int) -> int:
    """HH:MM:SS and fraction of a packed time that is not negative; the room is reserved."""
    hour: cython.Py_ssize_t = packed >> 36
    _digits(out, hour, 3 if hour > 99 else 2)
    _mark(out, 58)
    _digits(out, packed >> 30 & 63, 2)
    _mark(out, 58)
    _digits(out, packed >> 24 & 63, 2)
    if fsp > 0:
        fraction: cython.Py_ssize_t = packed & 0xFFFFFF
        _i: cython.int
        for _i in range(6 - fsp):
            fraction //= 10
        _mark(out, 46)
        _digits(out, fraction, fsp)
    return 0


@cython.cfunc
def _pack(us: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The packed datetime of microseconds since 1970, not negative; 0 is the zero date.

    Days to a civil date: eras of 400 years (146,097 days) that begin on March 1st.
    """
    if us == 0:
        return 0
    second: cython.Py_ssize_t = us // 1_000_000
    day: cython.Py_ssize_t = second // 86_400 + 719_468
    second %= 86_400
    era: cython.Py_ssize_t = day // 146_097
    of_era: cython.Py_ssize_t = day % 146_097
    year: cython.Py_ssize_t = (
        of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096
    ) // 365
    of_year: cython.Py_ssize_t = of_era - (365 * year + year // 4 - year // 100)
    march: cython.Py_ssize_t = (5 * of_year + 2) // 153
    day = of_year - (153 * march + 2) // 5 + 1
    month: cython.Py_ssize_t = march + 3 if march < 10 else march - 9
    year += era * 400 + (1 if month <= 2 else 0)
    time: cython.Py_ssize_t = (
        second // 3600 << 36 | second // 60 % 60 << 30 | second % 60 << 24 | us % 1_000_000
    )
    return (year * 13 + month) << 46 | day << 41 | time


@cython.cclass
class _TextSink(VarSink):
    """Text of packed values; `fsp` fractional digits."""

    fsp: cython.int

    def __init__(self, fsp: cython.int = 0) -> None:
        VarSink.__init__(self)
        self.fsp = fsp

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put_date(self, packed: cython.Py_ssize_t, row: cython.Py_ssize_t) -> cython.int:
        """The date alone."""
        self.fill(row)
        self.out.reserve(_LONGEST)
        write_date(self.out, packed)
        return self.fill(row + 1)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put_datetime(self, packed: cython.Py_ssize_t, row: cython.Py_ssize_t) -> cython.int:
        """Date, a space, time of day."""
        self.fill(row)
        self.out.reserve(_LONGEST)
        write_date(self.out, packed)
        _mark(self.out, 32)
        write_time(self.out, packed & _TIME_OF_DAY, self.fsp)
        return self.fill(row + 1)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put_time(self, packed: cython.Py_ssize_t, row: cython.Py_ssize_t) -> cython.int:
        """A time with its sign."""
        self.fill(row)
        self.out.reserve(_LONGEST)
        if packed < 0:
            packed = -packed
            _mark(self.out, 45)
        write_time(self.out, packed, self.fsp)
        return self.fill(row + 1)


@cython.final
@cython.cclass
class DateText(_TextSink):
    """DATE."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        return self.put_date(read_date(c), row)


@cython.final
@cython.cclass
class Datetime2Text(_TextSink):
    """DATETIME(fsp)."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        return self.put_datetime(read_datetime2(c, self.fsp), row)


@cython.final
@cython.cclass
class DatetimeOldText(_TextSink):
    """DATETIME of before MySQL 5.6."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        return self.put_datetime(read_datetime_old(c, self.fsp), row)


@cython.final
@cython.cclass
class Time2Text(_TextSink):
    """TIME(fsp)."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        return self.put_time(read_time2(c, self.fsp), row)


@cython.final
@cython.cclass
class TimeOldText(_TextSink):
    """TIME of before MySQL 5.6."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        return self.put_time(read_time_old(c, self.fsp), row)


@cython.final
@cython.cclass
class Timestamp2Text(_TextSink):
    """TIMESTAMP(fsp), UTC."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        return self.put_datetime(_pack(read_timestamp2(c, self.fsp)), row)


@cython.final
@cython.cclass
class TimestampOldText(_TextSink):
    """TIMESTAMP of before MySQL 5.6, UTC."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def append(self, c: Cursor, row: cython.Py_ssize_t) -> cython.int:
        """As Sink."""
        return self.put_datetime(_pack(read_timestamp_old(c, self.fsp)), row)
