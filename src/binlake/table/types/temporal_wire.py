"""The server's text of dates and times as wire bytes, in every format of them.

Fractions have a byte for two digits and are in that unit: of an odd number of digits the last is
0. The old formats hold decimal numbers such as 20261121070900; with fractions, which only MariaDB
has in them, they are other formats (core/values/temporal_wire.py has them).
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from binlake.format import column_types as ct
from binlake.table.types.base import fixed_bytes

_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_CLOCK = r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?"
_DATE_TEXT = re.compile(_DATE, re.A)
_DATETIME_TEXT = re.compile(f"{_DATE} {_CLOCK}", re.A)
_TIME_TEXT = re.compile(r"(-?)(\d{2,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.A)

_DATETIME2_ZERO = 0x80_0000_0000
_US_BITS = 24
_TIME_HIRES_ZERO_SECONDS = 839 * 3600  # one above the largest TIME
_MONTHS = 13  # a year has room for a month 0


def _parts(pattern: re.Pattern[str], text: str) -> tuple[int, ...]:
    """The numbers of a text, its fraction in microseconds. Raises ValueError."""
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a date or time")
    *numbers, fraction = found.groups()
    return (*map(int, numbers), int((fraction or "").ljust(6, "0")))


def _fraction(us: int, digits: int) -> bytes:
    width = ct.fraction_bytes(digits)
    unit = 10 ** (6 - 2 * width)
    if us % unit:
        raise ValueError(f"{us} microseconds do not fit into {digits} digits")
    return fixed_bytes(us // unit, width, "big")


def _in_digits(us: int, digits: int) -> int:
    """A fraction in units of its last digit. Raises ValueError."""
    unit = int(10 ** (6 - digits))
    if us % unit:
        raise ValueError(f"{us} microseconds do not fit into {digits} digits")
    return us // unit


def _hires_bytes(digits: int) -> int:
    """Bytes by which fractions make MariaDB's old TIME longer than 4, its DATETIME than 6."""
    return (digits > 2) + (digits > 5)


def _datetime_hires(numbers: tuple[int, ...], digits: int) -> bytes:
    year, month, day, hour, minute, second, us = numbers
    seconds = (((year * _MONTHS + month << 5 | day) * 24 + hour) * 60 + minute) * 60 + second
    number = seconds * 10**digits + _in_digits(us, digits)
    return fixed_bytes(number, 6 + _hires_bytes(digits), "big")


def _date(text: str, digits: int) -> bytes:
    found = _DATE_TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a date")
    year, month, day = map(int, found.groups())
    return fixed_bytes(year << 9 | month << 5 | day, 3, "little")


def packed_datetime(text: str) -> int:
    """A date and time as one number, its microseconds in the low 24 bits. Raises ValueError."""
    year, month, day, hour, minute, second, us = _parts(_DATETIME_TEXT, text)
    days = (year * _MONTHS + month) << 5 | day
    return (days << 17 | hour << 12 | minute << 6 | second) << _US_BITS | us


def packed_time(text: str) -> int:
    """A time as one number, its microseconds in the low 24 bits, negated as a whole."""
    sign, hour, minute, second, us = _time_parts(text)
    return sign * ((hour << 12 | minute << 6 | second) << _US_BITS | us)


def _datetime2(text: str, digits: int) -> bytes:
    packed = packed_datetime(text)
    seconds, us = packed >> _US_BITS, packed & (1 << _US_BITS) - 1
    return fixed_bytes(_DATETIME2_ZERO + seconds, 5, "big") + _fraction(us, digits)


def _datetime_old(text: str, digits: int) -> bytes:
    numbers = _parts(_DATETIME_TEXT, text)
    if digits:
        return _datetime_hires(numbers, digits)
    value = 0
    for number in numbers[:6]:
        value = value * 100 + number
    return fixed_bytes(value, 8, "little")


def _seconds(parts: tuple[int, ...]) -> int:
    """Seconds since 1970 of a UTC time; 0 stands for the zero date."""
    return calendar.timegm(parts[:6]) if parts[1] else 0


def _timestamp2(text: str, digits: int) -> bytes:
    parts = _parts(_DATETIME_TEXT, text)
    return fixed_bytes(_seconds(parts), 4, "big") + _fraction(parts[6], digits)


def _timestamp_old(text: str, digits: int) -> bytes:
    parts = _parts(_DATETIME_TEXT, text)
    seconds = _seconds(parts)
    if not digits:
        return fixed_bytes(seconds, 4, "little")
    fraction = fixed_bytes(_in_digits(parts[6], digits), ct.fraction_bytes(digits), "big")
    return fixed_bytes(seconds, 4, "big") + fraction


def _time_parts(text: str) -> tuple[int, int, int, int, int]:
    """Sign, hour, minute, second, microsecond."""
    found = _TIME_TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time")
    sign, hour, minute, second, fraction = found.groups()
    us = int((fraction or "").ljust(6, "0"))
    return -1 if sign else 1, int(hour), int(minute), int(second), us


def _time2(text: str, digits: int) -> bytes:
    sign, hour, minute, second, us = _time_parts(text)
    width = ct.fraction_bytes(digits)
    fraction = int.from_bytes(_fraction(us, digits), "big")
    # one number, hours to fraction, negated as a whole and moved so that bytes sort
    number = sign * ((hour << 12 | minute << 6 | second) << 8 * width | fraction)
    return fixed_bytes(number + (1 << 23 + 8 * width), 3 + width, "big")


def _time_old(text: str, digits: int) -> bytes:
    sign, hour, minute, second, us = _time_parts(text)
    if digits:
        unit = 10**digits
        count = (hour * 60 + minute) * 60 + second
        number = sign * (count * unit + _in_digits(us, digits)) + _TIME_HIRES_ZERO_SECONDS * unit
        return fixed_bytes(number, 4 + _hires_bytes(digits), "big")
    value = sign * (hour * 10000 + minute * 100 + second)
    return fixed_bytes(value, 3, "little", signed=True)


#: By type code: a value's text and its fractional digits to wire bytes. All raise ValueError.
WIRE_OF_TEXT: Mapping[int, Callable[[str, int], bytes]] = MappingProxyType(
    {
        ct.MYSQL_TYPE_DATE: _date,
        ct.MYSQL_TYPE_NEWDATE: _date,
        ct.MYSQL_TYPE_TIME: _time_old,
        ct.MYSQL_TYPE_TIME2: _time2,
        ct.MYSQL_TYPE_DATETIME: _datetime_old,
        ct.MYSQL_TYPE_DATETIME2: _datetime2,
        ct.MYSQL_TYPE_TIMESTAMP: _timestamp_old,
        ct.MYSQL_TYPE_TIMESTAMP2: _timestamp2,
    }
)
