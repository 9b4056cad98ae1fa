"""DECIMAL(p, s): exact, as decimal128 to 38 digits, as the server's text beyond and for `rows`.

Wire: groups of nine digits big-endian, sign in the first bit (formats.md §2.4).
"""

from __future__ import annotations

import pyarrow as pa

from binlake.table.json_text import quoted_plain
from binlake.table.types.base import Buffers, ColumnType, Target, fixed_width, var_width
from binlake.values.plan import ColumnPlan, Kernel

__all__ = ["DecimalType"]

_MAX_DECIMAL128_DIGITS = 38


class DecimalType(ColumnType):
    """DECIMAL, since MySQL 5.0."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        precision, scale = self.column.precision, self.column.decimals
        if not (0 < precision <= 65 and 0 <= scale <= precision):
            return self._undecodable(f"DECIMAL({precision},{scale}) does not exist")
        if self.context.target is Target.TYPED and precision <= _MAX_DECIMAL128_DIGITS:
            return self._plan(Kernel.DECIMAL, precision, scale), pa.decimal128(precision, scale)
        return self._plan(Kernel.DECIMAL_TEXT, precision, scale), pa.string()

    def finish(self, buffers: Buffers) -> pa.Array:
        if self.plan.kernel is Kernel.DECIMAL_TEXT:
            return var_width(self.arrow_type, buffers)
        return fixed_width(self.arrow_type, buffers)

    def to_json(self, values: pa.Array) -> pa.Array:
        return quoted_plain(values)

    def to_sql(self, values: pa.Array) -> pa.Array:
        return values.cast(pa.large_string())
