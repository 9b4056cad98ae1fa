"""Column types as SQL spells them: `int unsigned`, `varchar(20)`, `decimal(10,2)`, `datetime(6)`."""

from __future__ import annotations

from binlake.format.charsets import CHARSETS
from binlake.values.plan import ColumnDefinition

__all__ = ["sql_type"]

_PLAIN = {
    0: "decimal", 4: "float", 5: "double", 6: "null", 10: "date", 13: "year", 14: "date",
    20: "typed array", 242: "vector", 245: "json", 247: "enum", 248: "set",
}  # fmt: skip
_INTEGERS = {1: "tinyint", 2: "smallint", 3: "int", 8: "bigint", 9: "mediumint"}
_TEMPORAL = {7: "timestamp", 11: "time", 12: "datetime", 17: "timestamp", 18: "datetime", 19: "time"}
_VARYING = (15, 141, 253)
_BLOBS = {1: "tiny", 2: "", 3: "medium", 4: "long"}  # by bytes of the length
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
    if code in _TEMPORAL:
        return _TEMPORAL[code] + (f"({column.decimals})" if column.decimals else "")
    if code == 246:
        return f"decimal({column.precision},{column.decimals})"
    if code == 16:
        return f"bit({column.length})"
    if code == 255:
        kind = column.geometry_type or 0
        return _GEOMETRY[kind] if kind < len(_GEOMETRY) else "geometry"
    if code == 242 and column.dimensionality:
        return f"vector({column.dimensionality})"
    if code in _VARYING or code == 254:
        return _string_type(column, charset)
    if code in (140, 249, 250, 251, 252):
        size = _BLOBS.get(column.length, "")
        return f"{size}{'blob' if charset in (None, 'binary') else 'text'}"
    return _PLAIN.get(code, f"type {code}")


def _string_type(column: ColumnDefinition, charset: str | None) -> str:
    varying = "var" if column.type_code in _VARYING else ""
    length = column.length - (column.type_code == 141)  # the compressed form counts its head byte
    if charset is None or charset == "binary":
        return f"{varying}binary({length})"
    return f"{varying}char({length // CHARSETS[charset].max_bytes})"
