"""The table that a TABLE_MAP event describes: which metadata field belongs to which column.

Each optional field counts only the columns of its kind: signedness the numeric ones, charsets
the character ones (which differ by flavour), and so on. If a list does not have one entry for each
of its columns, the columns were counted wrongly and values would be wrong, so it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from binlake.errors import MalformedError, UnsupportedError
from binlake.events.body.collated_text import collation_text
from binlake.events.common.column_metadata import ColumnMetadata
from binlake.events.common.optional_metadata import DefaultCharset, OptionalMetadata
from binlake.format import column_types as ct
from binlake.format.column_types import column_type_name, is_character_type
from binlake.values.plan import ColumnDefinition, NameSource, TableDefinition

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class ColumnsDescription:
    """The part of a TABLE_MAP event after the table's name. Tables with the same columns share it.

    `types` are the types as in the event, `metadata` one (type, length, precision, decimals) per
    column after ENUM, SET and CHAR have been told apart (None when the event ends before it),
    `nullable` the bitmap (bit i: column i, lowest first), `array_elements` the types of the elements
    of TYPED_ARRAY columns, as bytes.
    """

    types: bytes
    metadata: tuple[ColumnMetadata, ...] | None
    nullable: bytes
    optional: OptionalMetadata
    flavour: str
    array_elements: tuple[bytes, ...] = ()

    @cached_property
    def definitions(self) -> tuple[ColumnDefinition, ...]:
        """The columns as values; () if the event ends before their metadata.

        Raises MalformedError when fields disagree.
        """
        return _definitions(self)

    @cached_property
    def shown(self) -> list[dict[str, Any]]:
        """The columns as text, with the metadata that the log contains and nothing else."""
        if self.metadata is None:
            return [{"type": column_type_name(code)} for code in self.types]
        return [_shown_column(column) for column in self.definitions]


@dataclass(frozen=True)
class TableDescription:
    """A TABLE_MAP event without its table id and flags: identical in every event of a table."""

    database: str
    table: str
    columns: ColumnsDescription

    @cached_property
    def definition(self) -> TableDefinition:
        """The table definition, with flags 0.

        Raises MalformedError when fields disagree, UnsupportedError when the server was too old
        to describe its columns.
        """
        columns = self.columns
        if columns.metadata is None:
            raise UnsupportedError(
                f"the log does not describe the columns of {self.database}.{self.table}: "
                "pre-releases of MySQL 5.1 log their types only"
            )
        key = columns.optional.primary_key or ()
        named = columns.optional.column_names is not None
        return TableDefinition(
            database=self.database,
            table=self.table,
            columns=columns.definitions,
            primary_key=tuple(column for column, _ in key),
            key_prefixes=tuple(prefix for _, prefix in key),
            name_source=NameSource.METADATA if named else NameSource.NONE,
            flavour=columns.flavour,
        )


def _shown_column(column: ColumnDefinition) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": column.name,
        "type": column_type_name(column.type_code),
        "length": column.length,
        "precision": column.precision,
        "decimals": column.decimals,
        "nullable": column.nullable,
    }
    for name in ("unsigned", "collation_id", "geometry_type", "dimensionality"):
        value = getattr(column, name)
        if value is not None:
            shown[name] = value
    if column.members is not None:
        shown["members"] = list(column.members)
    if not column.visible:
        shown["visible"] = False
    return shown


# A column without members takes some 300 bytes, and its name.
_column = lru_cache(maxsize=1 << 13)(ColumnDefinition)


def _definitions(described: ColumnsDescription) -> tuple[ColumnDefinition, ...]:
    optional = described.optional
    metadata = described.metadata or ()
    types = [entry[0] for entry in metadata]
    count = len(types)
    numeric = [i for i, code in enumerate(types) if ct.COLUMN_TYPES[code].signed_bit]
    character = [i for i, code in enumerate(types) if is_character_type(code, described.flavour)]
    listed = [i for i, code in enumerate(types) if code in (ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET)]

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
        "enum_members", _of_type(types, ct.MYSQL_TYPE_ENUM), optional.enum_members
    ) | _spread("set_members", _of_type(types, ct.MYSQL_TYPE_SET), optional.set_members)
    geometry = _spread(
        "geometry_types", _of_type(types, ct.MYSQL_TYPE_GEOMETRY), optional.geometry_types
    )
    dimensions = _spread(
        "dimensionality", _of_type(types, ct.MYSQL_TYPE_VECTOR), optional.dimensionality
    )
    if any(column >= count for column, _ in optional.primary_key or ()):
        raise MalformedError(
            "the primary key names a column that is not there", field="primary_key"
        )
    return tuple(
        (_column if i not in members else ColumnDefinition)(
            i,
            names.get(i, f"col_{i}"),
            *entry,
            bool(described.nullable[i >> 3] >> (i & 7) & 1),
            unsigned.get(i),
            collations.get(i),
            _texts(members.get(i), collations.get(i)),
            geometry.get(i),
            dimensions.get(i),
            visible.get(i, True),
        )
        for i, entry in enumerate(metadata)
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
