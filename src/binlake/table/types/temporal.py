"""DATE, TIME, DATETIME and TIMESTAMP, in the old and the fractional wire formats (formats.md §2.3).

DATETIME has no zone, TIMESTAMP is UTC, TIME is a signed duration to +-838:59:59. A typed
column cannot hold zero and partial dates ('0000-00-00', '2026-00-00'): the option zero_date
makes them null and counts them, makes them an error, or makes the whole column text.
"""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from binlake.format import column_types as ct
from binlake.table.json_text import quoted_plain
from binlake.table.types.base import Buffers, ColumnType, Target, fixed_width, var_width
from binlake.table.types.temporal_wire import WIRE_OF_TEXT
from binlake.values.plan import ColumnPlan, Kernel

__all__ = ["DateTimeType", "DateType", "TemporalType", "TimeType", "TimestampType"]


class TemporalType(ColumnType):
    """Common to all: a typed kernel and a text kernel per wire format."""

    typed_type: ClassVar[pa.DataType]
    kernels: ClassVar[dict[int, tuple[Kernel, Kernel]]]  # by type code: typed, text
    has_zero_dates: ClassVar[bool] = True

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        typed, text = self.kernels[self.column.type_code]
        digits = self.column.decimals
        if not 0 <= digits <= 6:
            return self._undecodable(f"{digits} fractional digits do not exist")
        as_text = self.has_zero_dates and self.context.options.zero_date == "text"
        if self.context.target is Target.TEXT or as_text:
            return self._plan(text, digits), pa.string()
        return self._plan(typed, digits), self.typed_type

    def finish(self, buffers: Buffers) -> pa.Array:
        if pa.types.is_string(self.arrow_type):
            return var_width(self.arrow_type, buffers)
        return fixed_width(self.arrow_type, buffers)

    def to_json(self, values: pa.Array) -> pa.Array:
        return quoted_plain(values)

    def to_wire(self, value: str) -> bytes:
        return WIRE_OF_TEXT[self.column.type_code](value, self.column.decimals)


class DateType(TemporalType):
    """DATE."""

    typed_type = pa.date32()
    kernels = {
        ct.MYSQL_TYPE_DATE: (Kernel.DATE, Kernel.DATE_TEXT),
        ct.MYSQL_TYPE_NEWDATE: (Kernel.DATE, Kernel.DATE_TEXT),
    }


class TimeType(TemporalType):
    """TIME: a duration. Zero is a value like any other."""

    typed_type = pa.duration("us")
    kernels = {
        ct.MYSQL_TYPE_TIME: (Kernel.TIME_OLD, Kernel.TIME_OLD_TEXT),
        ct.MYSQL_TYPE_TIME2: (Kernel.TIME2, Kernel.TIME2_TEXT),
    }
    has_zero_dates = False


class DateTimeType(TemporalType):
    """DATETIME: wall-clock time without a zone."""

    typed_type = pa.timestamp("us")
    kernels = {
        ct.MYSQL_TYPE_DATETIME: (Kernel.DATETIME_OLD, Kernel.DATETIME_OLD_TEXT),
        ct.MYSQL_TYPE_DATETIME2: (Kernel.DATETIME2, Kernel.DATETIME2_TEXT),
    }


class TimestampType(TemporalType):
    """TIMESTAMP: an instant, UTC."""

    typed_type = pa.timestamp("us", tz="UTC")
    kernels = {
        ct.MYSQL_TYPE_TIMESTAMP: (Kernel.TIMESTAMP_OLD, Kernel.TIMESTAMP_OLD_TEXT),
        ct.MYSQL_TYPE_TIMESTAMP2: (Kernel.TIMESTAMP2, Kernel.TIMESTAMP2_TEXT),
    }
