"""From a TABLE_MAP event to a TableDefinition: which field belongs to which column.

Each optional field counts only the columns of its kind: signedness the numeric ones, charsets
the character ones (which differ by flavour), and so on (formats.md §4). Lists that do not have
an entry for each of theirs mean that the columns are counted wrongly, so values would be too:
an error, not a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from binlake.errors import MalformedError, UnsupportedError
from binlake.events.texts import collation_text
from binlake.format.column_types import (
    COLUMN_TYPES,
    MYSQL_TYPE_ENUM,
    MYSQL_TYPE_GEOMETRY,
    MYSQL_TYPE_SET,
    MYSQL_TYPE_VECTOR,
    is_character_type,
)
from binlake.values.plan import ColumnDefinition, NameSource, TableDefinition

if TYPE_CHECKING:
    from binlake.events.optional_metadata import DefaultCharset
    from binlake.events.table_map import TableMapEvent

__all__ = ["table_definition"]

_Value = TypeVar("_Value")


def table_definition(event: TableMapEvent) -> TableDefinition:
    """The table that `event` describes.

    Raises MalformedError when its fields disagree, UnsupportedError when it lacks metadata.
    """
    if event.column_metadata is None:
        raise UnsupportedError(
            f"the log does not describe the columns of {event.database}.{event.table}: "
            "pre-releases of MySQL 5.1 log their types only"
        )
    optional = event.optional
    types = [entry[0] for entry in event.column_metadata]
    count = len(types)
    numeric = [i for i, code in enumerate(types) if COLUMN_TYPES[code].signed_bit]
    character = [i for i, code in enumerate(types) if is_character_type(code, event.flavour)]
    listed = [i for i, code in enumerate(types) if code in (MYSQL_TYPE_ENUM, MYSQL_TYPE_SET)]

    names = _spread("column_names", range(count), optional.column_names)
    unsigned = _spread_bits("signedness", numeric, optional.signedness)
    visible = _spread_bits("visibility", range(count), optional.visibility)
    collations = _collations(
        "charset", character, optional.default_charset, optional.column_charset
    ) | _collations(
        "enum_set_charset", listed, optional.enum_set_default_charset,
        optional.enum_set_column_charset,
    )  # fmt: skip
    members = _spread(
        "enum_members", _of_type(types, MYSQL_TYPE_ENUM), optional.enum_members
    ) | _spread("set_members", _of_type(types, MYSQL_TYPE_SET), optional.set_members)
    geometry = _spread(
        "geometry_types", _of_type(types, MYSQL_TYPE_GEOMETRY), optional.geometry_types
    )
    dimensions = _spread(
        "dimensionality", _of_type(types, MYSQL_TYPE_VECTOR), optional.dimensionality
    )
    columns = tuple(
        ColumnDefinition(
            ordinal=i,
            name=names.get(i, f"col_{i}"),
            type_code=code,
            length=length,
            precision=precision,
            decimals=decimals,
            nullable=bool(event.nullable[i >> 3] >> (i & 7) & 1),
            unsigned=unsigned.get(i),
            collation_id=collations.get(i),
            members=_texts(members.get(i), collations.get(i)),
            geometry_type=geometry.get(i),
            dimensionality=dimensions.get(i),
            visible=visible.get(i, True),
        )
        for i, (code, length, precision, decimals) in enumerate(event.column_metadata)
    )
    key = optional.primary_key or ()
    if any(column >= count for column, _ in key):
        raise MalformedError(
            "the primary key names a column that is not there", field="primary_key"
        )
    return TableDefinition(
        database=event.database,
        table=event.table,
        columns=columns,
        flags=event.flags,
        primary_key=tuple(column for column, _ in key),
        key_prefixes=tuple(prefix for _, prefix in key),
        name_source=NameSource.NONE if optional.column_names is None else NameSource.METADATA,
        flavour=event.flavour,
    )


def _of_type(types: Sequence[int], code: int) -> list[int]:
    return [i for i, other in enumerate(types) if other == code]


def _spread(
    field: str, ordinals: Sequence[int], values: Sequence[_Value] | None
) -> dict[int, _Value]:
    """Values by column ordinal; {} when the field is missing."""
    if values is None:
        return {}
    if len(values) != len(ordinals):
        raise MalformedError(
            f"the field has {len(values)} entries for {len(ordinals)} columns", field=field
        )
    return dict(zip(ordinals, values, strict=True))


def _spread_bits(field: str, ordinals: Sequence[int], bits: bytes | None) -> dict[int, bool]:
    """Bits, the first in the highest place of the first byte, by column ordinal."""
    if bits is None:
        return {}
    if len(bits) != (len(ordinals) + 7) // 8:
        raise MalformedError(
            f"the field has {len(bits)} bytes of bits for {len(ordinals)} columns", field=field
        )
    return {ordinal: bool(bits[i >> 3] & 0x80 >> (i & 7)) for i, ordinal in enumerate(ordinals)}


def _collations(
    field: str,
    ordinals: Sequence[int],
    default: DefaultCharset | None,
    each: tuple[int, ...] | None,
) -> dict[int, int]:
    if default is None:
        return _spread(field, ordinals, each)
    if any(index >= len(ordinals) for index in default.others):
        raise MalformedError("a charset is given for a column that is not there", field=field)
    return {ordinal: default.of(i) for i, ordinal in enumerate(ordinals)}


def _texts(members: tuple[bytes, ...] | None, collation_id: int | None) -> tuple[str, ...] | None:
    if members is None:
        return None
    return tuple(collation_text(collation_id, member) for member in members)
