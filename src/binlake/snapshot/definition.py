"""A table as TABLE_MAP would describe it, from the CREATE TABLE that a server prints.

The definitions of a log are what every column type, plan and Arrow schema is made from. Making the same
from a CREATE TABLE gives a snapshot the types of `log.changes`.
"""

from __future__ import annotations

from binlake.errors import SchemaError, UnsupportedError
from binlake.format import column_types as ct
from binlake.format.charsets import BINARY, CHARSETS
from binlake.table.schema.declared import A_COLLATION, DeclaredColumn, DeclaredTable, member_bytes
from binlake.table.types.network import NETWORK_BYTES
from binlake.values.charset_text import lower_case
from binlake.values.plan import ColumnDefinition, NameSource, TableDefinition

#: Of the types that TABLE_MAP may give for one SQL type, the one that new tables have.
_PREFERRED = (
    ct.MYSQL_TYPE_NEWDECIMAL,
    ct.MYSQL_TYPE_TIME2,
    ct.MYSQL_TYPE_DATETIME2,
    ct.MYSQL_TYPE_TIMESTAMP2,
    ct.MYSQL_TYPE_DATE,
    ct.MYSQL_TYPE_BLOB,
    ct.MYSQL_TYPE_VARCHAR,
)
_LENGTHS = {
    ct.MYSQL_TYPE_FLOAT: 4,
    ct.MYSQL_TYPE_DOUBLE: 8,
    ct.MYSQL_TYPE_JSON: 4,
    ct.MYSQL_TYPE_GEOMETRY: 4,
    ct.MYSQL_TYPE_VECTOR: 4,
}
_STRINGS = frozenset({ct.MYSQL_TYPE_STRING, ct.MYSQL_TYPE_VARCHAR, ct.MYSQL_TYPE_BLOB})
_FLOAT_BYTES = 4


def definition_of(declared: DeclaredTable, flavour: str) -> TableDefinition:
    """The definition of a table that a live server declares.

    Raises UnsupportedError for a table whose rows binlake cannot follow, SchemaError where a character set is unknown.
    """
    name = f"{declared.database}.{declared.table}"
    if declared.system_versioned:
        raise UnsupportedError(
            f"{name}: tables with system versioning are not supported, because the server logs a DELETE as an update"
            " that ends the version of the row",
            hint="leave it out of a mirror with --exclude-table",
        )
    columns = tuple(
        _column(ordinal, column, name, flavour) for ordinal, column in enumerate(declared.columns)
    )
    ordinals = {lower_case(column.name): column.ordinal for column in columns}
    key = list(map(lower_case, declared.primary_key))
    missing = [part for part in key if part not in ordinals]
    if missing:
        raise SchemaError(f"{name}: its primary key names column {missing[0]}, which it lacks")
    return TableDefinition(
        declared.database or "",
        declared.table,
        columns,
        primary_key=tuple(ordinals[part] for part in key),
        name_source=NameSource.SCHEMA,
        flavour=flavour,
    )


def is_text_without_charset(declared: DeclaredColumn) -> bool:
    """Whether a column is text, and its declaration names no character set."""
    is_text = bool(_STRINGS.intersection(declared.type_codes)) and not declared.special
    return is_text and declared.charset is None


def _column(ordinal: int, declared: DeclaredColumn, table: str, flavour: str) -> ColumnDefinition:
    code = _type_code(declared, flavour)
    if code == ct.MYSQL_TYPE_YEAR and declared.length == 2:
        raise UnsupportedError(
            f"{table}.{declared.name}: YEAR(2) cannot be mirrored",
            hint="change the column to YEAR",
        )
    charset = declared.charset
    is_text = code in _STRINGS and charset != BINARY
    if is_text and charset not in CHARSETS:
        said = f"unknown character set {charset}" if charset else "no character set is named"
        raise SchemaError(f"{table}.{declared.name}: {said}")
    is_decimal = code == ct.MYSQL_TYPE_NEWDECIMAL
    return ColumnDefinition(
        ordinal,
        declared.name,
        code,
        length=0 if is_decimal else _length(code, declared, flavour),
        precision=declared.length if is_decimal else 0,
        decimals=_decimals(code, declared),
        nullable=declared.nullable is not False,
        unsigned=declared.unsigned if code in ct.INTEGER_TYPES else None,
        collation_id=A_COLLATION[charset] if code in _STRINGS and charset else None,
        members=declared.members,
        declared=declared.special if flavour == "mariadb" else None,
        generated=declared.generated,
        virtual=declared.virtual and flavour == "mariadb",
    )


def _type_code(declared: DeclaredColumn, flavour: str) -> int:
    codes = declared.type_codes
    if declared.special == "json":
        return ct.MYSQL_TYPE_JSON if flavour == "mysql" else ct.MYSQL_TYPE_BLOB
    if declared.special == "vector":
        return ct.MYSQL_TYPE_VECTOR if flavour == "mysql" else ct.MYSQL_TYPE_VARCHAR
    if len(codes) == 1:
        return next(iter(codes))
    return next(code for code in _PREFERRED if code in codes)


def _length(code: int, declared: DeclaredColumn, flavour: str) -> int:
    """The length as in TABLE_MAP: bytes, or bits for BIT."""
    if declared.special in NETWORK_BYTES:
        return NETWORK_BYTES[declared.special]
    if declared.special == "vector" and flavour == "mariadb":
        return declared.length * _FLOAT_BYTES
    if code == ct.MYSQL_TYPE_BLOB:
        return 4 if declared.special == "json" else ct.blob_length_bytes(declared.sql)
    if code in _STRINGS:
        characters = declared.length
        if code == ct.MYSQL_TYPE_STRING and "(" not in declared.sql:
            characters = 1  # CHAR and BINARY without a length
        if declared.charset == BINARY:
            return characters
        return characters * CHARSETS[declared.charset or ""].max_bytes
    if code in (ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET):
        return member_bytes(code, len(declared.members or ()))
    return _LENGTHS.get(code, declared.length if code == ct.MYSQL_TYPE_BIT else 0)


def _decimals(code: int, declared: DeclaredColumn) -> int:
    keeps = code == ct.MYSQL_TYPE_NEWDECIMAL or code in ct.FRACTIONAL_TYPES
    return declared.decimals if keeps else 0
