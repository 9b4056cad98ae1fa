"""The footer and the page headers of an index file, read before Arrow reads the file.

Others may have made the file. Arrow takes as much memory as the header of a page claims, and its Python binding ends
the process for some footers. So binlake parses both itself (they are structs of Thrift's compact protocol), accepts
only what `LogIndex.to_bytes` can have written, and gives Arrow a footer of the fields that it has checked.

Format: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["Chunk", "Footer"]

_MAGIC = b"PAR1"
_TAIL_BYTES = 8
# One of 100 million transactions has 200 kB.
_MOST_BYTES = 1 << 20
_MOST_DEPTH = 16
_FIRST_READ = 64 << 10

# Types of the compact protocol.
_TRUE, _FALSE, _I8, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = (
    *range(1, 10), 10, 12)  # fmt: skip
_LONG_LIST = 15
_MOST_VARINT_BITS = 63
_DOUBLE_BYTES = 8

# Fields of FileMetaData.
_SCHEMA, _ROWS, _GROUPS, _KEY_VALUES = 2, 3, 4, 5
# Those of each struct that Arrow needs; the others are left out.
_FILE_FIELDS = (1, _SCHEMA, _ROWS, _GROUPS)
_GROUP_ROWS = 3
_GROUP_FIELDS = (1, 2, _GROUP_ROWS)
_CHUNK_FIELDS = (2, 3)
_COLUMN_FIELDS = (1, 2, 3, 4, 5, 6, 7, 9, 11)
_ELEMENT_FIELDS = (1, 3, 4, 5, 6, 10)
# Of a schema element: physical type, repetition, name, number of children.
_ELEMENT_SHAPE = (1, 3, 4, 5)
_STATISTICS, _NULLS, _MAX, _MIN = 12, 3, 5, 6

# PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, DELTA_BINARY_PACKED, RLE_DICTIONARY. Of the others, one repeats the
# beginning of a value in the next one, so that a few bytes can make a long text of every row.
_ENCODINGS = frozenset((0, 2, 3, 4, 5, 8))
_ZSTD = 6
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
# Of a page header, by the type of the page: the struct, and in it the number of values.
_PAGE_STRUCTS = {_DATA_PAGE: 5, _DICTIONARY_PAGE: 7}
# A value of a dictionary page: an empty text is its length.
_LEAST_VALUE_BYTES = 4

_Struct = dict[int, tuple[int, Any]]


class _DamagedError(ValueError):
    def __init__(self) -> None:
        super().__init__("it is damaged or not an index")


class Chunk(NamedTuple):
    """One column of one row group: where its pages lie, and what the footer claims about it. `rows` are those of the
    group. `bounds` are the bytes of the least and the greatest value, None if they are not known for all of its values.
    """

    path: tuple[bytes, ...]
    rows: int
    values: int
    start: int
    end: int
    encodings: frozenset[int]
    codec: int
    bounds: tuple[bytes, bytes] | None


class Footer:
    """The footer of a file of `size` bytes, of which `read(start, end)` returns parts. Raises ValueError."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        tail = read(max(0, size - _FIRST_READ), size)
        if len(tail) < _TAIL_BYTES or tail[-len(_MAGIC) :] != _MAGIC:
            raise _DamagedError
        length = int.from_bytes(tail[-_TAIL_BYTES : -len(_MAGIC)], "little")
        self.start = size - _TAIL_BYTES - length
        if length > _MOST_BYTES or self.start < len(_MAGIC):
            raise _DamagedError
        if length + _TAIL_BYTES > len(tail):
            tail = read(self.start, size)
        try:
            self._file = _Reader(tail[-_TAIL_BYTES - length : -_TAIL_BYTES]).struct()
            self.rows = _number(self._file, _ROWS)
            # without rows it may have no pages
            self._groups = [g for g in _structs(self._file, _GROUPS) if _number(g, _GROUP_ROWS)]
            self.groups = [self._group(group) for group in self._groups]
            if sum(_number(group, _GROUP_ROWS) for group in self._groups) != self.rows:
                raise _DamagedError
            self.schema = [
                tuple(element.get(field, (0, None))[1] for field in _ELEMENT_SHAPE)
                for element in _structs(self._file, _SCHEMA)
            ]
            self.metadata: Mapping[bytes, bytes] = {
                pair[1][1]: pair[2][1] for pair in _structs(self._file, _KEY_VALUES)
            }
        except (KeyError, IndexError, TypeError):
            raise _DamagedError from None

    def chunks(self, path: tuple[bytes, ...] | None = None) -> Iterator[Chunk]:
        """Return the columns of all row groups, or those with one path."""
        for group in self.groups:
            yield from (chunk for chunk in group if path in (None, chunk.path))

    def page_bytes(self, data: memoryview, path: tuple[bytes, ...] | None = None) -> int:
        """Return the length of the pages of `chunks(path)` when they are inflated. `data` are the bytes of the file.

        Raises ValueError for pages that are not those that the footer describes.
        """
        try:
            return sum(_inflated_bytes(chunk, data[: self.start]) for chunk in self.chunks(path))
        except (KeyError, IndexError, TypeError):
            raise _DamagedError from None

    def encoded(self) -> bytes:
        """Return the end of a file with the same pages: the checked fields of the footer, and nothing else."""
        groups = [
            _only(group, _GROUP_FIELDS)
            | {1: (_LIST, (_STRUCT, [_checked_chunk(chunk) for chunk in _structs(group, 1)]))}
            for group in self._groups
        ]
        elements = [_only(element, _ELEMENT_FIELDS) for element in _structs(self._file, _SCHEMA)]
        footer = _only(self._file, _FILE_FIELDS) | {
            _SCHEMA: (_LIST, (_STRUCT, elements)),
            _GROUPS: (_LIST, (_STRUCT, groups)),
        }
        text = _encoded(footer)
        return text + len(text).to_bytes(4, "little") + _MAGIC

    def _group(self, group: _Struct) -> list[Chunk]:
        rows = _number(group, _GROUP_ROWS)
        if rows < 0:
            raise _DamagedError
        return [self._chunk(chunk[3][1], rows) for chunk in _structs(group, 1)]

    def _chunk(self, column: _Struct, rows: int) -> Chunk:
        kind, path = column[3][1]
        start = min(_number(column, field) for field in (9, 11) if field == 9 or field in column)
        chunk = Chunk(
            tuple(path),
            rows,
            _number(column, 5),
            start,
            start + _number(column, 7),
            frozenset(column[2][1][1]),
            _number(column, 4),
            _bounds(column),
        )
        if kind != _BINARY or chunk.values < 0 or not 0 < start <= chunk.end <= self.start:
            raise _DamagedError
        if chunk.codec != _ZSTD or not chunk.encodings <= _ENCODINGS:
            raise ValueError("binlake does not write such an index")
        return chunk


