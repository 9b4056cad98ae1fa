"""MariaDB's UUID, INET6 and INET4, which the log gives as fixed binary strings.

Only a schema distinguishes them from BINARY(16) and BINARY(4). The bytes are in the order of the
text; trailing 0x00 are trimmed in the log and padded again.
"""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.text.text_rows import ValueColumn
from binlake.source.arrays import array
from binlake.table.text.json_text import hex_text
from binlake.table.text.json_values import plain_strings
from binlake.table.text.sql_text import plain_string
from binlake.table.types.base import Buffers, var_width
from binlake.table.types.binary import BinaryType
from binlake.values.plan import ColumnPlan

NETWORK_BYTES = {"uuid": 16, "inet6": 16, "inet4": 4}


class UuidType(BinaryType):
    """UUID: 16 bytes, as 8-4-4-4-12 lower-case hex digits."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        plan, _ = super().decide()
        return plan, pa.string()

    def finish(self, buffers: Buffers) -> pa.Array:
        digits = hex_text(var_width(pa.binary(), buffers))
        grouped = pc.replace_substring_regex(
            digits, "^(.{8})(.{4})(.{4})(.{4})(.{12})$", r"\1-\2-\3-\4-\5"
        )
        return grouped.cast(pa.string())

    def to_json(self, values: pa.Array) -> ValueColumn:
        return plain_strings(values)

    def content(self, value: Any) -> bytes:
        return super().content(bytes.fromhex(value.replace("-", "")))

    def to_sql(self, values: pa.Array) -> pa.Array:
        return plain_string(values)


class InetType(UuidType):
    """INET6 and INET4, as the server writes them."""

    def finish(self, buffers: Buffers) -> pa.Array:
        coded = var_width(pa.binary(), buffers).dictionary_encode()
        texts = [_inet_text(raw) for raw in coded.dictionary.to_pylist()]
        return array(texts, pa.string()).take(coded.indices)

    def content(self, value: Any) -> bytes:
        return BinaryType.content(self, ip_address(value).packed if value else b"")


def _inet_text(raw: bytes) -> str:
    if not raw:
        return ""  # the text of rows without a value, which no row shows
    return ".".join(map(str, raw)) if len(raw) == NETWORK_BYTES["inet4"] else inet6_text(raw)


def inet6_text(raw: bytes) -> str:
    """16 bytes as the server writes an IPv6 address.

    The longest run of zero words becomes `::`, the first of equals, even a run of one word
    (RFC 5952 would keep that); addresses in ::/96 and ::ffff:0:0/96 end in dotted form.
    """
    words = struct.unpack(">8H", raw)
    start, length = _longest_zero_run(words)
    if start == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF)):
        head = "::" if length == 6 else "::ffff:"
        return head + ".".join(map(str, raw[12:]))
    text = [f"{word:x}" for word in words]
    if length == 0:
        return ":".join(text)
    return ":".join(text[:start]) + "::" + ":".join(text[start + length :])


def _longest_zero_run(words: tuple[int, ...]) -> tuple[int, int]:
    best, length, start = 0, 0, 0
    for at, word in enumerate((*words, 1)):
        if word:
            if at - start > length:
                best, length = start, at - start
            start = at + 1
    return best, length
