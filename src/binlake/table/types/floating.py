"""FLOAT and DOUBLE: IEEE little-endian; in JSON the shortest digits that read back the same."""

from __future__ import annotations

import struct

import pyarrow as pa

from binlake.format import column_types as ct
from binlake.table.json_text import real
from binlake.table.types.base import Buffers, ColumnType, fixed_width
from binlake.values.plan import ColumnPlan, Kernel

__all__ = ["FloatingType"]


class FloatingType(ColumnType):
    """FLOAT: a single, and its JSON digits are a single's; DOUBLE."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        if self.column.type_code == ct.MYSQL_TYPE_FLOAT:
            return self._plan(Kernel.FLOAT), pa.float32()
        return self._plan(Kernel.DOUBLE), pa.float64()

    def finish(self, buffers: Buffers) -> pa.Array:
        return fixed_width(self.arrow_type, buffers)

    def to_json(self, values: pa.Array) -> pa.Array:
        return real(values)

    def to_wire(self, value: float) -> bytes:
        return struct.pack("<f" if self.column.type_code == ct.MYSQL_TYPE_FLOAT else "<d", value)
