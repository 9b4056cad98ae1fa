"""The optional metadata of a TABLE_MAP event: what columns are called and mean.

Types, sources and who writes them: format/optional_metadata.py; formats.md §4. Fields come in
any order, as type u8, length lenenc, value; an unknown type is kept. This module reads the
values; events/table_description.py relates them to the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from binlake.events.base import BodyReader
from binlake.format.optional_metadata import (
    COLUMN_CHARSET,
    COLUMN_NAME,
    COLUMN_VISIBILITY,
    DEFAULT_CHARSET,
    ENUM_AND_SET_COLUMN_CHARSET,
    ENUM_AND_SET_DEFAULT_CHARSET,
    ENUM_STR_VALUE,
    GEOMETRY_TYPE,
    PRIMARY_KEY_WITH_PREFIX,
    SET_STR_VALUE,
    SIGNEDNESS,
    SIMPLE_PRIMARY_KEY,
    VECTOR_DIMENSIONALITY,
)

__all__ = ["DefaultCharset", "OptionalMetadata", "decode_optional_metadata"]


@dataclass(frozen=True, slots=True)
class DefaultCharset:
    """A collation for all columns of a kind but the listed ones (index among them: collation)."""

    collation_id: int
    others: dict[int, int]

    def of(self, index: int) -> int:
        """The collation of the column with this index."""
        return self.others.get(index, self.collation_id)


@dataclass(slots=True)
class OptionalMetadata:
    """The fields of one event; None for those that it lacks.

    `signedness` and `visibility` are bitmaps, first column in the highest bit; members are raw
    bytes in their column's character set; `primary_key` holds (column, prefix length in
    characters, 0 for all) in key order.
    """

    signedness: bytes | None = None
    default_charset: DefaultCharset | None = None
    column_charset: tuple[int, ...] | None = None
    column_names: tuple[str, ...] | None = None
    set_members: tuple[tuple[bytes, ...], ...] | None = None
    enum_members: tuple[tuple[bytes, ...], ...] | None = None
    geometry_types: tuple[int, ...] | None = None
    primary_key: tuple[tuple[int, int], ...] | None = None
    enum_set_default_charset: DefaultCharset | None = None
    enum_set_column_charset: tuple[int, ...] | None = None
    visibility: bytes | None = None
    dimensionality: tuple[int, ...] | None = None
    unknown: tuple[tuple[int, bytes], ...] = ()


def _bits(reader: BodyReader, name: str) -> bytes:
    return reader.rest(name)


def _numbers(reader: BodyReader, name: str) -> tuple[int, ...]:
    numbers = []
    while reader.left:
        numbers.append(reader.lenenc(name))
    return tuple(numbers)


def _default_charset(reader: BodyReader, name: str) -> DefaultCharset:
    collation_id = reader.lenenc(name)
    others = {}
    while reader.left:
        index = reader.lenenc(name)
        others[index] = reader.lenenc(name)
    return DefaultCharset(collation_id, others)


def _names(reader: BodyReader, name: str) -> tuple[str, ...]:
    names = []
    while reader.left:
        names.append(reader.name_text(name, reader.counted(name)))
    return tuple(names)


def _member_lists(reader: BodyReader, name: str) -> tuple[tuple[bytes, ...], ...]:
    lists = []
    while reader.left:
        count = reader.lenenc(name)
        reader.at(name).need(count)  # every member takes a byte or more
        lists.append(tuple(reader.counted(name) for _ in range(count)))
    return tuple(lists)


def _simple_key(reader: BodyReader, name: str) -> tuple[tuple[int, int], ...]:
    return tuple((column, 0) for column in _numbers(reader, name))


def _prefix_key(reader: BodyReader, name: str) -> tuple[tuple[int, int], ...]:
    key = []
    while reader.left:
        column = reader.lenenc(name)
        key.append((column, reader.lenenc(name)))
    return tuple(key)


_READERS: dict[int, tuple[str, Callable[[BodyReader, str], Any]]] = {
    SIGNEDNESS: ("signedness", _bits),
    DEFAULT_CHARSET: ("default_charset", _default_charset),
    COLUMN_CHARSET: ("column_charset", _numbers),
    COLUMN_NAME: ("column_names", _names),
    SET_STR_VALUE: ("set_members", _member_lists),
    ENUM_STR_VALUE: ("enum_members", _member_lists),
    GEOMETRY_TYPE: ("geometry_types", _numbers),
    SIMPLE_PRIMARY_KEY: ("primary_key", _simple_key),
    PRIMARY_KEY_WITH_PREFIX: ("primary_key", _prefix_key),
    ENUM_AND_SET_DEFAULT_CHARSET: ("enum_set_default_charset", _default_charset),
    ENUM_AND_SET_COLUMN_CHARSET: ("enum_set_column_charset", _numbers),
    COLUMN_VISIBILITY: ("visibility", _bits),
    VECTOR_DIMENSIONALITY: ("dimensionality", _numbers),
}


def decode_optional_metadata(reader: BodyReader) -> OptionalMetadata:
    """Read the fields up to the end. Raises TruncatedError, MalformedError."""
    found = OptionalMetadata()
    while reader.left:
        kind = reader.u8("optional_metadata")
        with reader.block("optional_metadata", reader.at("optional_metadata").length()):
            known = _READERS.get(kind)
            if known is None:
                found.unknown += ((kind, reader.rest("optional_metadata")),)
            else:
                name, read = known
                setattr(found, name, read(reader, name))
    return found
