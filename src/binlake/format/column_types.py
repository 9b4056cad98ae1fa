"""Column types as TABLE_MAP numbers them: names, metadata widths, value widths.

Sources: MySQL 9.7.4 `include/field_types.h`, `libs/mysql/binlog/event/binary_log_funcs.cpp`
(calc_field_size) and `sql/rpl_utility.cc` (read_field_metadata); MariaDB 11.8.6
`sql/rpl_utility.cc`. Character-column rules: `sql/field_common_properties.h`, and MariaDB
`sql/log_event_server.cc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

MYSQL_TYPE_DECIMAL = 0
MYSQL_TYPE_TINY = 1
MYSQL_TYPE_SHORT = 2
MYSQL_TYPE_LONG = 3
MYSQL_TYPE_FLOAT = 4
MYSQL_TYPE_DOUBLE = 5
MYSQL_TYPE_NULL = 6
MYSQL_TYPE_TIMESTAMP = 7
MYSQL_TYPE_LONGLONG = 8
MYSQL_TYPE_INT24 = 9
MYSQL_TYPE_DATE = 10
MYSQL_TYPE_TIME = 11
MYSQL_TYPE_DATETIME = 12
MYSQL_TYPE_YEAR = 13
MYSQL_TYPE_NEWDATE = 14
MYSQL_TYPE_VARCHAR = 15
MYSQL_TYPE_BIT = 16
MYSQL_TYPE_TIMESTAMP2 = 17
MYSQL_TYPE_DATETIME2 = 18
MYSQL_TYPE_TIME2 = 19
MYSQL_TYPE_TYPED_ARRAY = 20
MYSQL_TYPE_BLOB_COMPRESSED = 140
MYSQL_TYPE_VARCHAR_COMPRESSED = 141
MYSQL_TYPE_VECTOR = 242
MYSQL_TYPE_INVALID = 243
MYSQL_TYPE_BOOL = 244
MYSQL_TYPE_JSON = 245
MYSQL_TYPE_NEWDECIMAL = 246
MYSQL_TYPE_ENUM = 247
MYSQL_TYPE_SET = 248
MYSQL_TYPE_TINY_BLOB = 249
MYSQL_TYPE_MEDIUM_BLOB = 250
MYSQL_TYPE_LONG_BLOB = 251
MYSQL_TYPE_BLOB = 252
MYSQL_TYPE_VAR_STRING = 253
MYSQL_TYPE_STRING = 254
MYSQL_TYPE_GEOMETRY = 255

_NAMES = {code: name for name, code in list(globals().items()) if type(code) is int}

#: The most columns of a table: MAX_FIELDS of both servers (sql/sql_const.h).
MOST_COLUMNS = 4096


class TypeInfo(NamedTuple):
    """One column type.

    `metadata_bytes` is the length of its metadata in TABLE_MAP; `value_bytes` the width of a value where
    it is the same for every column of the type, else None; `signed_bit` whether the
    SIGNEDNESS field has a bit for it.
    """

    code: int
    name: str
    metadata_bytes: int
    value_bytes: int | None
    signed_bit: bool = False


_TABLE: tuple[tuple[int, int, int | None, bool], ...] = (
    (MYSQL_TYPE_DECIMAL, 0, None, True),  # before 5.0; a log does not contain its width
    (MYSQL_TYPE_TINY, 0, 1, True),
    (MYSQL_TYPE_SHORT, 0, 2, True),
    (MYSQL_TYPE_LONG, 0, 4, True),
    (MYSQL_TYPE_FLOAT, 1, 4, True),
    (MYSQL_TYPE_DOUBLE, 1, 8, True),
    (MYSQL_TYPE_NULL, 0, 0, False),
    (MYSQL_TYPE_TIMESTAMP, 0, 4, False),
    (MYSQL_TYPE_LONGLONG, 0, 8, True),
    (MYSQL_TYPE_INT24, 0, 3, True),
    (MYSQL_TYPE_DATE, 0, 3, False),
    (MYSQL_TYPE_TIME, 0, 3, False),
    (MYSQL_TYPE_DATETIME, 0, 8, False),
    (MYSQL_TYPE_YEAR, 0, 1, True),
    (MYSQL_TYPE_NEWDATE, 0, 3, False),
    (MYSQL_TYPE_VARCHAR, 2, None, False),
    (MYSQL_TYPE_BIT, 2, None, False),
    (MYSQL_TYPE_TIMESTAMP2, 1, None, False),
    (MYSQL_TYPE_DATETIME2, 1, None, False),
    (MYSQL_TYPE_TIME2, 1, None, False),
    (MYSQL_TYPE_TYPED_ARRAY, 1, None, False),  # and the metadata of its element type
    (MYSQL_TYPE_BLOB_COMPRESSED, 1, None, False),  # MariaDB
    (MYSQL_TYPE_VARCHAR_COMPRESSED, 2, None, False),  # MariaDB
    (MYSQL_TYPE_VECTOR, 1, None, False),  # MySQL 9
    (MYSQL_TYPE_INVALID, 0, None, False),
    (MYSQL_TYPE_BOOL, 0, None, False),
    (MYSQL_TYPE_JSON, 1, None, False),
    (MYSQL_TYPE_NEWDECIMAL, 2, None, True),
    (MYSQL_TYPE_ENUM, 2, None, False),  # in TABLE_MAP as 254 with this code in the metadata
    (MYSQL_TYPE_SET, 2, None, False),  # the same
    (MYSQL_TYPE_TINY_BLOB, 1, None, False),
    (MYSQL_TYPE_MEDIUM_BLOB, 1, None, False),
    (MYSQL_TYPE_LONG_BLOB, 1, None, False),
    (MYSQL_TYPE_BLOB, 1, None, False),
    (MYSQL_TYPE_VAR_STRING, 2, None, False),
    (MYSQL_TYPE_STRING, 2, None, False),
    (MYSQL_TYPE_GEOMETRY, 1, None, False),
)

#: All column types by code.
COLUMN_TYPES: Mapping[int, TypeInfo] = MappingProxyType(
    {row[0]: TypeInfo(row[0], _NAMES[row[0]], *row[1:]) for row in _TABLE}
)


def column_type_name(code: int) -> str:
    """The server's name of a column type, `MYSQL_TYPE_<code>` where there is none."""
    known = COLUMN_TYPES.get(code)
    return known.name if known is not None else f"MYSQL_TYPE_{code}"


