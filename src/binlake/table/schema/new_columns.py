"""The value that a new column of an ALTER TABLE has in the existing rows, if the text of the statement determines it.

    constant = constant_of(ddl, column)      # None: NULL
    value = value_of(kind, column, constant)

Only literals that every server stores unchanged have a value here. Literals that a server rounds, shortens or converts, and
everything that depends on the session, are refused. For an INSERT that does not name a column, `literal_value` does the same with
the default of the column (`defaults`).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from binlake.errors import UnsupportedError
from binlake.format import column_types as ct
from binlake.format.charsets import BINARY
from binlake.format.flags import (
    MODE_ANSI_QUOTES,
    MODE_EMPTY_STRING_IS_NULL,
    MODE_REAL_AS_FLOAT,
)
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.alter import added_definitions
from binlake.table.schema.create_table import attributes_of
from binlake.table.schema.ddl_tokens import items_of
from binlake.table.schema.declared import DeclaredColumn
from binlake.table.schema.defaults import Constant, Unknown, literal_default
from binlake.table.schema.sql_tokens import Token, UnreadableTableError
from binlake.table.types.base import ColumnType
from binlake.table.types.binary import BinaryType
from binlake.table.types.bit import BitType
from binlake.table.types.decimal import DecimalType
from binlake.table.types.enum_set import EnumType, SetType
from binlake.table.types.floating import FloatingType
from binlake.table.types.integer import IntegerType, YearType
from binlake.table.types.temporal import DateTimeType, DateType, TimeType
from binlake.table.types.text import TextType
from binlake.values.charset_text import decode, encode

_INTEGER = re.compile(r"[-+]?[0-9]+")
_REAL = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?", re.IGNORECASE)
_EXACT = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?")
_TIME = re.compile(r"(-?)([0-9]{2}|[1-8][0-9]{2}):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,6}))?")
_MOMENT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:( [0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?)?")  # fmt: skip
_YEAR = re.compile(r"[0-9]{4}")
_MOST_DECIMAL_DIGITS = 65  # a literal without an exponent is a DECIMAL

# Their ASCII characters have two or four bytes.
_WIDE_CHARSETS = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
_SECONDS = (3600, 60, 1)
_MICROSECONDS = 1_000_000


def constant_of(ddl: DdlStatement, column: DeclaredColumn) -> Constant | None:
    """Return the value that an ALTER TABLE gives a column that it adds; None for NULL.

    Raises UnsupportedError if it is not a literal, or one whose meaning the session changes.
    """
    try:
        attributes = attributes_of(_definition(items_of(ddl), column.name))
        constant = literal_default(attributes, column.sql, column.nullable)
        _check_mode(ddl.sql_mode, column, attributes, constant)
        _check_charset(ddl.connection_charset, column, constant)
        return constant
    except UnreadableTableError as error:
        raise _unknown(column.name, str(error)) from None


def with_certain_default(ddl: DdlStatement, column: DeclaredColumn) -> DeclaredColumn:
    """Return a column that a statement defines, with an unknown default if the session gives the literal another meaning."""
    default = column.default
    if default is None or isinstance(default, Unknown):
        return column
    try:
        if default.form == "string" and '"' in ddl.sql:
            _check_quotes(ddl.sql_mode)
        _check_mode(ddl.sql_mode, column, (), default)
        _check_charset(ddl.connection_charset, column, default)
    except UnreadableTableError as error:
        return replace(column, default=Unknown(str(error)))
    return column


def _check_quotes(sql_mode: int) -> None:
    """Raise UnreadableTableError if double quotes enclose names under a sql_mode."""
    if sql_mode & MODE_ANSI_QUOTES:
        raise UnreadableTableError("with ANSI_QUOTES, double quotes are not those of a text")


def _check_mode(
    sql_mode: int, column: DeclaredColumn, attributes: Sequence[Token], constant: Constant | None
) -> None:
    """Raise UnreadableTableError for a constant that means something else under a sql_mode."""
    if any(one.source.strip()[:1] == '"' for one in attributes):
        _check_quotes(sql_mode)
    if sql_mode & MODE_EMPTY_STRING_IS_NULL and constant == Constant("", "string"):
        raise UnreadableTableError("with EMPTY_STRING_IS_NULL, '' is NULL")
    if sql_mode & MODE_REAL_AS_FLOAT and column.sql.startswith("real"):
        raise UnreadableTableError("with REAL_AS_FLOAT, the column is a FLOAT")


def _check_charset(charset: str | None, column: DeclaredColumn, constant: Constant | None) -> None:
    """Raise UnreadableTableError for a text that the server stores as the bytes of another character set."""
    if constant is None or constant.form != "string":
        return
    is_bytes = column.charset == BINARY and charset in _WIDE_CHARSETS
    if is_bytes or (charset == BINARY and not constant.text.isascii()):
        raise UnreadableTableError(f"the server converts a text to character set {charset} first")


def _definition(items: Sequence[Sequence[Token]], name: str) -> Sequence[Token]:
    """The one definition of a column that the items add."""
    if any(
        item[0].word == "ALTER" and name.lower() in [token.text.lower() for token in item[1:3]]
        for item in items
    ):
        raise UnreadableTableError("its default is changed in the same statement")
    parts = added_definitions(items, name)
    found = [part for part in parts if part[0].text.lower() == name.lower()]
    if len(found) != 1:
        raise UnreadableTableError("its definition is not understood")
    return found[0]


def value_of(kind: ColumnType, declared: DeclaredColumn, constant: Constant) -> Any:
    """Return a constant as a value of a column's Arrow type. Raises UnsupportedError if a server may store another value."""
    try:
        return literal_value(kind, declared, constant)
    except ValueError as error:
        raise _unknown(declared.name, str(error)) from None


