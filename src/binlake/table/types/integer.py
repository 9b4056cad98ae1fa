"""Integers and YEAR: TINYINT to BIGINT, signed and unsigned.

Wire: 1, 2, 3, 4 or 8 bytes little-endian; only optional metadata or a schema contains the sign.
If it is unknown, the value is read as signed and a warning says so.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.text.text_rows import ValueColumn
from binlake.format import column_types as ct
from binlake.table.text.json_text import number
from binlake.table.text.json_values import integers
from binlake.table.text.sql_text import plain_string
from binlake.table.types.base import ColumnType, Target, fixed_bytes
from binlake.table.types.missing_metadata import Missing
from binlake.values.plan import ColumnPlan, Kernel

# by bytes on the wire
_SIGNED = {1: pa.int8(), 2: pa.int16(), 3: pa.int32(), 4: pa.int32(), 8: pa.int64()}
_UNSIGNED = {1: pa.int16(), 2: pa.int32(), 3: pa.int32(), 4: pa.int64()}

_YEAR_0 = 1900  # a stored 0 is the year 0


class IntegerType(ColumnType):
    """TINYINT, SMALLINT, MEDIUMINT, INT, BIGINT: the next wider signed type when unsigned."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        width = ct.COLUMN_TYPES[self.column.type_code].value_bytes or 0
        if self.column.unsigned is None:
            self.context.note_missing(Missing.SIGN, self.column)
        if not self.column.unsigned:
            return self._plan(Kernel.INT, width), _SIGNED[width]
        if width < 8:
            return self._plan(Kernel.INT, width, 1), _UNSIGNED[width]
        if self.context.target is Target.TEXT:
            return self._plan(Kernel.UINT64), pa.uint64()
        return self._plan(Kernel.UINT64_DECIMAL), pa.decimal128(20, 0)

    def to_json(self, values: pa.Array) -> ValueColumn:
        return integers(values)

    def to_wire(self, value: int) -> bytes:
        width = ct.COLUMN_TYPES[self.column.type_code].value_bytes or 0
        return fixed_bytes(value, width, "little", signed=not self.column.unsigned)

    def to_sql(self, values: pa.Array) -> pa.Array:
        return number(values)


class YearType(ColumnType):
    """YEAR: one byte, 0 is the year 0, otherwise 1900 + value."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        return self._plan(Kernel.YEAR), pa.int16()

    def to_json(self, values: pa.Array) -> ValueColumn:
        return integers(values)

    def to_wire(self, value: int) -> bytes:
        return fixed_bytes(value - _YEAR_0 if value else 0, 1, "little")

    def to_sql(self, values: pa.Array) -> pa.Array:
        # as a string of four digits: 0 would do, but no other year below 100
        return plain_string(pc.utf8_lpad(values.cast(pa.large_string()), 4, "0"))
