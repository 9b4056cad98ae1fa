"""The value that a new column of an ALTER TABLE has in the existing rows, if the text of the statement determines it.

    constant = constant_of(ddl, column)      # None: NULL
    value = value_of(kind, column, constant)

Only literals that every server stores unchanged have a value here. Literals that a server rounds, shortens or converts, and
everything that depends on the session, are refused.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

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
from binlake.table.schema.sql_tokens import Token, UnreadableTableError, closing, outer_words
from binlake.table.types.base import ColumnType
from binlake.table.types.binary import BinaryType
from binlake.table.types.bit import BitType
from binlake.table.types.decimal import DecimalType
from binlake.table.types.enum_set import EnumType, SetType
from binlake.table.types.floating import FloatingType
from binlake.table.types.integer import IntegerType, YearType
from binlake.table.types.temporal import TimeType
from binlake.table.types.text import TextType
from binlake.values.text import decode, encode

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?", re.IGNORECASE)
_INTEGER = re.compile(r"[-+]?[0-9]+")
_REAL = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?", re.IGNORECASE)
_EXACT = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?")
_BITS = re.compile(r"b'([01]+)'|0b([01]+)", re.IGNORECASE)
_HEX = re.compile(r"x'((?:[0-9a-f]{2})*)'|0x((?:[0-9a-f]{2})+)", re.IGNORECASE)
_TIME = re.compile(r"(-?)([0-9]{2}|[1-8][0-9]{2}):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,6}))?")
_YEAR = re.compile(r"[0-9]{4}")
_MOST_DECIMAL_DIGITS = 65  # a literal without an exponent is a DECIMAL

# attributes that do not matter here, by the number of words and names that follow them
_ATTRIBUTES = {
    "UNSIGNED": 0, "SIGNED": 0, "ZEROFILL": 0, "BINARY": 0, "ASCII": 0, "UNICODE": 0, "NULL": 0, "FIRST": 0,
    "VISIBLE": 0, "INVISIBLE": 0, "COMMENT": 1, "COLLATE": 1, "CHARSET": 1, "AFTER": 1, "COLUMN_FORMAT": 1,
    "STORAGE": 1,
}  # fmt: skip
# Their ASCII characters have two or four bytes.
_WIDE_CHARSETS = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
_COMPUTED = {"AUTO_INCREMENT", "AS", "PRIMARY", "SERIAL"}
_SECONDS = (3600, 60, 1)
_MICROSECONDS = 1_000_000


class Constant(NamedTuple):
    """A literal without its quotes. `form`: "number" (with its sign), "string", "bits", "hex", or "implied" for the value
    that NOT NULL without DEFAULT stands for.
    """

    text: str
    form: str


def constant_of(ddl: DdlStatement, column: DeclaredColumn) -> Constant | None:
    """Return the value that an ALTER TABLE gives a column that it adds; None for NULL.

    Raises UnsupportedError if it is not a literal, or one whose meaning the session changes.
    """
    try:
        attributes = attributes_of(_definition(items_of(ddl), column.name))
        constant = _constant(attributes, column)
        _check_mode(ddl.sql_mode, column, attributes, constant)
        _check_charset(ddl.connection_charset, column, constant)
        return constant
    except UnreadableTableError as error:
        raise _unknown(column.name, str(error)) from None


def _check_mode(
    sql_mode: int, column: DeclaredColumn, attributes: Sequence[Token], constant: Constant | None
) -> None:
    """Raise UnreadableTableError for a constant that means something else under a sql_mode."""
    if sql_mode & MODE_ANSI_QUOTES and any(one.source.strip()[:1] == '"' for one in attributes):
        raise UnreadableTableError("with ANSI_QUOTES, double quotes are not those of a text")
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


def _constant(attributes: Sequence[Token], column: DeclaredColumn) -> Constant | None:
    words = set(outer_words(attributes))
    if column.generated or column.sql.startswith("serial") or words & _COMPUTED:
        raise UnreadableTableError("the server computes them")
    if "DEFAULT" not in words and column.nullable is not False:
        if column.sql.startswith("timestamp") and column.nullable is None:
            raise UnreadableTableError("whether it may be NULL depends on a setting of the server")
        return None
    found: Constant | None = Constant("", "implied") if column.nullable is False else None
    at = 0
    while at < len(attributes):
        word, following = attributes[at].word, [token.word for token in attributes[at + 1 : at + 3]]
        if word == "DEFAULT":
            found, at = _literal(attributes, at + 1)
        elif word == "NOT" and following[:1] == ["NULL"]:
            at += 2
        elif word == "UNIQUE":
            at += 1 + (following[:1] == ["KEY"])
        elif word in ("CHARACTER", "CHAR") and following[:1] == ["SET"]:
            at += 3
        elif word == "CHECK" and following[:1] == ["("]:
            at = closing(attributes, at + 1, column.name) + 1
        elif word in _ATTRIBUTES:
            at += 1 + _ATTRIBUTES[word]
        else:
            raise UnreadableTableError(f"{attributes[at].text} is not understood")
    if column.sql.startswith("timestamp") and found is not None:
        raise UnreadableTableError("a TIMESTAMP depends on the time zone of the session")
    return found


def _literal(tokens: Sequence[Token], at: int) -> tuple[Constant | None, int]:
    """The literal at a place, None for NULL, and the place after it. Raises UnreadableTableError."""
    sign = ""
    if at < len(tokens) and tokens[at].word in ("+", "-"):
        sign, at = tokens[at].word, at + 1
    token = tokens[at] if at < len(tokens) else Token("", "word", "", "")
    source = token.source.strip()
    if _NUMBER.fullmatch(source):
        return Constant(sign + source, "number"), at + 1
    if not sign:
        if token.word == "NULL":
            return None, at + 1
        if token.word in ("TRUE", "FALSE"):
            return Constant("1" if token.word == "TRUE" else "0", "number"), at + 1
        if token.kind == "string" and _is_plain(token.text, source):
            return Constant(token.text, "string"), at + 1
        for pattern, form in ((_BITS, "bits"), (_HEX, "hex")):
            if (digits := pattern.fullmatch(source)) is not None:
                return Constant(digits[1] or digits[2] or "", form), at + 1
    raise UnreadableTableError(f"DEFAULT {sign}{source} is not a constant that binlake knows")


def _is_plain(text: str, source: str) -> bool:
    """Whether a quoted text is certain. A backslash is not: its meaning depends on the session."""
    quote = source[:1]
    inner = source[1:-1].replace(quote * 2, quote)
    return quote in ("'", '"') and inner == text and "\\" not in text


def value_of(kind: ColumnType, declared: DeclaredColumn, constant: Constant) -> Any:
    """Return a constant as a value of a column's Arrow type. Raises UnsupportedError if a server may store another value."""
    read = _FAMILIES.get(type(kind))
    if read is not None and not (declared.special and constant.form == "implied"):
        with suppress(ValueError, OverflowError):
            return read(kind, declared, constant)
    raise _unknown(
        declared.name, f"the constant is not one that binlake converts to {declared.sql}"
    )


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


_FAMILIES: dict[type[ColumnType], Callable[[Any, DeclaredColumn, Constant], Any]] = {
    YearType: _year,
    IntegerType: _integer,
    BitType: _bit,
    DecimalType: _decimal,
    FloatingType: _real,
    SetType: _set,
    EnumType: _member,
    TimeType: _time,
    TextType: _text,
    BinaryType: _binary,
}
