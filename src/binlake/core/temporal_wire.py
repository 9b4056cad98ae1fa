"""Wire bytes of dates and times to packed numbers, once for all kernels.

Two packed forms, which are the server's own (mysys/my_time.cc, TIME_to_longlong_*_packed):

- a date or datetime: `((year * 13 + month) << 5 | day) << 41 | hour << 36 | minute << 30 |
  second << 24 | microsecond`; zero and partial dates have zero fields;
- a time: `hour << 36 | minute << 30 | second << 24 | microsecond`, negated as a whole.

Timestamps come as microseconds since 1970 UTC; the zero timestamp as 0.

Fields that no server can have written (month 13, minute 60) raise MalformedError; a day that
the month lacks can be stored (sql_mode ALLOW_INVALID_DATES) and is passed on.
"""

from __future__ import annotations

import cython

from binlake.core.cursor import Cursor
from binlake.errors import MalformedError

__all__ = [
    "read_date",
    "read_datetime2",
    "read_datetime_old",
    "read_time2",
    "read_time_old",
    "read_timestamp2",
    "read_timestamp_old",
]

# C constants: a larger literal than int holds would be a Python object
_LOW_63 = cython.declare(cython.ulonglong, (1 << 63) - 1)
_LOW_39 = cython.declare(cython.Py_ssize_t, (1 << 39) - 1)
_TIME2_ZERO = cython.declare(cython.Py_ssize_t, 0x800000000000)
_LAST_DATETIME = cython.declare(cython.ulonglong, 99991231235959)
_MAX_HOUR = cython.declare(cython.Py_ssize_t, 838)  # TIME: ±838:59:59
_TIME_OLD_ZERO_SECONDS = cython.declare(cython.Py_ssize_t, 839 * 3600)  # one above ±838:59:59


# MariaDB writes fractions in the old format, too, and its logs do not tell how many digits
_OLD_HINT = "if the column has fractional digits, give its CREATE TABLE with the option schema"


def _refuse(c: Cursor, width: int, what: str, hint: str | None = None) -> MalformedError:
    return MalformedError(f"the bytes are not a {what}", hint=hint, offset=c.pos - width - c.start)


@cython.cfunc
@cython.inline
def _be(c: Cursor, width: cython.int) -> cython.ulonglong:
    """`width` bytes big-endian (3 to 8) at the cursor, which steps over them."""
    p: cython.Py_ssize_t = c.pos
    value: cython.ulonglong = 0
    if c.end - p < 8:
        return c.be_uint(width)
    c.pos = p + width
    if cython.compiled:  # eight bytes at once, and off with those behind
        memcpy(cython.address(value), cython.address(c.data[p]), 8)  # noqa: F821 - cimported
        return _swapped(value) >> (64 - 8 * width)
    else:  # noqa: RET505 - only one branch is compiled
        return int.from_bytes(c.view[p : p + width], "big")


@cython.cfunc
@cython.inline
def _swapped(v: cython.ulonglong) -> cython.ulonglong:
    """The eight bytes in reverse order; compilers know one instruction for it."""
    return (
        v << 56
        | (v >> 8 & 0xFF) << 48
        | (v >> 16 & 0xFF) << 40
        | (v >> 24 & 0xFF) << 32
        | (v >> 32 & 0xFF) << 24
        | (v >> 40 & 0xFF) << 16
        | (v >> 48 & 0xFF) << 8
        | v >> 56
    )


@cython.cfunc
@cython.inline
def _us(fraction: cython.Py_ssize_t, fsp: cython.int) -> cython.Py_ssize_t:
    """Microseconds of the fraction bytes that a column of `fsp` digits has."""
    if fsp > 4:
        return fraction
    return fraction * 100 if fsp > 2 else fraction * 10_000


def read_date(c: Cursor) -> int:
    """3 bytes little-endian: year << 9 | month << 5 | day."""
    v: cython.Py_ssize_t = c.u24()
    month: cython.Py_ssize_t = v >> 5 & 15
    year: cython.Py_ssize_t = v >> 9
    if month > 12 or year > 9999:
        raise _refuse(c, 3, "DATE")
    return (year * 13 + month) << 46 | (v & 31) << 41


