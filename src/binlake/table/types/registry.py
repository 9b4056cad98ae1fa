"""The choice of a column's family: by type code, character set, and the declaration in a schema."""

from __future__ import annotations

from binlake.errors import OptionError
from binlake.format import column_types as ct
from binlake.format.charsets import BINARY, CHARSETS
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

_FAMILIES: dict[int, type[ColumnType]] = {
    ct.MYSQL_TYPE_TINY: IntegerType,
    ct.MYSQL_TYPE_SHORT: IntegerType,
    ct.MYSQL_TYPE_INT24: IntegerType,
    ct.MYSQL_TYPE_LONG: IntegerType,
    ct.MYSQL_TYPE_LONGLONG: IntegerType,
    ct.MYSQL_TYPE_YEAR: YearType,
    ct.MYSQL_TYPE_BIT: BitType,
    ct.MYSQL_TYPE_NEWDECIMAL: DecimalType,
    ct.MYSQL_TYPE_FLOAT: FloatingType,
    ct.MYSQL_TYPE_DOUBLE: FloatingType,
    ct.MYSQL_TYPE_DATE: DateType,
    ct.MYSQL_TYPE_NEWDATE: DateType,
    ct.MYSQL_TYPE_TIME: TimeType,
    ct.MYSQL_TYPE_TIME2: TimeType,
    ct.MYSQL_TYPE_DATETIME: DateTimeType,
    ct.MYSQL_TYPE_DATETIME2: DateTimeType,
    ct.MYSQL_TYPE_TIMESTAMP: TimestampType,
    ct.MYSQL_TYPE_TIMESTAMP2: TimestampType,
    ct.MYSQL_TYPE_ENUM: EnumType,
    ct.MYSQL_TYPE_SET: SetType,
    ct.MYSQL_TYPE_VECTOR: VectorType,
    ct.MYSQL_TYPE_GEOMETRY: GeometryType,
}

_COMPRESSED = (ct.MYSQL_TYPE_BLOB_COMPRESSED, ct.MYSQL_TYPE_VARCHAR_COMPRESSED)

# strings of characters or of bytes, depending on their character set
STRING_TYPES = (ct.CHARACTER_TYPES["mysql"] | ct.CHARACTER_TYPES["mariadb"]) - _FAMILIES.keys()

# types that only a schema distinguishes from a binary string
_DECLARED: dict[str, type[ColumnType]] = {
    "uuid": UuidType,
    "inet6": InetType,
    "inet4": InetType,
    "vector": VectorType,
}


def column_type(column: ColumnDefinition, context: ColumnContext) -> ColumnType:
    """All faces of one column's type for a target. Raises OptionError for a bad assume_charset."""
    kind = _of_family(column, context)
    if kind.plan.kernel is None:
        return UndecodableType(column, context, kind.plan.why)
    return kind


def _of_family(column: ColumnDefinition, context: ColumnContext) -> ColumnType:
    code = column.type_code
    if code == ct.MYSQL_TYPE_JSON:
        return JsonType(column, context, "utf8mb4")
    if code not in STRING_TYPES:
        return _FAMILIES.get(code, UndecodableType)(column, context)
    charset = column_charset(column, context)
    if charset == BINARY and column.declared in _DECLARED:
        return _DECLARED[column.declared](column, context)
    if code in _COMPRESSED:
        return CompressedType(column, context, _inflated(column, context, charset))
    if charset is None:
        return UnknownTextType(column, context)
    return BinaryType(column, context) if charset == BINARY else TextType(column, context, charset)


def _inflated(
    column: ColumnDefinition, context: ColumnContext, charset: str | None
) -> BinaryType | TextType:
    if charset is None:
        return UnknownTextType(column, context)
    return (
        BinaryType(column, context)
        if charset == BINARY
        else InflatedTextType(column, context, charset)
    )


def column_charset(column: ColumnDefinition, context: ColumnContext) -> str | None:
    """Name of a character column's set; "binary" for bytes, None if it is unknown.

    The log and a schema have priority over the option assume_charset.
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
