"""The footer and the page headers of an index file, read before Arrow reads the file.

Others may have made the file. Arrow takes as much memory as the header of a page claims, and its Python binding ends
the process for some footers. So binlake parses both itself (they are structs of Thrift's compact protocol), accepts
only what `LogIndex.of_rows` can have written, and gives Arrow a footer of the fields that it has checked.

Format: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from binlake.stream.index.compact_protocol import (
    BINARY,
    LIST,
    STRUCT,
    DamagedError,
    Struct,
    StructReader,
    encoded,
    number,
    structs,
)

#: The first and the last bytes of a Parquet file; before the last ones is the length of the footer.
MAGIC = b"PAR1"
#: The bytes of the length and of the magic behind it.
TAIL_BYTES = 8
# One of 100 million transactions has 0.8 MB.
_MOST_BYTES = 2 << 20
_FIRST_READ = 64 << 10

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
        if len(tail) < TAIL_BYTES or tail[-len(MAGIC) :] != MAGIC:
            raise DamagedError
        length = int.from_bytes(tail[-TAIL_BYTES : -len(MAGIC)], "little")
        self.start = size - TAIL_BYTES - length
        if length > _MOST_BYTES or self.start < len(MAGIC):
            raise DamagedError
        if length + TAIL_BYTES > len(tail):
            tail = read(self.start, size)
        try:
            self._file = StructReader(tail[-TAIL_BYTES - length : -TAIL_BYTES]).struct()
            self.rows = number(self._file, _ROWS)
            # without rows it may have no pages
            self._groups = [g for g in structs(self._file, _GROUPS) if number(g, _GROUP_ROWS)]
            self.groups = [self._group(group) for group in self._groups]
            if sum(number(group, _GROUP_ROWS) for group in self._groups) != self.rows:
                raise DamagedError
            self.schema = [
                tuple(element.get(field, (0, None))[1] for field in _ELEMENT_SHAPE)
                for element in structs(self._file, _SCHEMA)
            ]
            self.metadata: Mapping[bytes, bytes] = {
                pair[1][1]: pair[2][1] for pair in structs(self._file, _KEY_VALUES)
            }
        except (KeyError, IndexError, TypeError):
            raise DamagedError from None

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
            raise DamagedError from None

    def encoded(self) -> bytes:
        """Return the end of a file with the same pages: the checked fields of the footer, and nothing else."""
        groups = [
            _only(group, _GROUP_FIELDS)
            | {1: (LIST, (STRUCT, [_checked_chunk(chunk) for chunk in structs(group, 1)]))}
            for group in self._groups
        ]
        elements = [_only(element, _ELEMENT_FIELDS) for element in structs(self._file, _SCHEMA)]
        footer = _only(self._file, _FILE_FIELDS) | {
            _SCHEMA: (LIST, (STRUCT, elements)),
            _GROUPS: (LIST, (STRUCT, groups)),
        }
        text = encoded(footer)
        return text + len(text).to_bytes(4, "little") + MAGIC

    def _group(self, group: Struct) -> list[Chunk]:
        rows = number(group, _GROUP_ROWS)
        if rows < 0:
            raise DamagedError
        return [self._chunk(chunk[3][1], rows) for chunk in structs(group, 1)]

    def _chunk(self, column: Struct, rows: int) -> Chunk:
        kind, path = column[3][1]
        start = min(number(column, field) for field in (9, 11) if field == 9 or field in column)
        chunk = Chunk(
            tuple(path),
            rows,
            number(column, 5),
            start,
            start + number(column, 7),
            frozenset(column[2][1][1]),
            number(column, 4),
            _bounds(column),
        )
        if kind != BINARY or chunk.values < 0 or not 0 < start <= chunk.end <= self.start:
            raise DamagedError
        if chunk.codec != _ZSTD or not chunk.encodings <= _ENCODINGS:
            raise ValueError("binlake does not write such an index")
        return chunk


def _bounds(column: Struct) -> tuple[bytes, bytes] | None:
    found = column.get(_STATISTICS, (STRUCT, {}))[1]
    if any(field not in found for field in (_NULLS, _MIN, _MAX)) or number(found, _NULLS):
        return None
    return found[_MIN][1], found[_MAX][1]


def _checked_chunk(chunk: Struct) -> Struct:
    return _only(chunk, _CHUNK_FIELDS) | {3: (STRUCT, _only(chunk[3][1], _COLUMN_FIELDS))}


def _only(values: Struct, fields: Sequence[int]) -> Struct:
    return {field: values[field] for field in fields if field in values}


def _inflated_bytes(chunk: Chunk, data: memoryview) -> int:
    """Return the length of the inflated pages of a column. Raises ValueError."""
    at, left, total = chunk.start, chunk.values, 0
    while at < chunk.end:
        reader = StructReader(data[at : chunk.end])
        page = reader.struct()
        kind, inflated, stored = (number(page, field) for field in (1, 2, 3))
        described = page[_PAGE_STRUCTS[kind]][1]
        values, encoding = number(described, 1), number(described, 2)
        at += reader.at + stored
        if min(inflated, stored, values) < 0 or encoding not in _ENCODINGS or at > chunk.end:
            raise DamagedError
        total += inflated
        if kind == _DATA_PAGE:
            left -= values
        elif values * _LEAST_VALUE_BYTES > inflated:  # Arrow reserves memory for as many
            raise DamagedError
    if left:
        raise DamagedError
    return total