def read_datetime2(c: Cursor, fsp: cython.int) -> int:
    """5 bytes big-endian, offset by 2**39, and the fraction."""
    n: cython.int = (fsp + 1) >> 1
    raw: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, _be(c, 5 + n) & _LOW_63)
    v: cython.Py_ssize_t = raw >> (8 * n)
    us: cython.Py_ssize_t = 0
    if n:
        us = _us(raw & ((1 << (8 * n)) - 1), fsp)
    # bit 39, set in every datetime that a server stores, is the sign
    sign: cython.int = c.data[c.pos - 5 - n] & 0x80
    v &= _LOW_39
    ymd: cython.Py_ssize_t = v >> 17
    if (
        sign == 0
        or us > 999_999
        or v & 63 > 59
        or (v >> 6 & 63) > 59
        or (v >> 12 & 31) > 23
        or (ymd >> 5) >= 10_000 * 13
    ):
        raise _refuse(c, 5 + n, "DATETIME")
    return v << 24 | us


@cython.cfunc
@cython.inline
def _power10(count: cython.int) -> cython.Py_ssize_t:
    value: cython.Py_ssize_t = 1
    _i: cython.int
    for _i in range(count):
        value *= 10
    return value


def read_datetime_old(c: Cursor, fsp: cython.int) -> int:
    """8 bytes little-endian, the decimal number YYYYMMDDhhmmss.

    With fractional digits, which only MariaDB has in this format (mysql56_temporal_format=OFF;
    sql/field.cc, Field_datetime_hires): 6, 6, 7, 7, 7, 8 bytes big-endian for 1 to 6 of them, the
    number ((((year * 13 + month) * 32 + day) * 24 + hour) * 60 + minute) * 60 + second, times
    10**fsp, and the fraction.
    """
    if fsp:
        return _datetime_hires(c, fsp)
    raw: cython.ulonglong = c.u64()
    if raw > _LAST_DATETIME:
        raise _refuse(c, 8, "DATETIME", _OLD_HINT)
    v: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, raw)
    day: cython.Py_ssize_t = v // 1_000_000
    time: cython.Py_ssize_t = v % 1_000_000
    second: cython.Py_ssize_t = time % 100
    minute: cython.Py_ssize_t = time // 100 % 100
    hour: cython.Py_ssize_t = time // 10_000
    month: cython.Py_ssize_t = day // 100 % 100
    if second > 59 or minute > 59 or hour > 23 or month > 12 or day % 100 > 31:
        raise _refuse(c, 8, "DATETIME", _OLD_HINT)
    ym: cython.Py_ssize_t = day // 10_000 * 13 + month
    return (ym << 5 | day % 100) << 41 | hour << 36 | minute << 30 | second << 24


@cython.cfunc
def _datetime_hires(c: Cursor, fsp: cython.int) -> cython.Py_ssize_t:
    width: cython.int = 6 + (1 if fsp > 2 else 0) + (1 if fsp > 5 else 0)
    raw: cython.ulonglong = _be(c, width)
    if raw >> 62:
        raise _refuse(c, width, "DATETIME")
    v: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, raw)
    unit: cython.Py_ssize_t = _power10(fsp)
    us: cython.Py_ssize_t = v % unit * _power10(6 - fsp)
    v //= unit
    time: cython.Py_ssize_t = v % 86_400
    v //= 86_400
    if (v >> 5) >= 10_000 * 13:
        raise _refuse(c, width, "DATETIME")
    return v << 41 | time // 3600 << 36 | time // 60 % 60 << 30 | time % 60 << 24 | us