def _bounds(column: _Struct) -> tuple[bytes, bytes] | None:
    found = column.get(_STATISTICS, (_STRUCT, {}))[1]
    if any(field not in found for field in (_NULLS, _MIN, _MAX)) or _number(found, _NULLS):
        return None
    return found[_MIN][1], found[_MAX][1]


def _checked_chunk(chunk: _Struct) -> _Struct:
    return _only(chunk, _CHUNK_FIELDS) | {3: (_STRUCT, _only(chunk[3][1], _COLUMN_FIELDS))}


def _only(values: _Struct, fields: Sequence[int]) -> _Struct:
    return {field: values[field] for field in fields if field in values}


def _inflated_bytes(chunk: Chunk, data: memoryview) -> int:
    """Return the length of the inflated pages of a column. Raises ValueError."""
    at, left, total = chunk.start, chunk.values, 0
    while at < chunk.end:
        reader = _Reader(data[at : chunk.end])
        page = reader.struct()
        kind, inflated, stored = (_number(page, field) for field in (1, 2, 3))
        described = page[_PAGE_STRUCTS[kind]][1]
        values, encoding = _number(described, 1), _number(described, 2)
        at += reader.at + stored
        if min(inflated, stored, values) < 0 or encoding not in _ENCODINGS or at > chunk.end:
            raise _DamagedError
        total += inflated
        if kind == _DATA_PAGE:
            left -= values
        elif values * _LEAST_VALUE_BYTES > inflated:  # Arrow reserves memory for as many
            raise _DamagedError
    if left:
        raise _DamagedError
    return total


def _number(values: _Struct, field: int) -> int:
    kind, value = values[field]
    if kind not in (_I16, _I32, _I64):
        raise _DamagedError
    return int(value)


def _structs(values: _Struct, field: int) -> list[_Struct]:
    """Return the structs of a list, none if there is no list."""
    kind, listed = values.get(field, (_LIST, (_STRUCT, [])))
    if kind != _LIST or (listed[0] != _STRUCT and listed[1]):
        raise _DamagedError
    found: list[_Struct] = listed[1]
    return found


class _Reader:
    """Reads a struct: `{field: (type, value)}`. Raises ValueError and IndexError."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> _Struct:
        """Read the next struct."""
        if depth > _MOST_DEPTH:
            raise _DamagedError
        found: _Struct = {}
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
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise _DamagedError

    def _list(self, depth: int) -> tuple[int, list[Any]]:
        head = self._byte()
        count, kind = head >> 4, head & 15
        if count == _LONG_LIST:
            count = self._varint()
        if count > len(self._data) - self.at:
            raise _DamagedError
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
            raise _DamagedError
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
                raise _DamagedError

    def _signed(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)


def _encoded(values: _Struct) -> bytes:
    """Return a struct as `_Reader.struct` reads it."""
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
    if kind == _BINARY:
        return _varint(len(value)) + bytes(value)
    if kind in (_LIST, _SET):
        inner, items = value
        head = bytes([_LONG_LIST << 4 | inner]) + _varint(len(items))
        if inner in (_TRUE, _FALSE):
            return head + bytes(_TRUE if item else _FALSE for item in items)
        return head + b"".join(_encoded_value(inner, item) for item in items)
    return _encoded(value)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
