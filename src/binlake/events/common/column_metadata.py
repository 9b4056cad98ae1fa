"""The metadata of a TABLE_MAP event's columns: their real types, lengths and digits.

Sources: MySQL sql/rpl_utility.cc (read_field_metadata), sql/field.cc (do_save_field_metadata);
MariaDB sql/rpl_utility.cc. How many bytes a type has is format/column_types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from binlake.errors import MalformedError, UnsupportedError
from binlake.events.body.reader import BodyReader
from binlake.format import column_types as ct

#: (real type, length, precision, decimals), as values/plan.ColumnDefinition means them.
ColumnMetadata = tuple[int, int, int, int]

_MAX_PRECISION = 65
_MAX_FSP = 6
_TYPED_ARRAY_VARCHAR_BYTES = 3
_PREFIX_OF_JSON_ARRAY = 4


class _Layout(NamedTuple):
    """Reader and writer of the metadata bytes of a type."""

    read: Callable[[int, bytes], ColumnMetadata]
    write: Callable[[ColumnMetadata], bytes]


def _string(code: int, raw: bytes) -> ColumnMetadata:
    """CHAR, BINARY, ENUM, SET: the real type and the length share the first byte.

    Two bits of a CHAR's byte length (up to 1023) are stored inverted in bits 4 and 5, which
    are set in every real type that can be here.
    """
    real = raw[0] | 0x30
    length = raw[1] | ((raw[0] & 0x30) ^ 0x30) << 4
    if real not in (ct.MYSQL_TYPE_STRING, ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET):
        raise MalformedError(f"type {raw[0]} cannot be the real type of a CHAR column")
    return real, length, 0, 0


def _string_bytes(entry: ColumnMetadata) -> bytes:
    real, length, _, _ = entry
    return bytes((real ^ (length >> 4 & 0x30), length & 0xFF))


def _varchar(code: int, raw: bytes) -> ColumnMetadata:
    return code, int.from_bytes(raw, "little"), 0, 0


def _bit(code: int, raw: bytes) -> ColumnMetadata:
    bits = raw[0] + 8 * raw[1]
    if not 1 <= bits <= 64:
        raise MalformedError(f"a BIT column cannot have {bits} bits")
    return code, bits, 0, 0


def _blob(code: int, raw: bytes) -> ColumnMetadata:
    if not 1 <= raw[0] <= 4:
        raise MalformedError(f"the length of a value cannot take {raw[0]} bytes")
    return code, raw[0], 0, 0


def _real(code: int, raw: bytes) -> ColumnMetadata:
    if raw[0] != ct.COLUMN_TYPES[code].value_bytes:
        raise MalformedError(f"a floating-point value cannot have {raw[0]} bytes")
    return code, raw[0], 0, 0


def _length_byte(entry: ColumnMetadata) -> bytes:
    return bytes((entry[1],))


def _fractional(code: int, raw: bytes) -> ColumnMetadata:
    if raw[0] > _MAX_FSP:
        raise MalformedError(f"a time cannot have {raw[0]} fractional digits")
    return code, 0, 0, raw[0]


def _decimal(code: int, raw: bytes) -> ColumnMetadata:
    precision, scale = raw
    if not 1 <= precision <= _MAX_PRECISION or scale > precision:
        raise MalformedError(f"DECIMAL({precision},{scale}) cannot be")
    return code, 0, precision, scale


_STRING = _Layout(_string, _string_bytes)
_VARCHAR = _Layout(_varchar, lambda entry: entry[1].to_bytes(2, "little"))
_BLOB = _Layout(_blob, _length_byte)
_REAL = _Layout(_real, _length_byte)
_FRACTIONAL = _Layout(_fractional, lambda entry: bytes((entry[3],)))

_LAYOUTS: dict[int, _Layout] = {
    **dict.fromkeys((ct.MYSQL_TYPE_STRING, ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET), _STRING),
    **dict.fromkeys(
        (ct.MYSQL_TYPE_VARCHAR, ct.MYSQL_TYPE_VAR_STRING, ct.MYSQL_TYPE_VARCHAR_COMPRESSED),
        _VARCHAR,
    ),
    ct.MYSQL_TYPE_BIT: _Layout(_bit, lambda entry: bytes((entry[1] % 8, entry[1] // 8))),
    **dict.fromkeys(
        ct.LARGE_TYPES,
        _BLOB,
    ),
    **dict.fromkeys((ct.MYSQL_TYPE_FLOAT, ct.MYSQL_TYPE_DOUBLE), _REAL),
    **dict.fromkeys(ct.FRACTIONAL_TYPES, _FRACTIONAL),
    ct.MYSQL_TYPE_NEWDECIMAL: _Layout(_decimal, lambda entry: bytes(entry[2:])),
}


def decode_column_metadata(
    types: bytes, reader: BodyReader
) -> tuple[tuple[ColumnMetadata, ...], tuple[bytes, ...]]:
    """Read the metadata block, one entry per column, to its end; and the elements of arrays.

    The elements are the types of TYPED_ARRAY columns with their metadata, as bytes. No log contains
    such columns, so binlake does not decode them further.

    Raises TruncatedError, MalformedError, and UnsupportedError for an unknown column type, because
    the length of its metadata is unknown.
    """
    found: list[ColumnMetadata] = []
    elements: list[bytes] = []
    for ordinal, code in enumerate(types):
        known = ct.COLUMN_TYPES.get(code)
        if known is None:
            raise UnsupportedError(f"column {ordinal} has the unknown type {code}")
        layout = _LAYOUTS.get(code)
        if layout is not None:
            raw = reader.take("column_metadata", known.metadata_bytes)
            found.append(layout.read(code, raw))
        elif code == ct.MYSQL_TYPE_TYPED_ARRAY:
            elements.append(_element(reader))
            found.append((code, _PREFIX_OF_JSON_ARRAY, 0, 0))
        else:
            found.append((code, known.value_bytes or 0, 0, 0))
    if reader.left:
        raise MalformedError("bytes follow the last column's metadata", offset=reader.pos)
    return tuple(found), tuple(elements)


def encode_column_metadata(
    types: bytes, entries: Sequence[ColumnMetadata], elements: Sequence[bytes]
) -> bytes:
    """The block that `decode_column_metadata` reads."""
    out = bytearray()
    left = iter(elements)
    for code, entry in zip(types, entries, strict=True):
        layout = _LAYOUTS.get(code)
        if layout is not None:
            out += layout.write(entry)
        elif code == ct.MYSQL_TYPE_TYPED_ARRAY:
            out += next(left)
    return bytes(out)


def _element(reader: BodyReader) -> bytes:
    """The type of an array's elements and its metadata (a VARCHAR's is wider there)."""
    code = reader.u8("column_metadata")
    known = ct.COLUMN_TYPES.get(code)
    if known is None:
        raise UnsupportedError(f"an array has elements of the unknown type {code}")
    width = known.metadata_bytes
    if code == ct.MYSQL_TYPE_VARCHAR:
        width = _TYPED_ARRAY_VARCHAR_BYTES
    return bytes((code,)) + reader.take("column_metadata", width)
