"""Values of columns that the lake keeps as text, in the form that the server's `CAST(… AS CHAR)` gives.

Bytes, which have no such form in every character set, are hexadecimal digits in lower case. BIT is its number, a
TIMESTAMP is in UTC, and a ZEROFILL column has no leading zeros. A FLOAT has more than six digits if its value needs
them, so that no value is lost.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from decimal import Decimal

import pyarrow as pa

from binlake.mirror.equality.value_texts import Texts, real_text, texts_of
from binlake.source.arrays import array
from binlake.values.plan import ColumnDefinition

_FLOAT_DIGITS = 6  # a server prints so many of a FLOAT
_MOST_FLOAT_DIGITS = 9  # which every FLOAT survives
_MOMENT_CHARACTERS = len("2026-01-02 03:04:05")


def has_text(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type can be kept as text: all but lists."""
    return not pa.types.is_nested(kind)


def server_texts(values: pa.Array, column: ColumnDefinition) -> pa.Array:
    """The texts of a column's values as the log's reader decodes them; null stays null."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return values.cast(pa.string())
    return array(_texts(values, kind, column), pa.string())


def _texts(values: pa.Array, kind: pa.DataType, column: ColumnDefinition) -> Texts:
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [None if one is None else one.hex() for one in values.to_pylist()]
    if pa.types.is_float32(kind):
        return [None if one is None else _float_text(one) for one in values.to_pylist()]
    texts = texts_of(values, _no_digest)
    if pa.types.is_timestamp(kind):
        length = _MOMENT_CHARACTERS + (1 + column.decimals if column.decimals else 0)
        return [None if text is None else text[:length] for text in texts]
    return texts


def _float_text(value: float) -> str:
    """A FLOAT with the digits that a server prints, or with as many as its value needs: FLOAT(10,2) has more."""
    text = ""
    for digits in range(_FLOAT_DIGITS, _MOST_FLOAT_DIGITS + 1):
        text = f"{value:.{digits - 1}e}"
        with suppress(OverflowError):  # rounded up, it is beyond the largest
            if struct.unpack("<f", struct.pack("<f", float(text)))[0] == value:
                break
    return real_text(Decimal(text))


def _no_digest(data: bytes) -> str:
    """Types whose texts are digests have none here."""
    raise TypeError(f"{len(data)} bytes should have been text already")