def literal_value(kind: ColumnType, declared: DeclaredColumn, constant: Constant) -> Any:
    """Return a constant as a value of a column's Arrow type. Raises ValueError with the reason if a server may store another
    value.
    """
    read = _FAMILIES.get(type(kind))
    if read is not None and not (declared.special and constant.form == "implied"):
        try:
            return read(kind, declared, constant)
        except (ValueError, OverflowError):
            pass
    raise ValueError(f"the constant is not one that binlake converts to {declared.sql}")


def _unknown(name: str, why: str) -> UnsupportedError:
    return UnsupportedError(f"column {name} is added with values in the existing rows: {why}")


def _matching(pattern: re.Pattern[str], constant: Constant, *forms: str) -> str:
    """The text of a constant. Raises ValueError if it has another form."""
    if constant.form == "implied":
        return "0"
    if constant.form not in forms or pattern.fullmatch(constant.text) is None:
        raise ValueError(constant.text)
    return constant.text


def _integer(kind: Any, _: DeclaredColumn, constant: Constant) -> Any:
    value = int(_matching(_INTEGER, constant, "number", "string"))
    kind.to_wire(value)
    return Decimal(value) if pa.types.is_decimal(kind.arrow_type) else value


def _year(_: Any, declared: DeclaredColumn, constant: Constant) -> int:
    if constant == Constant("0", "number"):
        return 0  # '0' is the year 2000
    value = int(_matching(_YEAR, constant, "number", "string"))
    if value and not 1901 <= value <= 2155:
        raise ValueError(declared.name)
    return value


def _bit(kind: Any, _: DeclaredColumn, constant: Constant) -> Any:
    if constant.form == "bits":
        value = int(constant.text, 2)
    else:
        value = int(_matching(_INTEGER, constant, "number"))  # '1' is the character
    if not 0 <= value < 1 << kind.column.length:
        raise ValueError(value)
    return Decimal(value) if pa.types.is_decimal(kind.arrow_type) else value


def _decimal(kind: Any, _: DeclaredColumn, constant: Constant) -> Any:
    value = Decimal(_matching(_EXACT, constant, "number", "string"))
    sign, digits, exponent = value.as_tuple()
    scale = kind.column.decimals
    assert isinstance(exponent, int)
    if -exponent > scale and any(digits[scale + exponent :]):
        raise ValueError(value)  # servers round it
    if sign and not value:
        raise ValueError(value)
    text = f"{value:.{scale}f}"
    kind.to_wire(text)
    return text if pa.types.is_string(kind.arrow_type) else Decimal(text)


def _real(kind: Any, declared: DeclaredColumn, constant: Constant) -> float:
    if "," in declared.sql:
        raise ValueError(declared.sql)  # servers round to these digits
    text = _matching(_REAL, constant, "number", "string")
    if "e" not in text.lower() and len(text) > _MOST_DECIMAL_DIGITS:
        raise ValueError(text)
    value = float(text)
    if pa.types.is_float32(kind.arrow_type):
        (value,) = struct.unpack("<f", struct.pack("<f", value))
    if not math.isfinite(value) or (not value and constant.text.startswith("-")):
        raise ValueError(value)
    return value


