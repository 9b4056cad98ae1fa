"""Column types as SQL spells them: `int unsigned`, `varchar(20)`, `decimal(10,2)`, `datetime(6)`."""

from __future__ import annotations

from binlake.format import column_types as ct
from binlake.format.charsets import CHARSETS
from binlake.values.plan import ColumnDefinition

_NAMES = {
    ct.MYSQL_TYPE_DECIMAL: "decimal",
    ct.MYSQL_TYPE_FLOAT: "float",
    ct.MYSQL_TYPE_DOUBLE: "double",
    ct.MYSQL_TYPE_DATE: "date",
    ct.MYSQL_TYPE_NEWDATE: "date",
    ct.MYSQL_TYPE_YEAR: "year",
    ct.MYSQL_TYPE_VECTOR: "vector",
    ct.MYSQL_TYPE_JSON: "json",
    ct.MYSQL_TYPE_ENUM: "enum",
    ct.MYSQL_TYPE_SET: "set",
}
_INTEGERS = {
    ct.MYSQL_TYPE_TINY: "tinyint",
    ct.MYSQL_TYPE_SHORT: "smallint",
    ct.MYSQL_TYPE_INT24: "mediumint",
    ct.MYSQL_TYPE_LONG: "int",
    ct.MYSQL_TYPE_LONGLONG: "bigint",
}
_FRACTIONAL = {
    ct.MYSQL_TYPE_TIME: "time",
    ct.MYSQL_TYPE_TIME2: "time",
    ct.MYSQL_TYPE_DATETIME: "datetime",
    ct.MYSQL_TYPE_DATETIME2: "datetime",
    ct.MYSQL_TYPE_TIMESTAMP: "timestamp",
    ct.MYSQL_TYPE_TIMESTAMP2: "timestamp",
}
_STRINGS = {
    ct.MYSQL_TYPE_STRING: "",
    ct.MYSQL_TYPE_VARCHAR: "var",
    ct.MYSQL_TYPE_VAR_STRING: "var",
    ct.MYSQL_TYPE_VARCHAR_COMPRESSED: "var",
}
_BLOBS = (ct.MYSQL_TYPE_BLOB, ct.MYSQL_TYPE_BLOB_COMPRESSED)
_BLOB_SIZES = {1: "tiny", 2: "", 3: "medium", 4: "long"}  # by bytes of the length
# by the number of optional metadata field GEOMETRY_TYPE (the server's geometry_type enum)
_GEOMETRY = (
    "geometry", "point", "linestring", "polygon",
    "multipoint", "multilinestring", "multipolygon", "geometrycollection",
)  # fmt: skip


def sql_type(column: ColumnDefinition, charset: str | None) -> str:
    """The column's type in lower case, without its character set; lengths of text in characters.

    A character column of unknown character set is spelled as the binary type, in bytes.
    """
    code = column.type_code
    if column.declared is not None:
        return column.declared
    if code in _INTEGERS:
        return _INTEGERS[code] + (" unsigned" if column.unsigned else "")
    if code in _FRACTIONAL:
        return _FRACTIONAL[code] + (f"({column.decimals})" if column.decimals else "")
    if code == ct.MYSQL_TYPE_NEWDECIMAL:
        return f"decimal({column.precision},{column.decimals})"
    if code == ct.MYSQL_TYPE_BIT:
        return f"bit({column.length})"
    if code == ct.MYSQL_TYPE_GEOMETRY:
        kind = column.geometry_type or 0
        return _GEOMETRY[kind] if kind < len(_GEOMETRY) else _GEOMETRY[0]
    if code == ct.MYSQL_TYPE_VECTOR and column.dimensionality:
        return f"vector({column.dimensionality})"
    if code in _STRINGS:
        return _string_type(column, charset)
    if code in _BLOBS:
        size = _BLOB_SIZES.get(column.length, "")
        return f"{size}{'blob' if charset in (None, 'binary') else 'text'}"
    return _NAMES.get(code) or ct.column_type_name(code)


def _string_type(column: ColumnDefinition, charset: str | None) -> str:
    varying = _STRINGS[column.type_code]
    # the compressed form counts its head byte
    length = column.length - (column.type_code == ct.MYSQL_TYPE_VARCHAR_COMPRESSED)
    if charset is None or charset == "binary":
        return f"{varying}binary({length})"
    return f"{varying}char({length // CHARSETS[charset].max_bytes})"
