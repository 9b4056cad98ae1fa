"""DECIMAL(p, s): exact, as decimal128 to 38 digits, as the server's text beyond and for `rows`.

Wire: groups of nine digits big-endian, sign in the first bit.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pyarrow as pa

from binlake.core.text.text_rows import ValueColumn
from binlake.table.text.json_values import plain_strings
from binlake.table.types.base import ColumnType, Target, fixed_bytes
from binlake.values.plan import ColumnPlan, Kernel

_MAX_DECIMAL128_DIGITS = 38
_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # of a group of 0 to 9 digits


class DecimalType(ColumnType):
    """DECIMAL, since MySQL 5.0."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        precision, scale = self.column.precision, self.column.decimals
        if not (0 < precision <= 65 and 0 <= scale <= precision):
            return self._undecodable(f"DECIMAL({precision},{scale}) does not exist")
        if self.context.target is not Target.TEXT and precision <= _MAX_DECIMAL128_DIGITS:
            return self._plan(Kernel.DECIMAL, precision, scale), pa.decimal128(precision, scale)
        return self._plan(Kernel.DECIMAL_TEXT, precision, scale), pa.string()

    def to_json(self, values: pa.Array) -> ValueColumn:
        return plain_strings(values)

    def to_wire(self, value: str) -> bytes:
        return decimal_bytes(value, self.column.precision, self.column.decimals)

    def to_sql(self, values: pa.Array) -> pa.Array:
        return values.cast(pa.large_string())


def decimal_bytes(text: str, precision: int, scale: int) -> bytes:
    """The text of a DECIMAL(precision, scale) as wire bytes. Raises ValueError."""
    whole, _, fraction = text.removeprefix("-").partition(".")
    digits = whole.lstrip("0").rjust(precision - scale, "0") + fraction.ljust(scale, "0")
    if len(digits) != precision or not digits.isdecimal():
        raise ValueError(f"{text!r} is not DECIMAL({precision},{scale})")
    raw = bytearray()
    for first, last in _groups(precision - scale, scale):
        raw += fixed_bytes(int(digits[first:last]), _GROUP_BYTES[last - first], "big")
    if text.startswith("-"):
        raw = bytearray(byte ^ 0xFF for byte in raw)
    raw[0] ^= 0x80
    return bytes(raw)


@cache
def _groups(whole: int, scale: int) -> tuple[tuple[int, int], ...]:
    """The digits of each group on the wire: nines from the point outwards, short groups outside."""
    point = whole
    bounds = [*range(point % 9, point + 1, 9), *range(point + 9, point + scale, 9), point + scale]
    starts = sorted({0, *bounds})
    return tuple(pairwise(starts))
