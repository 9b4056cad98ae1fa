"""BIT(n): a big-endian bit string of ceil(n / 8) bytes, shown as a number."""

from __future__ import annotations

import pyarrow as pa

from binlake.core.text.text_rows import ValueColumn
from binlake.table.text.json_text import number
from binlake.table.text.json_values import integers
from binlake.table.types.base import ColumnType, Target, fixed_bytes
from binlake.values.plan import ColumnPlan, Kernel


class BitType(ColumnType):
    """BIT(1) to BIT(63) fit int64; BIT(64) is decimal(20,0), or uint64 for the text target."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        bits = self.column.length
        if not 0 < bits <= 64:
            return self._undecodable(f"BIT({bits}) does not exist")
        if bits == 64 and self.context.target is not Target.TEXT:
            return self._plan(Kernel.BIT_DECIMAL, 8), pa.decimal128(20, 0)
        # 64 bits: the kernel writes the bit pattern of an unsigned number
        return self._plan(Kernel.BIT, (bits + 7) // 8), pa.uint64() if bits == 64 else pa.int64()

    def to_json(self, values: pa.Array) -> ValueColumn:
        return integers(values)

    def to_wire(self, value: int) -> bytes:
        return fixed_bytes(value, (self.column.length + 7) // 8, "big")

    def to_sql(self, values: pa.Array) -> pa.Array:
        return number(values)
