"""From a column's plan to the sink that decodes it: one entry per Kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from binlake.core.decimals import Decimal128, DecimalText, decimal_width
from binlake.core.numeric import (
    Big128,
    BigEndian64,
    Int8,
    Int16,
    Int32,
    Int64,
    Little128,
    Null,
    Year,
)
from binlake.core.sink import Sink, SkipFixed, SkipPrefixed, Undecodable
from binlake.core.temporal import (
    Date,
    Datetime2,
    DatetimeOld,
    Time2,
    TimeOld,
    Timestamp2,
    TimestampOld,
)
from binlake.core.temporal_text import (
    DateText,
    Datetime2Text,
    DatetimeOldText,
    Time2Text,
    TimeOldText,
    Timestamp2Text,
    TimestampOldText,
)
from binlake.core.varlen import Bytes, JsonText, Latin
from binlake.values.plan import ColumnPlan, Kernel

__all__ = ["make_sink", "make_skip"]


def make_sink(plan: ColumnPlan) -> Sink:
    """The sink of one column: decoding if it is wanted, else only stepping over values.

    Raises MalformedError for numbers that no column can have.
    """
    if plan.kernel is None:
        return Undecodable(plan.why)
    return _KERNELS[plan.kernel].make(plan) if plan.wanted else make_skip(plan)


def make_skip(plan: ColumnPlan) -> Sink:
    """A sink that steps over the values of a column and keeps nothing."""
    if plan.kernel is None:
        return Undecodable(plan.why)
    width = _KERNELS[plan.kernel].width
    return SkipPrefixed(plan.p0) if width is None else SkipFixed(width(plan))


class _Kernel(NamedTuple):
    """How a kernel is made, and the bytes of a value on the wire; None: a prefix tells them."""

    make: Callable[[ColumnPlan], Sink]
    width: Callable[[ColumnPlan], int] | None


def _integer(plan: ColumnPlan) -> Sink:
    unsigned = bool(plan.p1)
    match plan.p0:
        case 1:
            return Int16(1) if unsigned else Int8()
        case 2:
            return Int32(2, 0) if unsigned else Int16(2)
        case 3:
            return Int32(3, 0 if unsigned else 0x800000)
        case 4:
            return Int64(4) if unsigned else Int32(4, 0)
        case 8 if not unsigned:
            return Int64(8)
    raise ValueError(f"no integer kernel for {plan.p0} bytes, unsigned {unsigned}")


def _bytes(count: int) -> Callable[[ColumnPlan], int]:
    return lambda _plan: count


def _with_fraction(count: int) -> Callable[[ColumnPlan], int]:
    return lambda plan: count + (plan.p0 + 1) // 2


# by fractional digits; more than none of them only MariaDB has
_TIME_OLD_BYTES = (3, 4, 4, 5, 5, 5, 6)
_DATETIME_OLD_BYTES = (8, 6, 6, 7, 7, 7, 8)


def _by_fsp(widths: tuple[int, ...]) -> Callable[[ColumnPlan], int]:
    return lambda plan: widths[plan.p0]


def _p0(plan: ColumnPlan) -> int:
    return plan.p0


def _decimal(plan: ColumnPlan) -> int:
    return decimal_width(plan.p0, plan.p1)


_KERNELS: Mapping[Kernel, _Kernel] = {
    Kernel.INT: _Kernel(_integer, _p0),
    Kernel.UINT64: _Kernel(lambda plan: Int64(8), _bytes(8)),
    Kernel.UINT64_DECIMAL: _Kernel(lambda plan: Little128(), _bytes(8)),
    Kernel.FLOAT: _Kernel(lambda plan: Int32(4, 0), _bytes(4)),
    Kernel.DOUBLE: _Kernel(lambda plan: Int64(8), _bytes(8)),
    Kernel.BIT: _Kernel(lambda plan: BigEndian64(plan.p0), _p0),
    Kernel.BIT_DECIMAL: _Kernel(lambda plan: Big128(), _bytes(8)),
    Kernel.YEAR: _Kernel(lambda plan: Year(), _bytes(1)),
    Kernel.DATE: _Kernel(lambda plan: Date(), _bytes(3)),
    Kernel.DATE_TEXT: _Kernel(lambda plan: DateText(), _bytes(3)),
    Kernel.TIME2: _Kernel(lambda plan: Time2(plan.p0), _with_fraction(3)),
    Kernel.TIME2_TEXT: _Kernel(lambda plan: Time2Text(plan.p0), _with_fraction(3)),
    Kernel.DATETIME2: _Kernel(lambda plan: Datetime2(plan.p0), _with_fraction(5)),
    Kernel.DATETIME2_TEXT: _Kernel(lambda plan: Datetime2Text(plan.p0), _with_fraction(5)),
    Kernel.TIMESTAMP2: _Kernel(lambda plan: Timestamp2(plan.p0), _with_fraction(4)),
    Kernel.TIMESTAMP2_TEXT: _Kernel(lambda plan: Timestamp2Text(plan.p0), _with_fraction(4)),
    Kernel.TIME_OLD: _Kernel(lambda plan: TimeOld(plan.p0), _by_fsp(_TIME_OLD_BYTES)),
    Kernel.TIME_OLD_TEXT: _Kernel(lambda plan: TimeOldText(plan.p0), _by_fsp(_TIME_OLD_BYTES)),
    Kernel.DATETIME_OLD: _Kernel(lambda plan: DatetimeOld(plan.p0), _by_fsp(_DATETIME_OLD_BYTES)),
    Kernel.DATETIME_OLD_TEXT: _Kernel(
        lambda plan: DatetimeOldText(plan.p0), _by_fsp(_DATETIME_OLD_BYTES)
    ),
    Kernel.TIMESTAMP_OLD: _Kernel(lambda plan: TimestampOld(plan.p0), _with_fraction(4)),
    Kernel.TIMESTAMP_OLD_TEXT: _Kernel(lambda plan: TimestampOldText(plan.p0), _with_fraction(4)),
    Kernel.DECIMAL: _Kernel(lambda plan: Decimal128(plan.p0, plan.p1), _decimal),
    Kernel.DECIMAL_TEXT: _Kernel(lambda plan: DecimalText(plan.p0, plan.p1), _decimal),
    Kernel.BYTES: _Kernel(lambda plan: Bytes(plan.p0, plan.p1), None),
    Kernel.LATIN: _Kernel(lambda plan: Latin(plan.p0, plan.table or ()), None),
    Kernel.FIXED_UINT: _Kernel(lambda plan: Int64(plan.p0), _p0),
    Kernel.JSON: _Kernel(lambda plan: JsonText(plan.p0), None),
    Kernel.NULL: _Kernel(lambda plan: Null(), _bytes(0)),
}
