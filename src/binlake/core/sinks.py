"""From a column's plan to the sink that decodes it: one entry per Kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
    return _SINKS[plan.kernel](plan) if plan.wanted else make_skip(plan)


def make_skip(plan: ColumnPlan) -> Sink:
    """A sink that steps over the values of a column and keeps nothing."""
    if plan.kernel is None:
        return Undecodable(plan.why)
    width = _WIDTHS[plan.kernel]
    if width is None:
        return SkipPrefixed(plan.p0)
    return SkipFixed(width if isinstance(width, int) else width(plan))


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


_SINKS: Mapping[Kernel, Callable[[ColumnPlan], Sink]] = {
    Kernel.INT: _integer,
    Kernel.UINT64: lambda plan: Int64(8),
    Kernel.UINT64_DECIMAL: lambda plan: Little128(),
    Kernel.FLOAT: lambda plan: Int32(4, 0),
    Kernel.DOUBLE: lambda plan: Int64(8),
    Kernel.BIT: lambda plan: BigEndian64(plan.p0),
    Kernel.BIT_DECIMAL: lambda plan: Big128(),
    Kernel.YEAR: lambda plan: Year(),
    Kernel.DATE: lambda plan: Date(),
    Kernel.DATE_TEXT: lambda plan: DateText(),
    Kernel.TIME2: lambda plan: Time2(plan.p0),
    Kernel.TIME2_TEXT: lambda plan: Time2Text(plan.p0),
    Kernel.DATETIME2: lambda plan: Datetime2(plan.p0),
    Kernel.DATETIME2_TEXT: lambda plan: Datetime2Text(plan.p0),
    Kernel.TIMESTAMP2: lambda plan: Timestamp2(plan.p0),
    Kernel.TIMESTAMP2_TEXT: lambda plan: Timestamp2Text(plan.p0),
    Kernel.TIME_OLD: lambda plan: TimeOld(),
    Kernel.TIME_OLD_TEXT: lambda plan: TimeOldText(),
    Kernel.DATETIME_OLD: lambda plan: DatetimeOld(),
    Kernel.DATETIME_OLD_TEXT: lambda plan: DatetimeOldText(),
    Kernel.TIMESTAMP_OLD: lambda plan: TimestampOld(),
    Kernel.TIMESTAMP_OLD_TEXT: lambda plan: TimestampOldText(),
    Kernel.DECIMAL: lambda plan: Decimal128(plan.p0, plan.p1),
    Kernel.DECIMAL_TEXT: lambda plan: DecimalText(plan.p0, plan.p1),
    Kernel.BYTES: lambda plan: Bytes(plan.p0, plan.p1),
    Kernel.LATIN: lambda plan: Latin(plan.p0, plan.table or ()),
    Kernel.FIXED_UINT: lambda plan: Int64(plan.p0),
    Kernel.JSON: lambda plan: JsonText(plan.p0),
    Kernel.NULL: lambda plan: Null(),
}


def _p0(plan: ColumnPlan) -> int:
    return plan.p0


def _fraction_bytes(plan: ColumnPlan) -> int:
    return (plan.p0 + 1) // 2


# Bytes of a value: a number, a rule, or None for a length prefix of p0 bytes.
_WIDTHS: Mapping[Kernel, int | Callable[[ColumnPlan], int] | None] = {
    Kernel.INT: _p0,
    Kernel.UINT64: 8,
    Kernel.UINT64_DECIMAL: 8,
    Kernel.FLOAT: 4,
    Kernel.DOUBLE: 8,
    Kernel.BIT: _p0,
    Kernel.BIT_DECIMAL: 8,
    Kernel.YEAR: 1,
    Kernel.DATE: 3,
    Kernel.DATE_TEXT: 3,
    Kernel.TIME2: lambda plan: 3 + _fraction_bytes(plan),
    Kernel.TIME2_TEXT: lambda plan: 3 + _fraction_bytes(plan),
    Kernel.DATETIME2: lambda plan: 5 + _fraction_bytes(plan),
    Kernel.DATETIME2_TEXT: lambda plan: 5 + _fraction_bytes(plan),
    Kernel.TIMESTAMP2: lambda plan: 4 + _fraction_bytes(plan),
    Kernel.TIMESTAMP2_TEXT: lambda plan: 4 + _fraction_bytes(plan),
    Kernel.TIME_OLD: 3,
    Kernel.TIME_OLD_TEXT: 3,
    Kernel.DATETIME_OLD: 8,
    Kernel.DATETIME_OLD_TEXT: 8,
    Kernel.TIMESTAMP_OLD: 4,
    Kernel.TIMESTAMP_OLD_TEXT: 4,
    Kernel.DECIMAL: lambda plan: decimal_width(plan.p0, plan.p1),
    Kernel.DECIMAL_TEXT: lambda plan: decimal_width(plan.p0, plan.p1),
    Kernel.BYTES: None,
    Kernel.LATIN: None,
    Kernel.FIXED_UINT: _p0,
    Kernel.JSON: None,
    Kernel.NULL: 0,
}
