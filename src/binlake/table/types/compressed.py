"""MariaDB's COMPRESSED columns: the inner type's values, each inflated.

After the length: nothing for '', else a head byte (high nibble: 0 stored raw, 8 zlib; bit
0x08: raw deflate; low 3 bits: k), k bytes big-endian original length, the data.
"""

from __future__ import annotations

import zlib
from array import array
from typing import Any, Self

import pyarrow as pa

from binlake.core.events.inflate import MAX_RATIO
from binlake.core.text.text_rows import ValueColumn
from binlake.table.types.base import (
    MAX_COLUMN_BYTES,
    Buffers,
    ByteValues,
    ColumnContext,
    ColumnType,
)
from binlake.table.types.binary import BinaryType, behind_prefix, length_prefix_bytes, prefixed
from binlake.table.types.text import TextType
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel


class CompressedType(ColumnType):
    """VARCHAR, BLOB or TEXT with the attribute COMPRESSED."""

    def __init__(
        self, column: ColumnDefinition, context: ColumnContext, inner: BinaryType | TextType
    ) -> None:
        self.inner = inner  # the type of the inflated bytes
        super().__init__(column, context)

    def of_table(self, context: ColumnContext) -> Self:
        made = super().of_table(context)
        made.inner = self.inner.of_table(context)
        return made

    @property
    def charset(self) -> str | None:
        return self.inner.charset

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        prefix = length_prefix_bytes(self.column)
        if not 1 <= prefix <= 4:
            return self._undecodable(f"a length of {prefix} bytes does not exist")
        return self._plan(Kernel.BYTES, prefix, compressed=True), self.inner.arrow_type

    def finish(self, buffers: Buffers) -> pa.Array:
        data = memoryview(buffers.data)
        offsets = memoryview(buffers.offsets).cast("B").cast("i")
        ends = array("i", [0])
        values: list[bytes] = []
        total = 0
        for row in range(buffers.count):
            try:
                value = inflate_value(bytes(data[offsets[row] : offsets[row + 1]]))
            except ValueError as error:
                raise self._malformed(f"compressed value: {error}", row) from None
            values.append(value)
            total += len(value)
            if total > MAX_COLUMN_BYTES:
                raise self._too_large()
            ends.append(total)
        inflated = ByteValues(
            buffers.count, buffers.null_count, buffers.validity, ends, b"".join(values)
        )
        return self.inner.finish(inflated)

    def to_json(self, values: pa.Array) -> ValueColumn:
        return self.inner.to_json(values)

    def to_wire(self, value: Any) -> bytes:
        """Another zlib than the server's may produce other bytes."""
        return prefixed(deflate_value(self.inner.content(value)), self.plan.p0)

    def end_of_same(self, stored: memoryview, pos: int, value: Any) -> int:
        raw, end = behind_prefix(stored, pos, self.plan.p0)
        try:
            same = self.inner.is_same_content(inflate_value(raw), value)
        except ValueError:
            return -1
        return end if same else -1

    def to_sql(self, values: pa.Array) -> pa.Array:
        return self.inner.to_sql(values)

    def sql_equal(self, values: pa.Array, literals: pa.Array) -> pa.Array:
        return self.inner.sql_equal(values, literals)

    def sql_key_equal(self, values: pa.Array, literals: pa.Array) -> pa.Array:
        return self.inner.sql_key_equal(values, literals)


def deflate_value(value: bytes) -> bytes:
    """Return a value compressed, or uncompressed after a head of 0 if that is shorter."""
    if not value:
        return b""
    width = (len(value).bit_length() + 7) // 8
    packed = bytes((0x80 | width,)) + len(value).to_bytes(width, "big") + zlib.compress(value)
    return packed if len(packed) <= len(value) else b"\0" + value


def inflate_value(raw: bytes) -> bytes:
    """The original of one compressed value. Raises ValueError with the reason."""
    if not raw:
        return b""
    head = raw[0]
    if head & 0xF0 == 0:
        return raw[1:]
    if head & 0xF0 != 0x80:
        raise ValueError(f"method {head >> 4} is not known")
    start = 1 + (head & 7)
    if start > len(raw):
        raise ValueError("it ends inside its length")
    claimed = int.from_bytes(raw[1:start], "big")
    packed = raw[start:]
    if claimed > len(packed) * MAX_RATIO:
        raise ValueError(f"{len(packed)} bytes cannot hold the {claimed} that it claims")
    window_bits = -zlib.MAX_WBITS if head & 0x08 else zlib.MAX_WBITS
    try:
        value = zlib.decompressobj(window_bits).decompress(packed, claimed + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(value) != claimed:
        raise ValueError(f"inflates to {len(value)} bytes or more, not to the {claimed} it claims")
    return value