def _text(kind: Any, declared: DeclaredColumn, constant: Constant) -> str:
    if constant.form not in ("string", "implied"):
        raise ValueError(constant.text)
    text = constant.text
    charset = kind.charset
    is_counted = declared.length or kind.column.type_code != ct.MYSQL_TYPE_BLOB
    if is_counted and len(text) > (declared.length or 1):
        raise ValueError(text)
    if kind.column.type_code == ct.MYSQL_TYPE_STRING and text.endswith(" "):
        raise ValueError(text)  # CHAR loses them
    raw = encode(charset, text)
    if decode(charset, raw) != text or text.startswith("_"):
        raise ValueError(text)
    kind.to_wire(text)
    return text


def _binary(kind: Any, declared: DeclaredColumn, constant: Constant) -> bytes:
    if constant.form == "hex":
        raw = bytes.fromhex(constant.text)
    elif constant.form in ("string", "implied"):
        raw = constant.text.encode("ascii")
    else:
        raise ValueError(constant.text)
    if kind.column.type_code != ct.MYSQL_TYPE_BLOB and len(raw) > kind.column.length:
        raise ValueError(declared.sql)
    kind.to_wire(raw)
    return bytes(raw.ljust(kind.padded_bytes(), b"\0"))


def _member(kind: Any, _: DeclaredColumn, constant: Constant) -> Any:
    members = kind.members or ()
    text = members[0] if constant.form == "implied" and members else constant.text
    if constant.form not in ("string", "implied") or text not in members:
        raise ValueError(text)  # a server that compares without case finds another spelling
    return text if pa.types.is_string(kind.arrow_type) else members.index(text) + 1


def _set(kind: Any, _: DeclaredColumn, constant: Constant) -> str:
    wanted = constant.text.split(",") if constant.text else []
    if constant.form not in ("string", "implied") or not pa.types.is_string(kind.arrow_type):
        raise ValueError(constant.text)
    if wanted != [member for member in kind.members or () if member in wanted]:
        raise ValueError(constant.text)
    return constant.text


def _time(kind: Any, _: DeclaredColumn, constant: Constant) -> Any:
    text = "00:00:00" if constant in (Constant("0", "number"), Constant("", "implied")) else None
    found = _TIME.fullmatch(text or constant.text)
    digits = kind.column.decimals
    if found is None or (text is None and constant.form != "string"):
        raise ValueError(constant.text)
    fraction = (found[5] or "").rstrip("0")
    seconds = sum(int(part) * n for part, n in zip(found.group(2, 3, 4), _SECONDS, strict=True))
    micros = seconds * _MICROSECONDS + int(fraction.ljust(6, "0"))
    if len(fraction) > digits or (found[1] and not micros) or micros > 3_020_399 * _MICROSECONDS:
        raise ValueError(constant.text)
    if pa.types.is_string(kind.arrow_type):
        whole = f"{found[1]}{found[2]}:{found[3]}:{found[4]}"
        return f"{whole}.{fraction.ljust(digits, '0')}" if digits else whole
    if not pa.types.is_int64(kind.arrow_type):
        raise ValueError(constant.text)
    return -micros if found[1] else micros


def _date(kind: Any, _: DeclaredColumn, constant: Constant) -> Any:
    """The value of a DATE or DATETIME. A zero or partial date is NULL, or refused, as the option zero_date says."""
    is_day = isinstance(kind, DateType)
    zero = "0000-00-00" + ("" if is_day else " 00:00:00")
    text = zero if constant.form == "implied" else constant.text
    found = _MOMENT.fullmatch(text)
    digits = kind.column.decimals
    is_literal = constant.form in ("string", "implied")
    if found is None or not is_literal or is_day != (found[2] is None):
        raise ValueError(text)
    fraction = (found[3] or "").rstrip("0")
    if len(fraction) > digits:
        raise ValueError(text)  # servers round it
    whole = found[1] + (found[2] or "")
    is_partial = found[1] < "0001" or "-00" in found[1]
    value = None if is_partial else datetime.fromisoformat(whole)
    if pa.types.is_string(kind.arrow_type):
        return f"{whole}.{fraction.ljust(digits, '0')}" if digits else whole
    if is_partial and kind.policy != "null":
        raise ValueError(text)
    if value is None:
        return None
    micros = int(fraction.ljust(6, "0"))
    return value.date() if is_day else value.replace(microsecond=micros)


_FAMILIES: dict[type[ColumnType], Callable[[Any, DeclaredColumn, Constant], Any]] = {
    YearType: _year,
    IntegerType: _integer,
    BitType: _bit,
    DecimalType: _decimal,
    FloatingType: _real,
    SetType: _set,
    EnumType: _member,
    TimeType: _time,
    DateType: _date,
    DateTimeType: _date,
    TextType: _text,
    BinaryType: _binary,
}
