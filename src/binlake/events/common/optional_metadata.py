"""The optional metadata of a TABLE_MAP event: names, signedness and character sets of columns.

Types, sources and the servers that write them: format/optional_metadata.py. Fields come in
any order, as type u8, length lenenc, value; an unknown type is kept. This module reads the
values; events/common/table_description.py relates them to the columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from binlake.events.body.fields import REST, FieldFormat
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.format import optional_metadata as fields


@dataclass(frozen=True, slots=True)
class DefaultCharset:
    """A collation for all columns of a kind, except the listed ones (index among them: collation)."""

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
    characters, 0 for all) in key order. `order` are the types of the fields, in the order of the event.
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
    order: tuple[int, ...] = ()


def _numbers(reader: BodyReader, name: str) -> tuple[int, ...]:
    numbers = []
    while reader.left:
        numbers.append(reader.lenenc(name))
    return tuple(numbers)


def _write_numbers(writer: BodyWriter, name: str, numbers: Iterable[int]) -> None:
    for number in numbers:
        writer.lenenc(name, number)


def _default_charset(reader: BodyReader, name: str) -> DefaultCharset:
    collation_id = reader.lenenc(name)
    others = {}
    while reader.left:
        index = reader.lenenc(name)
        others[index] = reader.lenenc(name)
    return DefaultCharset(collation_id, others)


def _write_default_charset(writer: BodyWriter, name: str, value: DefaultCharset) -> None:
    writer.lenenc(name, value.collation_id)
    for pair in value.others.items():
        _write_numbers(writer, name, pair)


def _names(reader: BodyReader, name: str) -> tuple[str, ...]:
    names = []
    while reader.left:
        names.append(reader.name_text(name, reader.counted(name)))
    return tuple(names)


def _write_names(writer: BodyWriter, name: str, value: tuple[str, ...]) -> None:
    for text in value:
        writer.counted(name, text.encode("utf-8"))


def _member_lists(reader: BodyReader, name: str) -> tuple[tuple[bytes, ...], ...]:
    lists = []
    while reader.left:
        count = reader.lenenc(name)
        reader.at(name).need(count)  # every member takes a byte or more
        lists.append(tuple(reader.counted(name) for _ in range(count)))
    return tuple(lists)


def _write_member_lists(
    writer: BodyWriter, name: str, value: tuple[tuple[bytes, ...], ...]
) -> None:
    for members in value:
        writer.lenenc(name, len(members))
        for member in members:
            writer.counted(name, member)


def _simple_key(reader: BodyReader, name: str) -> tuple[tuple[int, int], ...]:
    return tuple((column, 0) for column in _numbers(reader, name))


def _write_simple_key(writer: BodyWriter, name: str, value: tuple[tuple[int, int], ...]) -> None:
    _write_numbers(writer, name, (column for column, _ in value))


def _prefix_key(reader: BodyReader, name: str) -> tuple[tuple[int, int], ...]:
    key = []
    while reader.left:
        column = reader.lenenc(name)
        key.append((column, reader.lenenc(name)))
    return tuple(key)


def _write_prefix_key(writer: BodyWriter, name: str, value: tuple[tuple[int, int], ...]) -> None:
    for part in value:
        _write_numbers(writer, name, part)


_NUMBERS = FieldFormat(_numbers, _write_numbers)
_MEMBER_LISTS = FieldFormat(_member_lists, _write_member_lists)
_DEFAULT_CHARSET = FieldFormat(_default_charset, _write_default_charset)

_FIELDS: dict[int, tuple[str, FieldFormat]] = {
    fields.SIGNEDNESS: ("signedness", REST),
    fields.DEFAULT_CHARSET: ("default_charset", _DEFAULT_CHARSET),
    fields.COLUMN_CHARSET: ("column_charset", _NUMBERS),
    fields.COLUMN_NAME: ("column_names", FieldFormat(_names, _write_names)),
    fields.SET_STR_VALUE: ("set_members", _MEMBER_LISTS),
    fields.ENUM_STR_VALUE: ("enum_members", _MEMBER_LISTS),
    fields.GEOMETRY_TYPE: ("geometry_types", _NUMBERS),
    fields.SIMPLE_PRIMARY_KEY: ("primary_key", FieldFormat(_simple_key, _write_simple_key)),
    fields.PRIMARY_KEY_WITH_PREFIX: ("primary_key", FieldFormat(_prefix_key, _write_prefix_key)),
    fields.ENUM_AND_SET_DEFAULT_CHARSET: ("enum_set_default_charset", _DEFAULT_CHARSET),
    fields.ENUM_AND_SET_COLUMN_CHARSET: ("enum_set_column_charset", _NUMBERS),
    fields.COLUMN_VISIBILITY: ("visibility", REST),
    fields.VECTOR_DIMENSIONALITY: ("dimensionality", _NUMBERS),
}


def decode_optional_metadata(reader: BodyReader) -> OptionalMetadata:
    """Read the fields up to the end. Raises TruncatedError, MalformedError."""
    found = OptionalMetadata()
    while reader.left:
        kind = reader.u8("optional_metadata")
        found.order += (kind,)
        with reader.block("optional_metadata", reader.at("optional_metadata").length()):
            known = _FIELDS.get(kind)
            if known is None:
                found.unknown += ((kind, reader.rest("optional_metadata")),)
            else:
                name, wire = known
                setattr(found, name, wire.read(reader, name))
    return found


def encode_optional_metadata(writer: BodyWriter, optional: OptionalMetadata) -> None:
    """Write the fields in their `order`. Raises MalformedError."""
    unknown = iter(optional.unknown)
    for kind in optional.order:
        known = _FIELDS.get(kind)
        value = BodyWriter()
        if known is None:
            value.rest("optional_metadata", next(unknown)[1])
        else:
            name, wire = known
            wire.write(value, name, getattr(optional, name))
        writer.u8("optional_metadata", kind)
        writer.counted("optional_metadata", value.data)
