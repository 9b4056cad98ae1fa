"""Comparisons of dates and times: texts of one width sort as the moments do, zero dates included.

TIMESTAMP values are those at time zone +00:00, as everywhere in binlake. TIME is compared as a number
of microseconds.
"""

from __future__ import annotations

import re
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import scalar
from binlake.table.text.json_text import join
from binlake.table.types.base import ColumnType
from binlake.table.types.temporal import DateTimeType, DateType, TimestampType, TimeType
from binlake.table.where.comparing import COMPARE, Operator, Test

MOMENTS = (DateType, DateTimeType, TimestampType, TimeType)

_MIDNIGHT = " 00:00:00.000000"
_FRACTION = ".000000"
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T]((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?:\.(\d{1,6}))?)?", re.ASCII
)
_TIME = re.compile(r"(-?)(\d{2,3}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?", re.ASCII)
_TIME_PARTS = (
    r"^(?P<sign>-?)(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d)\.?(?P<fraction>\d*)$"
)


def moment_test(kind: ColumnType, operator: Operator, value: object) -> Test:
    """The test of a column against a constant. Raises ValueError with what is wrong with it."""
    if isinstance(kind, TimeType):
        literal = scalar(_microseconds(value), pa.int64())
        return lambda values, _: COMPARE[operator](_durations(values), literal)
    moment = scalar(_whole(value), pa.large_string())
    return lambda values, _: COMPARE[operator](_texts(kind, values), moment)


def moment_pair(left: ColumnType, right: ColumnType, operator: Operator) -> Test:
    """The test of two columns. Raises ValueError."""
    times = [isinstance(kind, TimeType) for kind in (left, right)]
    if all(times):
        return lambda one, other: COMPARE[operator](_durations(one), _durations(other))
    if any(times):
        raise ValueError("a TIME is compared with a TIME only")
    return lambda one, other: COMPARE[operator](_texts(left, one), _texts(right, other))


def _whole(value: object) -> str:
    """A constant as `YYYY-MM-DD hh:mm:ss.ffffff`."""
    found = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if found is None or not _is_date(found[1]):
        raise ValueError(
            "compare it with a date in quotes, like '2026-11-21' or '2026-11-21 14:00:00'"
        )
    if found[2] is None:
        return found[1] + _MIDNIGHT
    return f"{found[1]} {found[2]}.{(found[3] or '').ljust(6, '0')}"


def _is_date(text: str) -> bool:
    if text == "0000-00-00":
        return True
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _microseconds(value: object) -> int:
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("compare it with a time in quotes, like '14:00:00' or '-100:30:00.5'")
    sign, hours, minutes, seconds, fraction = found.groups(default="")
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    total = whole * 1_000_000 + int(fraction.ljust(6, "0"))
    return -total if sign else total


def _texts(kind: ColumnType, values: pa.Array) -> pa.Array:
    """A column's values as `YYYY-MM-DD hh:mm:ss.ffffff`."""
    digits = kind.column.decimals
    if isinstance(kind, DateType):
        return join(values.cast(pa.large_string()), _MIDNIGHT)
    missing = _FRACTION[digits + 1 if digits else 0 :]
    return join(values.cast(pa.large_string()), missing)


def _durations(values: pa.Array) -> pa.Array:
    parts = pc.extract_regex(values, _TIME_PARTS)

    def number(name: str) -> pa.Array:
        return pc.struct_field(parts, name).cast(pa.int64())

    total = number("hours")
    for name, unit in (("minutes", 60), ("seconds", 60)):
        total = pc.add(pc.multiply(total, scalar(unit)), number(name))
    fraction = pc.utf8_rpad(pc.struct_field(parts, "fraction"), 6, "0").cast(pa.int64())
    total = pc.add(pc.multiply(total, scalar(1_000_000)), fraction)
    is_negative = pc.equal(pc.struct_field(parts, "sign"), scalar("-"))
    total = pc.if_else(is_negative, pc.negate(total), total)
    return pc.if_else(pc.is_valid(values), total, scalar(None, pa.int64()))