def read_time2(c: Cursor, fsp: cython.int) -> int:
    """3 bytes big-endian, offset by 2**23, and the fraction.

    A negative time is stored so that bytes sort: the hours to seconds are rounded down and the
    fraction counts up from there; fsp 5 and 6 are one six-byte number.
    """
    n: cython.int = (fsp + 1) >> 1
    v: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, _be(c, 3 + n))
    packed: cython.Py_ssize_t
    size: cython.Py_ssize_t = 1
    if n == 3:
        packed = v - _TIME2_ZERO
    else:
        size <<= 8 * n
        hms: cython.Py_ssize_t = (v >> (8 * n)) - 0x800000
        fraction: cython.Py_ssize_t = v & (size - 1)
        if hms < 0 and fraction != 0:
            hms += 1
            fraction -= size
        packed = hms * 0x1000000
        if n:
            packed += _us(fraction, fsp)
    p: cython.Py_ssize_t = -packed if packed < 0 else packed
    if (
        (p >> 36) > _MAX_HOUR
        or (p >> 30 & 63) > 59
        or (p >> 24 & 63) > 59
        or (p & 0xFFFFFF) > 999_999
    ):
        raise _refuse(c, 3 + n, "TIME")
    return packed


def read_time_old(c: Cursor, fsp: cython.int) -> int:
    """3 bytes little-endian, signed, the decimal number HHMMSS.

    With fractional digits (as `read_datetime_old`; Field_time_hires): 4, 4, 5, 5, 5, 6 bytes
    big-endian, the seconds times 10**fsp and the fraction, negated as a whole, above 839 hours.
    """
    if fsp:
        return _time_hires(c, fsp)
    v: cython.Py_ssize_t = c.u24()
    negative: cython.bint = v > 0x7FFFFF
    if negative:
        v = 0x1000000 - v
    second: cython.Py_ssize_t = v % 100
    minute: cython.Py_ssize_t = v // 100 % 100
    if second > 59 or minute > 59 or v // 10_000 > _MAX_HOUR:
        raise _refuse(c, 3, "TIME", _OLD_HINT)
    packed: cython.Py_ssize_t = v // 10_000 << 36 | minute << 30 | second << 24
    return -packed if negative else packed


@cython.cfunc
def _time_hires(c: Cursor, fsp: cython.int) -> cython.Py_ssize_t:
    width: cython.int = 4 + (1 if fsp > 2 else 0) + (1 if fsp > 5 else 0)
    unit: cython.Py_ssize_t = _power10(fsp)
    v: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, _be(c, width))
    v -= _TIME_OLD_ZERO_SECONDS * unit
    negative: cython.bint = v < 0
    if negative:
        v = -v
    us: cython.Py_ssize_t = v % unit * _power10(6 - fsp)
    v //= unit
    if v // 3600 > _MAX_HOUR:
        raise _refuse(c, width, "TIME")
    packed: cython.Py_ssize_t = v // 3600 << 36 | v // 60 % 60 << 30 | v % 60 << 24 | us
    return -packed if negative else packed


def read_timestamp2(c: Cursor, fsp: cython.int) -> int:
    """4 bytes big-endian, unsigned seconds, and the fraction."""
    n: cython.int = (fsp + 1) >> 1
    v: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, _be(c, 4 + n))
    us: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = 1
    if n:
        size <<= 8 * n
        us = _us(v & (size - 1), fsp)
        if us > 999_999:
            raise _refuse(c, 4 + n, "TIMESTAMP")
    return (v >> (8 * n)) * 1_000_000 + us


def read_timestamp_old(c: Cursor, fsp: cython.int) -> int:
    """4 bytes little-endian, unsigned seconds.

    With fractional digits (as `read_datetime_old`; Field_timestamp_hires): 4 bytes big-endian,
    and 1, 1, 2, 2, 3, 3 bytes big-endian with the fraction in units of its last digit.
    """
    if fsp == 0:
        return cython.cast(cython.Py_ssize_t, c.u32()) * 1_000_000
    n: cython.int = (fsp + 1) >> 1
    v: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, _be(c, 4 + n))
    size: cython.Py_ssize_t = 1
    size <<= 8 * n
    fraction: cython.Py_ssize_t = v & (size - 1)
    if fraction >= _power10(fsp):
        raise _refuse(c, 4 + n, "TIMESTAMP")
    return (v >> (8 * n)) * 1_000_000 + fraction * _power10(6 - fsp)
