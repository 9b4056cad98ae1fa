"""FLOAT and DOUBLE: IEEE little-endian; in JSON the shortest digits that read back the same."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.text.text_rows import ValueColumn
from binlake.format import column_types as ct
from binlake.source.arrays import scalar
from binlake.table.text.json_text import join
from binlake.table.text.json_values import reals
from binlake.table.text.sql_text import float_literal
from binlake.table.types.base import ColumnType
from binlake.values.plan import ColumnPlan, Kernel

_LIKE_NEGATIVE = scalar(" LIKE '-%'", pa.large_string())
_LIKE_POSITIVE = scalar(" NOT LIKE '-%'", pa.large_string())


class FloatingType(ColumnType):
    """FLOAT: a single, and its JSON digits are a single's; DOUBLE."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        if self.column.type_code == ct.MYSQL_TYPE_FLOAT:
            return self._plan(Kernel.FLOAT), pa.float32()
        return self._plan(Kernel.DOUBLE), pa.float64()

    def to_json(self, values: pa.Array) -> ValueColumn:
        return reals(values)

    def to_wire(self, value: float) -> bytes:
        return struct.pack("<f" if self.column.type_code == ct.MYSQL_TYPE_FLOAT else "<d", value)

    def to_sql(self, values: pa.Array) -> pa.Array:
        return float_literal(values)

    def sql_equal(self, values: pa.Array, literals: pa.Array) -> pa.Array:
        equal = super().sql_equal(values, literals)
        zero = pc.equal(values, scalar(0, values.type))
        if not pc.any(zero).as_py():
            return equal
        # -0 equals 0, and is another value
        negative = pc.starts_with(literals, "'-")
        signed = pc.if_else(negative, _LIKE_NEGATIVE, _LIKE_POSITIVE)
        exact = join(equal, f" AND CONCAT({self.sql_name})", signed)
        return pc.if_else(zero.fill_null(scalar(False)), exact, equal)
