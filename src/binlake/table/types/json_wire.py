"""Convert a JSON document's text to the binary document that it was rendered from.

The text does not distinguish a date from a string, or integers of different widths, so these types
come from the stored document. Everything else (counts, sizes, offsets, order, values) is computed
again, in the server's layout: entries of keys, entries of values, keys, values. Source:
sql-common/json_binary.cc, serialize_json_value.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from typing import Any

from binlake.format import column_types as ct
from binlake.table.types.base import fixed_bytes
from binlake.table.types.decimal import decimal_bytes
from binlake.table.types.temporal_wire import packed_datetime, packed_time

_LITERAL, _INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64 = range(0x04, 0x0B)
_DOUBLE, _STRING, _OPAQUE = 0x0B, 0x0C, 0x0F

_OBJECTS = {0x00: 2, 0x01: 4}  # container types, and the bytes of their counts and offsets
_ARRAYS = {0x02: 2, 0x03: 4}
_CONTAINERS = _OBJECTS | _ARRAYS
_LITERALS = {None: 0, True: 1, False: 2}
_INTEGERS = {
    _INT16: (2, True), _UINT16: (2, False), _INT32: (4, True), _UINT32: (4, False),
    _INT64: (8, True), _UINT64: (8, False),
}  # fmt: skip
_KEY_LENGTH_BYTES = 2


class _Number(str):
    """A number as in the text; its type distinguishes it from a string."""

    __slots__ = ()


class _Members(list[tuple[str, Any]]):
    """The members of an object, in their order."""


def document_bytes(text: str, stored: bytes) -> bytes:
    """The binary document of `text` with the types of `stored`.

    Raises ValueError if the two do not match.
    """
    if not stored:
        return b""  # a null
    value = json.loads(text, parse_int=_Number, parse_float=_Number, object_pairs_hook=_Members)
    try:
        return stored[:1] + _value(stored[0], memoryview(stored)[1:], value)
    except (IndexError, KeyError, TypeError, struct.error) as error:
        raise ValueError(f"the text is not that of the stored document: {error}") from None


def _as(kind: type[str], value: Any) -> str:
    """The value, which has to be a number or a string as the text spells it."""
    if type(value) is not kind:
        raise ValueError(f"{value!r:.40} does not fit the type that is stored")
    assert isinstance(value, str)
    return value


def _value(kind: int, stored: memoryview, value: Any) -> bytes:
    """A value after its type; `stored` begins where it is stored, for the types inside it."""
    if kind in _CONTAINERS:
        return _container(kind, stored, value)
    if kind in _INTEGERS:
        width, signed = _INTEGERS[kind]
        return fixed_bytes(int(_as(_Number, value)), width, "little", signed=signed)
    if kind == _LITERAL:
        return bytes((_LITERALS[value],))
    if kind == _DOUBLE:
        return struct.pack("<d", float(_as(_Number, value)))
    if kind == _STRING:
        return _counted(_as(str, value).encode("utf-8"))
    if kind == _OPAQUE:
        return stored[:1].tobytes() + _counted(_opaque(stored, value))
    raise ValueError(f"type {kind} is not known")


def _container(kind: int, stored: memoryview, value: Any) -> bytes:
    """Counts and sizes, entries, keys, values; offsets count from here."""
    width = _CONTAINERS[kind]
    is_object = kind in _OBJECTS
    if isinstance(value, _Members) != is_object or not isinstance(value, list):
        raise ValueError("an object is an array, or the other way round")
    keys = [key.encode("utf-8") for key, _ in value] if is_object else []
    values = [item for _, item in value] if is_object else value
    at = 2 * width + len(keys) * (width + _KEY_LENGTH_BYTES)  # of the values' entries
    entry_bytes = 1 + width
    reached = at + len(values) * entry_bytes
    head = bytearray()
    for key in keys:
        head += fixed_bytes(reached, width, "little")
        head += fixed_bytes(len(key), _KEY_LENGTH_BYTES, "little")
        reached += len(key)
    data = bytearray()
    for item in values:
        child = stored[at]
        head.append(child)
        if _is_inlined(child, width):
            head += _inlined(child, width, item)
        else:
            place = int.from_bytes(stored[at + 1 : at + entry_bytes], "little")
            head += fixed_bytes(reached + len(data), width, "little")
            data += _value(child, stored[place:], item)
        at += entry_bytes
    size = reached + len(data)
    counts = fixed_bytes(len(values), width, "little") + fixed_bytes(size, width, "little")
    return counts + bytes(head) + b"".join(keys) + bytes(data)


def _is_inlined(kind: int, width: int) -> bool:
    """Return whether such a value is stored in its entry, instead of an offset of `width` bytes."""
    return kind == _LITERAL or (kind in _INTEGERS and _INTEGERS[kind][0] <= width)


def _inlined(kind: int, width: int, value: Any) -> bytes:
    if kind == _LITERAL:
        return fixed_bytes(_LITERALS[value], width, "little")
    own_width, signed = _INTEGERS[kind]
    number = int(_as(_Number, value))
    fixed_bytes(number, own_width, "little", signed=signed)  # it has to fit into that
    return fixed_bytes(number, width, "little", signed=signed)


def _counted(raw: bytes) -> bytes:
    """Bytes behind their length: seven bits a byte, the low ones first, the top bit: more."""
    length, head = len(raw), bytearray()
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + raw


def _opaque(stored: memoryview, value: str) -> bytes:
    """The data of a value of some SQL type, which is what `stored` begins with."""
    make = _OPAQUES.get(stored[0])
    if make is not None:
        return make(_as(str, value))
    if stored[0] == ct.MYSQL_TYPE_NEWDECIMAL:
        precision, scale = stored[2], stored[3]  # behind the length, which is one byte
        return bytes((precision, scale)) + decimal_bytes(_as(_Number, value), precision, scale)
    head, _, encoded = _as(str, value).rpartition(":")
    if head != f"base64:type{stored[0]}":
        raise ValueError(f"{value[:20]!r} is not how an opaque value is shown")
    return base64.b64decode(encoded.replace("\n", ""), validate=True)  # lines of 76 characters


def _packed(number: int) -> bytes:
    return fixed_bytes(number, 8, "little", signed=True)


_OPAQUES: dict[int, Callable[[str], bytes]] = {
    ct.MYSQL_TYPE_DATE: lambda text: _packed(packed_datetime(f"{text} 00:00:00")),
    ct.MYSQL_TYPE_DATETIME: lambda text: _packed(packed_datetime(text)),
    ct.MYSQL_TYPE_TIMESTAMP: lambda text: _packed(packed_datetime(text)),
    ct.MYSQL_TYPE_TIME: lambda text: _packed(packed_time(text)),
}
