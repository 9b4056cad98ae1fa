"""DATE, TIME, DATETIME and TIMESTAMP, in the old and the fractional wire formats.

DATETIME has no zone, TIMESTAMP is UTC, TIME is a signed duration to +-838:59:59. A typed
column cannot hold zero and partial dates ('0000-00-00', '2026-00-00'): the option zero_date
makes them null and counts them, makes them an error, or makes the whole column text.
"""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.text.text_rows import ValueColumn
from binlake.errors import UnsupportedError
from binlake.format import column_types as ct
from binlake.source.arrays import scalar
from binlake.table.text.json_values import plain_strings
from binlake.table.text.sql_text import plain_string
from binlake.table.types.base import Buffers, ColumnType, Target, var_width
from binlake.table.types.temporal_wire import WIRE_OF_TEXT
from binlake.values.plan import ColumnPlan, Kernel
from binlake.values.times import IN_MICROSECONDS


class TemporalType(ColumnType):
    """Common to all: a typed kernel and a text kernel per wire format."""

    typed_type: ClassVar[pa.DataType]
    kernels: ClassVar[dict[int, tuple[Kernel, Kernel]]]  # by type code: typed, text

    @property
    def policy(self) -> str:
        """The treatment of values that the type cannot represent: a value of the option zero_date."""
        return self.context.options.zero_date

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        typed, text = self.kernels[self.column.type_code]
        digits = self.column.decimals
        if not 0 <= digits <= 6:
            return self._undecodable(f"{digits} fractional digits do not exist")
        policy = self.policy
        if self.context.target is Target.TEXT or policy == "text":
            return self._plan(text, digits), pa.string()
        # the typed kernel only counts invalid dates, but the error has to name a row
        return self._plan(text if policy == "error" else typed, digits), self.typed_type

    def finish(self, buffers: Buffers) -> pa.Array:
        if buffers.offsets is None or pa.types.is_string(self.arrow_type):
            return super().finish(buffers)
        return self._dates_of(var_width(pa.string(), buffers))

    def _dates_of(self, texts: pa.Array) -> pa.Array:
        """The server's texts as values of the type. Raises UnsupportedError with the `row`."""
        # rows without an image are empty
        texts = pc.if_else(pc.equal(pc.binary_length(texts), scalar(0)), scalar(None), texts)
        dates = self._cast(texts)
        if dates is not None:
            return dates
        good, bad = 0, len(texts)  # the first `good` are dates, the first `bad` are not all
        while bad - good > 1:
            middle = (good + bad) // 2
            if self._cast(texts.slice(good, middle - good)) is not None:
                good = middle
            else:
                bad = middle
        raise UnsupportedError(
            f"column {self.name}: {texts[good]} is a zero or partial date, which its type cannot hold",
            hint="zero_date=null makes them null and counts them, zero_date=text keeps them",
            row=good,
        )

    def _cast(self, texts: pa.Array) -> pa.Array | None:
        """Return None if a value is not a date. Arrow has a year 0; the servers do not."""
        if pc.any(pc.starts_with(texts, "0000")).as_py():
            return None
        plain = pa.date32() if pa.types.is_date(self.arrow_type) else pa.timestamp("us")
        try:
            return texts.cast(plain).cast(self.arrow_type)
        except pa.ArrowInvalid:
            return None

    def to_json(self, values: pa.Array) -> ValueColumn:
        return plain_strings(values)

    def to_wire(self, value: str) -> bytes:
        return WIRE_OF_TEXT[self.column.type_code](value, self.column.decimals)

    def to_sql(self, values: pa.Array) -> pa.Array:
        return plain_string(values)


class DateType(TemporalType):
    """DATE."""

    typed_type = pa.date32()
    kernels = {
        ct.MYSQL_TYPE_DATE: (Kernel.DATE, Kernel.DATE_TEXT),
        ct.MYSQL_TYPE_NEWDATE: (Kernel.DATE, Kernel.DATE_TEXT),
    }


class TimeType(TemporalType):
    """TIME: a duration, in the form that the option time names. Zero is a value like any other."""

    typed_type = pa.duration("us")
    kernels = {
        ct.MYSQL_TYPE_TIME: (Kernel.TIME_OLD, Kernel.TIME_OLD_TEXT),
        ct.MYSQL_TYPE_TIME2: (Kernel.TIME2, Kernel.TIME2_TEXT),
    }

    @property
    def policy(self) -> str:
        return "text" if self.context.options.time == "text" else "null"

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        plan, arrow_type = super().decide()
        counted = self.context.options.time == "micros" and pa.types.is_duration(arrow_type)
        return plan, pa.int64() if counted else arrow_type

    def field(self) -> pa.Field:
        plain = super().field()
        if pa.types.is_string(plain.type):
            return plain
        return plain.with_metadata({**plain.metadata, **IN_MICROSECONDS})


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
