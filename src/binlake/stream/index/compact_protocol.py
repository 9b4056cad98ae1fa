"""Structs of Thrift's compact protocol, which the footer and the page headers of a Parquet file are.

The file may be made by others: a length is compared with the bytes that are left before it takes memory.

Format: doc/specs/thrift-compact-protocol in the sources of Apache Thrift.
"""

from __future__ import annotations

from typing import Any

_MOST_DEPTH = 16
_TRUE, _FALSE, _I8, _I16, _I32, _I64, _DOUBLE, BINARY, LIST, _SET, STRUCT = (
    *range(1, 10), 10, 12)  # fmt: skip
_LONG_LIST = 15
_MOST_VARINT_BITS = 63
_DOUBLE_BYTES = 8

#: The fields of a struct by their numbers: type and value.
Struct = dict[int, tuple[int, Any]]


class DamagedError(ValueError):
    """The bytes do not come from a file that binlake reads."""

    def __init__(self) -> None:
        super().__init__("it is damaged or not an index")


def number(values: Struct, field: int) -> int:
    """Return an integer of a struct. Raises DamagedError, KeyError."""
    kind, value = values[field]
    if kind not in (_I16, _I32, _I64):
        raise DamagedError
    return int(value)


def structs(values: Struct, field: int) -> list[Struct]:
    """Return the structs of a list, none if there is no list. Raises DamagedError."""
    kind, listed = values.get(field, (LIST, (STRUCT, [])))
    if kind != LIST or (listed[0] != STRUCT and listed[1]):
        raise DamagedError
    found: list[Struct] = listed[1]
    return found


class StructReader:
    """Reads a struct: `{field: (type, value)}`. Raises ValueError and IndexError."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> Struct:
        """Read the next struct."""
        if depth > _MOST_DEPTH:
            raise DamagedError
        found: Struct = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            found[field] = kind, self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _I8:
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _DOUBLE:
            return self._bytes(_DOUBLE_BYTES)
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind in (LIST, _SET):
            return self._list(depth)
        if kind == STRUCT:
            return self.struct(depth + 1)
        raise DamagedError

    def _list(self, depth: int) -> tuple[int, list[Any]]:
        head = self._byte()
        count, kind = head >> 4, head & 15
        if count == _LONG_LIST:
            count = self._varint()
        if count > len(self._data) - self.at:
            raise DamagedError
        if kind in (_TRUE, _FALSE):  # one byte each, other than as a field
            return kind, [self._byte() == _TRUE for _ in range(count)]
        return kind, [self._value(kind, depth) for _ in range(count)]

    def _byte(self) -> int:
        found = self._data[self.at]
        self.at += 1
        return found

    def _bytes(self, size: int) -> bytes:
        found = bytes(self._data[self.at : self.at + size])
        if len(found) != size:
            raise DamagedError
        self.at += size
        return found

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > _MOST_VARINT_BITS:
                raise DamagedError

    def _signed(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)


def encoded(values: Struct) -> bytes:
    """Return a struct as `StructReader.struct` reads it."""
    out = bytearray()
    for field, (kind, value) in sorted(values.items()):
        kind = (_TRUE if value else _FALSE) if kind in (_TRUE, _FALSE) else kind
        out += bytes([kind]) + _varint(_zigzag(field)) + _encoded_value(kind, value)
    return bytes(out) + b"\0"


def _encoded_value(kind: int, value: Any) -> bytes:
    if kind in (_TRUE, _FALSE):
        return b""
    if kind == _I8:
        return bytes([value])
    if kind in (_I16, _I32, _I64):
        return _varint(_zigzag(value))
    if kind == _DOUBLE:
        return bytes(value)
    if kind == BINARY:
        return _varint(len(value)) + bytes(value)
    if kind in (LIST, _SET):
        inner, items = value
        head = bytes([_LONG_LIST << 4 | inner]) + _varint(len(items))
        if inner in (_TRUE, _FALSE):
            return head + bytes(_TRUE if item else _FALSE for item in items)
        return head + b"".join(_encoded_value(inner, item) for item in items)
    return encoded(value)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
