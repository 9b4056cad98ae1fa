"""CHAR, VARCHAR, TEXT of every character set, as UTF-8.

Of three ways, it uses the cheapest one that gives the right result:

- utf8mb4, utf8mb3, ascii: the bytes are used unchanged, and validated;
- single-byte sets that define all 256 bytes: converted by the kernel, through a table;
- all others: value by value, unless a whole batch is plain ASCII.

Bytes that are not valid in their character set are an error, or with `invalid=hex` shown as
the SQL literal of those bytes, `_utf8mb4 0xff41`; never replaced or dropped.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.columns.text_columns import is_ascii, is_utf8
from binlake.core.text.text_rows import ValueColumn
from binlake.format.charsets import CHARSETS
from binlake.source.arrays import array, scalar
from binlake.table.text.json_text import join
from binlake.table.text.json_values import strings
from binlake.table.text.sql_text import string_literal
from binlake.table.types.base import Buffers, ColumnContext, ColumnType, var_width
from binlake.table.types.binary import behind_prefix, length_prefix_bytes, prefixed
from binlake.values.charset_text import decode, encode, single_byte_table
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel

_FAITHFUL = ("latin1", "ucs2", "utf16", "utf16le", "utf32")  # no two codes are one character
_INDEXED_BYTES = 256  # of a literal that is worth comparing twice
_SHOWN_BYTES = 32  # of an invalid value, in a message


class TextType(ColumnType):
    """A character column whose character set is known."""

    def __init__(self, column: ColumnDefinition, context: ColumnContext, charset: str) -> None:
        self._charset = charset
        self._ascii_stays = _ascii_stays(charset)
        super().__init__(column, context)

    @property
    def charset(self) -> str | None:
        return self._charset

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        prefix = length_prefix_bytes(self.column)
        if not 1 <= prefix <= 4:
            return self._undecodable(f"a length of {prefix} bytes does not exist")
        if CHARSETS[self._charset].kind == "single":
            table = single_byte_table(self._charset)
            if None not in table:
                return self._plan(Kernel.LATIN, prefix, table=table), pa.string()
        return self._plan(Kernel.BYTES, prefix), pa.string()

    def finish(self, buffers: Buffers) -> pa.Array:
        if self.plan.kernel is Kernel.LATIN:
            return var_width(pa.string(), buffers)
        known = CHARSETS[self._charset]
        if known.kind == "utf8":
            offsets = memoryview(buffers.offsets).cast("B")
            taken = is_utf8(buffers.data, offsets, buffers.count, known.max_bytes)
        else:
            taken = self._ascii_stays and is_ascii(buffers.data)
        return var_width(pa.string(), buffers) if taken else self._decode_each(buffers)

    def to_json(self, values: pa.Array) -> ValueColumn:
        return strings(values)

    def to_wire(self, value: str) -> bytes:
        return prefixed(self.content(value), length_prefix_bytes(self.column))

    def end_of_same(self, stored: memoryview, pos: int, value: Any) -> int:
        raw, end = behind_prefix(stored, pos, length_prefix_bytes(self.column))
        return end if self.is_same_content(raw, value) else -1

    def is_same_content(self, raw: bytes, value: str) -> bool:
        """Whether `raw` is the value's bytes; of a character that has two codes, either."""
        if raw == self.content(value):
            return True
        if CHARSETS[self._charset].kind == "utf8":
            return False
        try:  # cp932, for one, has IBM's characters also where NEC has them
            return decode(self._charset, raw) == value
        except UnicodeDecodeError:
            return False

    def content(self, value: str) -> bytes:
        """The bytes of a value in the column's character set, without their length."""
        lead = f"_{self._charset} 0x"
        if value.startswith(lead):
            try:
                raw = bytes.fromhex(value[len(lead) :])
                decode(self._charset, raw)
            except UnicodeDecodeError:
                return raw  # shown as hex because it is not text
            except ValueError:
                pass
        return encode(self._charset, value)

    def to_sql(self, values: pa.Array) -> pa.Array:
        return string_literal(values)

    def sql_equal(self, values: pa.Array, literals: pa.Array) -> pa.Array:
        """Compare by bytes: in most collations 'a' equals 'A', and 'a ' too. A plain comparison of
        a short value comes first, because only that can use an index.
        """
        exact = self._sql_same_bytes(literals)
        if not self._sql_compares:
            return exact
        short = pc.less_equal(pc.binary_length(literals), scalar(_INDEXED_BYTES))
        return pc.if_else(short, join(super().sql_equal(values, literals), " AND ", exact), exact)

    def sql_key_equal(self, values: pa.Array, literals: pa.Array) -> pa.Array:
        if self._sql_compares:
            return super().sql_key_equal(values, literals)
        return self._sql_same_bytes(literals)

    @property
    def _sql_compares(self) -> bool:
        """Whether a server finds a value by its text: where two codes of the character set are
        one character (the apostrophe of armscii8), it may look for the other.
        """
        return CHARSETS[self._charset].kind == "utf8" or self._charset in _FAITHFUL

    def _sql_same_bytes(self, literals: pa.Array) -> pa.Array:
        column = f"CAST(CONVERT({self.sql_name} USING utf8mb4) AS BINARY)"
        return join(column, " <=> CAST(", literals, " AS BINARY)")

    def _decode_each(self, buffers: Buffers) -> pa.Array:
        data = memoryview(buffers.data)
        offsets = memoryview(buffers.offsets).cast("B").cast("i")
        texts = []
        for row in range(buffers.count):
            raw = bytes(data[offsets[row] : offsets[row + 1]])
            try:
                texts.append(decode(self._charset, raw))
            except UnicodeDecodeError:
                texts.append(self._invalid(raw, row))
        made = array(texts, pa.string())
        if isinstance(made, pa.ChunkedArray):
            raise self._too_large()
        if buffers.null_count == 0:
            return made
        validity = pa.py_buffer(buffers.validity)
        return pa.Array.from_buffers(
            pa.string(), buffers.count, [validity, *made.buffers()[1:]], buffers.null_count
        )

    def _invalid(self, raw: bytes, row: int) -> str:
        if self.context.options.invalid == "error":
            shown = raw[:_SHOWN_BYTES].hex() + ("…" if len(raw) > _SHOWN_BYTES else "")
            raise self._malformed(
                f"0x{shown} is not valid {self._charset}",
                row,
                "invalid=hex shows such values as hex",
            )
        self.context.warn(
            f"{self.name}: has values that are not valid {self._charset}; shown as hex"
        )
        return f"_{self._charset} 0x{raw.hex()}"


class InflatedTextType(TextType):
    """Text whose bytes come out of a compressed value: no kernel has converted them yet."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        return self._plan(Kernel.BYTES), pa.string()


def _ascii_stays(charset: str) -> bool:
    """Return whether every ASCII byte has its ASCII meaning in a character set, so that ASCII text needs no conversion."""
    ascii_bytes = bytes(range(128))
    try:
        return decode(charset, ascii_bytes) == ascii_bytes.decode("ascii")
    except UnicodeDecodeError:
        return False
