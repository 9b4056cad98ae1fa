"""BINARY, VARBINARY, BLOB: bytes. Also text columns with an unknown character set.

Wire: a length of 1 to 4 bytes, then the bytes. A BINARY(n) loses its trailing 0x00 in the log
and is padded again. In JSON: `0x` and lower-case hex, or base64 by option.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from binlake.core.text.text_rows import ValueColumn
from binlake.format import column_types as ct
from binlake.table.text.json_values import base64_values, hex_values
from binlake.table.text.sql_text import bytes_literal
from binlake.table.types.base import ColumnType, fixed_bytes
from binlake.table.types.missing_metadata import Missing
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel

_COUNTED_BY_LENGTH = (
    ct.MYSQL_TYPE_VARCHAR,
    ct.MYSQL_TYPE_VARCHAR_COMPRESSED,
    ct.MYSQL_TYPE_VAR_STRING,
    ct.MYSQL_TYPE_STRING,
)


def length_prefix_bytes(column: ColumnDefinition) -> int:
    """The width of the length before a value: by maximum length, or from the metadata of a BLOB."""
    if column.type_code in _COUNTED_BY_LENGTH:
        return 1 if column.length <= 255 else 2
    return column.length


def prefixed(raw: bytes, prefix_bytes: int) -> bytes:
    """Bytes behind their length. Raises ValueError if it does not fit into `prefix_bytes`."""
    return fixed_bytes(len(raw), prefix_bytes, "little") + raw


def behind_prefix(stored: memoryview, pos: int, prefix_bytes: int) -> tuple[bytes, int]:
    """The bytes behind the length at `pos`, and where they end; -1 if that is not in the image."""
    start = pos + prefix_bytes
    end = start + int.from_bytes(stored[pos:start], "little")
    return bytes(stored[start:end]), end if end <= len(stored) else -1


class BinaryType(ColumnType):
    """Bytes, unchanged."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        prefix = length_prefix_bytes(self.column)
        if not 1 <= prefix <= 4:
            return self._undecodable(f"a length of {prefix} bytes does not exist")
        return self._plan(Kernel.BYTES, prefix, self.padded_bytes()), pa.binary()

    def padded_bytes(self) -> int:
        """Length that shorter values are padded to with 0x00; 0 for none."""
        return self.column.length if self.column.type_code == ct.MYSQL_TYPE_STRING else 0

    def to_json(self, values: pa.Array) -> ValueColumn:
        if self.context.options.binary == "base64":
            return base64_values(values)
        return hex_values(values)

    def to_wire(self, value: Any) -> bytes:
        return prefixed(self.content(value), self.plan.p0)

    def is_same_content(self, raw: bytes, value: Any) -> bool:
        """Whether `raw` is the value's bytes."""
        return raw == self.content(value)

    def content(self, value: Any) -> bytes:
        """The bytes of a value without their length: BINARY's without the padding."""
        raw = bytes(value)
        return raw.rstrip(b"\0") if self.padded_bytes() else raw

    def to_sql(self, values: pa.Array) -> pa.Array:
        return bytes_literal(values)


class UnknownTextType(BinaryType):
    """A column that may be text or binary: the log does not contain its character set."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        self.context.note_missing(Missing.CHARSET, self.column)
        return super().decide()

    def padded_bytes(self) -> int:
        return 0  # a CHAR is not padded, and this may be one
