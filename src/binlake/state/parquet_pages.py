"""The footer and the page headers of a Parquet file that others wrote, checked before Arrow reads its rows.

Arrow inflates a page as a whole, and returns as many rows at a time as it is asked for, however long their values are.
Its Python binding ends the process for some footers, if it is asked for the chunk of a column. So binlake reads both itself,
limits what a page and the file may inflate to, and asks for as few rows as their values allow.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from binlake.errors import SourceError
from binlake.stream.index.compact_protocol import (
    DamagedError,
    Struct,
    StructReader,
    number,
    structs,
)
from binlake.stream.index.parquet_footer import TAIL_BYTES

_HEADER_BYTES = 4 << 10
# Statistics in a header may contain two values.
_MOST_HEADER_BYTES = 1 << 20
# Python objects take up to 75 times the bytes of the footer.
_FOOTER_SHARE = 64
# As an event of a compressed log: a quarter of max_memory plus this number of times the stored bytes.
_PAGE_SHARE, _PAGE_RATIO = 4, 32
# As a compressed dump.
_FILE_RATIO = 100

# Fields of FileMetaData, of a row group, of a chunk and of its metadata.
_SCHEMA, _GROUPS, _COLUMNS, _ROWS, _METADATA = 2, 4, 1, 3, 3
_PATH, _STORED, _DATA_AT, _DICTIONARY_AT = 3, 7, 9, 11
# Fields of an element of the schema: the type and length of a leaf, or the number of its children.
_TYPE, _LENGTH, _CHILDREN = 1, 2, 5
_BYTE_ARRAY, _FIXED_BYTE_ARRAY = 6, 7
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
# Of a page header, by the type of the page: the struct, and in it the encoding.
_PAGE_STRUCTS = {_DATA_PAGE: (5, 2), _DICTIONARY_PAGE: (7, 2), _DATA_PAGE_V2: (8, 4)}
# Arrow does not read these encodings of texts as dictionaries.
_DELTA_LENGTH_BYTE_ARRAY, _DELTA_BYTE_ARRAY = 6, 7
_FIXED_BYTES = 16


class _Leaf(NamedTuple):
    """The type of a column: whether its values have different lengths, and otherwise their length."""

    has_lengths: bool
    value_bytes: int


class _Chunk(NamedTuple):
    """A column of a row group: the bytes in which its pages lie, and its type."""

    name: str
    start: int
    end: int
    leaf: _Leaf


@dataclass(slots=True)
class _Column:
    """The claims of the page headers of a chunk. `value_bytes` is a limit on the mean length of the values of each page."""

    has_lengths: bool
    value_bytes: int
    dictionary_bytes: int = 0
    is_delta: bool = False


@dataclass(frozen=True, slots=True)
class ParquetPages:
    """The row groups of a file: for each, its columns by name; none for a group without rows. `rows` is their number in
    all groups.
    """

    rows: int
    groups: Sequence[dict[str, _Column]] = field(repr=False)

    @classmethod
    def of(cls, path: str, columns: Collection[str], max_memory: int) -> ParquetPages:
        """Read the headers of the pages of some columns; the pages of other columns do not matter.

        Raises SourceError for a damaged file, and for more bytes than `max_memory` allows. Raises OSError.
        """
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            reader = _PageReader(path, descriptor, max_memory)
            return reader.pages(set(columns))
        except (DamagedError, KeyError, IndexError, TypeError, UnicodeDecodeError):
            raise SourceError(f"cannot read {path}: its footer or a page is damaged") from None
        finally:
            os.close(descriptor)

    @property
    def dictionaries(self) -> set[str]:
        """The columns that have dictionaries, and no page that Arrow cannot read as one."""
        columns = [item for group in self.groups for item in group.items()]
        delta = {name for name, column in columns if column.is_delta}
        return {name for name, column in columns if column.dictionary_bytes} - delta

    def batch_rows(self, group: int, as_dictionaries: Collection[str], most_bytes: int) -> int:
        """Return how many rows of a group take not much more than `most_bytes`. `as_dictionaries` are the columns whose
        values stay in a dictionary.
        """
        row_bytes = 0
        for name, column in self.groups[group].items():
            row_bytes += column.value_bytes
            if column.has_lengths and name not in as_dictionaries:
                row_bytes += column.dictionary_bytes
        return max(1, most_bytes // max(1, row_bytes))


class _PageReader:
    def __init__(self, path: str, descriptor: int, max_memory: int) -> None:
        self._path, self._descriptor, self._max_memory = path, descriptor, max_memory
        self._size = os.fstat(descriptor).st_size
        self._inflated = 0

    def pages(self, columns: set[str]) -> ParquetPages:
        rows, stored = 0, 0
        groups = []
        footer = self._footer()
        leaves = _leaves(footer)
        for group in structs(footer, _GROUPS):
            rows += number(group, _ROWS)
            found: dict[str, _Column] = {}
            groups.append(found)
            if not number(group, _ROWS):  # it may have no pages
                continue
            for chunk in _chunks(group, leaves):
                stored += chunk.end - chunk.start
                if not 0 < chunk.start <= chunk.end <= self._size or stored > self._size:
                    raise DamagedError
                if chunk.name in columns:
                    self._look_at(chunk, found.setdefault(chunk.name, _Column(*chunk.leaf)))
        return ParquetPages(rows, groups)

    def _footer(self) -> Struct:
        tail = self._read(max(0, self._size - TAIL_BYTES), self._size)
        length = int.from_bytes(tail[: TAIL_BYTES // 2], "little")
        start = self._size - TAIL_BYTES - length
        if start < 0:
            raise DamagedError
        self._limit("its footer", length, self._max_memory // _FOOTER_SHARE)
        return StructReader(self._read(start, start + length)).struct()

    def _look_at(self, chunk: _Chunk, column: _Column) -> None:
        at = chunk.start
        while at < chunk.end:
            page, header_bytes = self._header(at, chunk.end)
            kind, inflated, stored = (number(page, key) for key in (1, 2, 3))
            at += header_bytes + stored
            if min(inflated, stored) < 0 or at > chunk.end:
                raise DamagedError
            self._count(chunk.name, inflated, stored)
            if kind not in _PAGE_STRUCTS:
                continue
            of_kind, encoding_field = _PAGE_STRUCTS[kind]
            described = page[of_kind][1]
            if kind == _DICTIONARY_PAGE:
                column.dictionary_bytes = max(column.dictionary_bytes, inflated)
                continue
            encoding = number(described, encoding_field)
            column.is_delta |= encoding in (_DELTA_LENGTH_BYTE_ARRAY, _DELTA_BYTE_ARRAY)
            # a few bytes may repeat the beginning of the value before
            values = 1 if encoding == _DELTA_BYTE_ARRAY else max(1, number(described, 1))
            if column.has_lengths:
                column.value_bytes = max(column.value_bytes, -(-inflated // values))

    def _count(self, name: str, inflated: int, stored: int) -> None:
        of_page = self._max_memory // _PAGE_SHARE + _PAGE_RATIO * stored
        self._limit(f"a page of column {name}", inflated, of_page)
        self._inflated += inflated
        self._limit("the file", self._inflated, self._max_memory + _FILE_RATIO * self._size)

    def _limit(self, what: str, size: int, most: int) -> None:
        if size > most:
            raise SourceError(
                f"{self._path}: {what} takes {size:,} bytes, but option max_memory allows only {most:,}",
                hint="if you trust the file, raise the option max_memory",
            )

    def _header(self, at: int, end: int) -> tuple[Struct, int]:
        """Return the page header at a place, and its length."""
        for size in (_HEADER_BYTES, _MOST_HEADER_BYTES):
            reader = StructReader(self._read(at, min(end, at + size)))
            try:
                return reader.struct(), reader.at
            except (DamagedError, IndexError):
                if at + size >= end:
                    break
        raise DamagedError

    def _read(self, start: int, end: int) -> bytes:
        data = os.pread(self._descriptor, end - start, start)
        if len(data) != end - start:
            raise DamagedError
        return data


def _leaves(footer: Struct) -> list[_Leaf]:
    """Return the types of the columns, in the order of the chunks of each row group."""
    found = []
    for element in structs(footer, _SCHEMA):
        if _CHILDREN in element and number(element, _CHILDREN):
            continue
        kind = number(element, _TYPE) if _TYPE in element else None
        length = number(element, _LENGTH) if kind == _FIXED_BYTE_ARRAY else 0
        found.append(_Leaf(kind == _BYTE_ARRAY, max(_FIXED_BYTES, length)))
    return found


def _chunks(group: Struct, leaves: Sequence[_Leaf]) -> Iterator[_Chunk]:
    chunks = structs(group, _COLUMNS)
    if len(chunks) != len(leaves):
        raise DamagedError
    for chunk, leaf in zip(chunks, leaves, strict=True):
        column = chunk[_METADATA][1]
        start = number(column, _DATA_AT)
        if _DICTIONARY_AT in column and 0 < number(column, _DICTIONARY_AT) < start:
            start = number(column, _DICTIONARY_AT)
        name = column[_PATH][1][1][0].decode()
        yield _Chunk(name, start, start + number(column, _STORED), leaf)