#: Whole numbers, without YEAR.
INTEGER_TYPES = frozenset(
    {
        MYSQL_TYPE_TINY,
        MYSQL_TYPE_SHORT,
        MYSQL_TYPE_INT24,
        MYSQL_TYPE_LONG,
        MYSQL_TYPE_LONGLONG,
    }
)
#: Types whose metadata is the number of fractional digits.
FRACTIONAL_TYPES = frozenset({MYSQL_TYPE_TIMESTAMP2, MYSQL_TYPE_DATETIME2, MYSQL_TYPE_TIME2})
FLOAT_TYPES = frozenset({MYSQL_TYPE_FLOAT, MYSQL_TYPE_DOUBLE})

#: Strings and blobs, without the compressed ones of MariaDB.
STRING_TYPES = frozenset(
    {
        MYSQL_TYPE_VARCHAR,
        MYSQL_TYPE_VAR_STRING,
        MYSQL_TYPE_STRING,
        MYSQL_TYPE_TINY_BLOB,
        MYSQL_TYPE_MEDIUM_BLOB,
        MYSQL_TYPE_LONG_BLOB,
        MYSQL_TYPE_BLOB,
    }
)
#: Types that have an entry in the charset fields of the optional metadata, by flavour. Real
#: types: ENUM and SET have fields of their own. MySQL leaves out JSON and GEOMETRY; MariaDB
#: includes every type with a character set, and a geometry has one there.
CHARACTER_TYPES: Mapping[str, frozenset[int]] = MappingProxyType(
    {
        "mysql": STRING_TYPES | {MYSQL_TYPE_VECTOR},
        "mariadb": STRING_TYPES
        | {MYSQL_TYPE_BLOB_COMPRESSED, MYSQL_TYPE_VARCHAR_COMPRESSED, MYSQL_TYPE_GEOMETRY},
    }
)
#: Types whose values have a length field of their own size, and are no part of the row on the server.
LARGE_TYPES = (
    MYSQL_TYPE_TINY_BLOB,
    MYSQL_TYPE_MEDIUM_BLOB,
    MYSQL_TYPE_LONG_BLOB,
    MYSQL_TYPE_BLOB,
    MYSQL_TYPE_BLOB_COMPRESSED,
    MYSQL_TYPE_JSON,
    MYSQL_TYPE_GEOMETRY,
    MYSQL_TYPE_VECTOR,
)


def is_character_type(code: int, flavour: str) -> bool:
    """Whether a column of this real type has an entry in the charset fields of `flavour`."""
    return code in CHARACTER_TYPES[flavour]


def fraction_bytes(fsp: int) -> int:
    """Bytes that `fsp` (0 to 6) fractional digits take in a TIMESTAMP2, DATETIME2 or TIME2."""
    return (fsp + 1) // 2


_BLOB_LENGTH_BYTES = {"tiny": 1, "medium": 3, "long": 4}


def blob_length_bytes(sql: str) -> int:
    """The bytes of the length before a value, for the SQL of a type of the BLOB family: 3 for `mediumtext`."""
    found = (size for start, size in _BLOB_LENGTH_BYTES.items() if sql.startswith(start))
    return next(found, 2)
