"""Which family a column belongs to: by type code, character set, and what a schema declares."""

from __future__ import annotations

from binlake.errors import OptionError
from binlake.format.charsets import CHARSETS
from binlake.format.collations import COLLATIONS
from binlake.table.types.base import ColumnContext, ColumnType, UndecodableType
from binlake.table.types.binary import BinaryType, UnknownTextType
from binlake.table.types.bit import BitType
from binlake.table.types.compressed import CompressedType
from binlake.table.types.decimal import DecimalType
from binlake.table.types.enum_set import EnumType, SetType
from binlake.table.types.floating import FloatingType
from binlake.table.types.integer import IntegerType, YearType
from binlake.table.types.json import JsonType
from binlake.table.types.network import InetType, UuidType
from binlake.table.types.spatial import GeometryType
from binlake.table.types.temporal import DateTimeType, DateType, TimestampType, TimeType
from binlake.table.types.text import InflatedTextType, TextType
from binlake.table.types.vector import VectorType
from binlake.values.plan import ColumnDefinition

__all__ = ["CHARACTER_CODES", "column_charset", "column_type"]

BINARY = "binary"

# by type code of format/column_types.py; the codes of character and binary strings are apart
_FAMILIES: dict[int, type[ColumnType]] = {
    1: IntegerType, 2: IntegerType, 3: IntegerType, 8: IntegerType, 9: IntegerType,
    4: FloatingType, 5: FloatingType,
    7: TimestampType, 17: TimestampType,
    10: DateType, 14: DateType,
    11: TimeType, 19: TimeType,
    12: DateTimeType, 18: DateTimeType,
    13: YearType,
    16: BitType,
    242: VectorType,
    246: DecimalType,
    247: EnumType,
    248: SetType,
    255: GeometryType,
}  # fmt: skip

_COMPRESSED = (140, 141)  # BLOB_COMPRESSED, VARCHAR_COMPRESSED
_JSON = 245
CHARACTER_CODES = frozenset((15, 249, 250, 251, 252, 253, 254, *_COMPRESSED))

# what only a schema can tell from a binary string
_DECLARED: dict[str, type[ColumnType]] = {
    "uuid": UuidType,
    "inet6": InetType,
    "inet4": InetType,
    "vector": VectorType,
}


def column_type(column: ColumnDefinition, context: ColumnContext) -> ColumnType:
    """All faces of one column's type for a target. Raises OptionError for a bad assume_charset."""
    code = column.type_code
    if code == _JSON:
        return JsonType(column, context, "utf8mb4")
    if code not in CHARACTER_CODES:
        return _FAMILIES.get(code, UndecodableType)(column, context)
    charset = column_charset(column, context)
    if charset == BINARY and column.declared in _DECLARED:
        return _DECLARED[column.declared](column, context)
    if code in _COMPRESSED:
        return CompressedType(column, context, _inflated(column, context, charset))
    if charset is None:
        return UnknownTextType(column, context)
    return BinaryType(column, context) if charset == BINARY else TextType(column, context, charset)


def _inflated(column: ColumnDefinition, context: ColumnContext, charset: str | None) -> ColumnType:
    if charset is None:
        return UnknownTextType(column, context)
    return BinaryType(column, context) if charset == BINARY else InflatedTextType(column, context, charset)


def column_charset(column: ColumnDefinition, context: ColumnContext) -> str | None:
    """Name of a character column's set; "binary" for bytes, None when nobody tells.

    What the log or a schema says wins over the option assume_charset.
    """
    if column.collation_id is not None:
        collation = COLLATIONS.get(column.collation_id)
        if collation is not None and (collation.charset == BINARY or collation.charset in CHARSETS):
            return collation.charset
        context.warn(
            f"{context.table.full_name}.{column.name}: collation {column.collation_id} is not known"
        )
    assumed = context.options.assume_charset
    if assumed is None:
        return None
    if assumed != BINARY and assumed not in CHARSETS:
        raise OptionError(
            f"option assume_charset: {assumed!r} is not a character set of MySQL or MariaDB",
            name="assume_charset",
            value=assumed,
            hint=f"one of: {', '.join(sorted(CHARSETS))}, {BINARY}",
        )
    return assumed
