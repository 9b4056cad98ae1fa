"""The values of pseudo-SQL: the stored form of each column type, and its name in the comment of -vv.

The servers' tools show the stored form, not its meaning: integers are signed with the unsigned
number after them, text is bytes, ENUM and SET are numbers, TIMESTAMP is seconds. binlake differs
where the tools are wrong: it shows a GEOMETRY (MySQL's tool drops the rest of the row), and YEAR 0
is 0000 (both tools show 1900).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.text.text_rows import ValueColumn, ValueForm
from binlake.core.values.json_diff import MARK, parse_json, write_json
from binlake.format import column_types as ct
from binlake.source.arrays import array
from binlake.table.text.json_values import number_values, text_values
from binlake.values.plan import ColumnDefinition

_TEXT = pa.large_string()
_BLOB_NAMES = {
    1: "TINYBLOB/TINYTEXT",
    2: "BLOB/TEXT",
    3: "MEDIUMBLOB/MEDIUMTEXT",
    4: "LONGBLOB/LONGTEXT",
}
_ESCAPED = re.compile(rb"[\x00-\x1f'\\]")
_ESCAPES: dict[bytes, bytes] = {
    **{bytes((code,)): b"\\x%02x" % code for code in range(0x20)},
    b"'": b"\\'",
    b"\\": b"\\\\",
}
#: MySQL's tool has letters for some of them; MariaDB's has none.
_MYSQL_ESCAPES = {
    **_ESCAPES,
    b"\n": b"\\n",
    b"\r": b"\\r",
    b"\t": b"\\t",
    b"\b": b"\\b",
    b"\f": b"\\f",
}


class Comments(NamedTuple):
    """The text after a value with -vv, for one column: for a value and for NULL."""

    value: bytes
    null: bytes

    def around(self, before: bytes = b"", after: bytes = b"") -> dict[str, bytes]:
        """Return arguments of `ValueColumn`, with `before` and `after` directly around a value."""
        return {"before": before, "after": after + self.value, "null": b"NULL" + self.null}


def quoted_text(raw: bytes, flavour: str) -> bytes:
    """Return bytes in quotes; control characters are escaped, all others are unchanged."""
    escapes = _ESCAPES if flavour == "mariadb" else _MYSQL_ESCAPES
    return b"'" + _ESCAPED.sub(lambda found: escapes[found[0]], raw) + b"'"


Show = Callable[[ColumnDefinition, pa.Array, Comments], ValueColumn]


class FixedWidth(NamedTuple):
    """Numbers of a fixed width, which are shown as the core stores them, without an array between.

    `bits` are those of a column, `before` and `after` stand around a value.
    """

    form: ValueForm
    bits: Callable[[ColumnDefinition], int]
    before: bytes = b""
    after: bytes = b""


_integer = FixedWidth(
    ValueForm.BOTH_SIGNS, lambda column: 8 * (ct.COLUMN_TYPES[column.type_code].value_bytes or 0)
)
_bits = FixedWidth(ValueForm.BITS, lambda column: column.length, b"b'", b"'")
_real = FixedWidth(ValueForm.REAL, lambda _column: 0)


def _set(column: ColumnDefinition, values: pa.Array, comments: Comments) -> ValueColumn:
    """The bits of every byte, the first byte first: in the stored order, not as a number."""
    bits = 8 * column.length
    return number_values(values, ValueForm.SET_BITS, bits=bits, **comments.around(b"b'", b"'"))


def _text(
    form: ValueForm,
    quote: bytes = b"",
    prepare: Callable[[pa.Array], pa.Array] = lambda values: values,
) -> Show:
    """Show the text of values, after `prepare`, between quotes."""

    def show(_column: ColumnDefinition, values: pa.Array, comments: Comments) -> ValueColumn:
        return text_values(prepare(values), form, **comments.around(quote, quote))

    return show


_plain = _text(ValueForm.RAW, prepare=lambda values: values.cast(_TEXT))
_year = _text(ValueForm.RAW, prepare=lambda values: pc.utf8_lpad(values.cast(_TEXT), 4, "0"))
_quoted = _text(ValueForm.RAW, b"'")
_date = _text(ValueForm.RAW, b"'", lambda values: pc.replace_substring(values, "-", ":"))
_timestamp = _text(ValueForm.UNIX_TIME)  # seconds since 1970, with the fraction in its stored form
_mysql_text = _text(ValueForm.MYSQL_TEXT, b"'")
_mariadb_text = _text(ValueForm.MARIADB_TEXT, b"'")


def _json(column: ColumnDefinition, values: pa.Array, comments: Comments) -> ValueColumn:
    odd = pc.or_(pc.starts_with(values, MARK), pc.starts_with(values, '"'))
    if not pc.any(odd).as_py():
        return _mysql_text(column, values, comments)
    shown = [None if value is None else _json_text(column, value) for value in values.to_pylist()]
    return text_values(array(shown, pa.binary()), ValueForm.RAW, **comments.around())


def _json_text(column: ColumnDefinition, value: str) -> bytes:
    if value.startswith(MARK):
        return _differences(f"@{column.ordinal + 1}", value[len(MARK) :]).encode()
    # a document that is a string is shown as the string
    text = parse_json(value) if value.startswith('"') else value
    return quoted_text(text.encode(), "mysql")


_NEXT_LINE = ",\n###      "


def _differences(column: str, text: str) -> str:
    """JSON differences as calls of the functions that make them, the first one innermost.

    Consecutive calls of the same function are one call, with a line for each.
    """
    made = column
    for operation, group in groupby(parse_json(text), key=itemgetter("op")):
        places = _NEXT_LINE.join(map(_place, group))
        inner = f"{column}, " if made == column else f"\n###      {made}{_NEXT_LINE}"
        made = f"JSON_{operation.upper()}({inner}{places})"
    return made


def _place(difference: Mapping[str, Any]) -> str:
    path = _literal(difference["path"])
    if "value" not in difference:
        return path
    return f"{path}, {_json_literal(difference['value'])}"


def _json_literal(value: Any) -> str:
    """Return a JSON value as an SQL expression of that value."""
    text = write_json(value)
    if isinstance(value, dict | list):
        return f"CAST({_literal(text)} AS JSON)"
    return _literal(value) if text.startswith('"') else text


def _literal(text: str) -> str:
    return quoted_text(text.encode(), "mysql").decode()


def _vector(_column: ColumnDefinition, values: pa.Array, comments: Comments) -> ValueColumn:
    shown = [None if value is None else _vector_text(value) for value in values.to_pylist()]
    return text_values(array(shown, pa.binary()), ValueForm.RAW, **comments.around())


def _vector_text(raw: bytes) -> bytes:
    floats = struct.unpack(f"<{len(raw) // 4}f", raw[: len(raw) // 4 * 4])
    return b"[" + b",".join(b"%.5e" % value for value in floats) + b"]"


class TypeForm(NamedTuple):
    """How to show a type's values, and its name in the comment."""

    show: Show | FixedWidth
    name: Callable[[ColumnDefinition], str]


def _named(name: str) -> Callable[[ColumnDefinition], str]:
    return lambda _column: name


def _digits(name: str) -> Callable[[ColumnDefinition], str]:
    return lambda column: f"{name}({column.decimals})"


def _length(name: str, tail: str = "") -> Callable[[ColumnDefinition], str]:
    return lambda column: f"{name}({column.length}){tail}"


def _blob_name(column: ColumnDefinition) -> str:
    return _BLOB_NAMES.get(column.length, "BLOB/TEXT")


def _enum_name(column: ColumnDefinition) -> str:
    return "ENUM(1 byte)" if column.length == 1 else f"ENUM({column.length} bytes)"


_FORMS: dict[int, TypeForm] = {
    ct.MYSQL_TYPE_TINY: TypeForm(_integer, _named("TINYINT")),
    ct.MYSQL_TYPE_SHORT: TypeForm(_integer, _named("SHORTINT")),
    ct.MYSQL_TYPE_INT24: TypeForm(_integer, _named("MEDIUMINT")),
    ct.MYSQL_TYPE_LONG: TypeForm(_integer, _named("INT")),
    ct.MYSQL_TYPE_LONGLONG: TypeForm(_integer, _named("LONGINT")),
    ct.MYSQL_TYPE_YEAR: TypeForm(_year, _named("YEAR")),
    ct.MYSQL_TYPE_BIT: TypeForm(_bits, _length("BIT")),
    ct.MYSQL_TYPE_NEWDECIMAL: TypeForm(_plain, lambda c: f"DECIMAL({c.precision},{c.decimals})"),
    ct.MYSQL_TYPE_FLOAT: TypeForm(_real, _named("FLOAT")),
    ct.MYSQL_TYPE_DOUBLE: TypeForm(_real, _named("DOUBLE")),
    ct.MYSQL_TYPE_DATE: TypeForm(_date, _named("DATE")),
    ct.MYSQL_TYPE_NEWDATE: TypeForm(_date, _named("DATE")),
    ct.MYSQL_TYPE_TIME: TypeForm(_quoted, _named("TIME")),
    ct.MYSQL_TYPE_TIME2: TypeForm(_quoted, _digits("TIME")),
    ct.MYSQL_TYPE_DATETIME: TypeForm(_quoted, _named("DATETIME")),
    ct.MYSQL_TYPE_DATETIME2: TypeForm(_quoted, _digits("DATETIME")),
    ct.MYSQL_TYPE_TIMESTAMP: TypeForm(_timestamp, _named("TIMESTAMP")),
    ct.MYSQL_TYPE_TIMESTAMP2: TypeForm(_timestamp, _digits("TIMESTAMP")),
    ct.MYSQL_TYPE_ENUM: TypeForm(_plain, _enum_name),
    ct.MYSQL_TYPE_SET: TypeForm(_set, lambda c: f"SET({c.length} bytes)"),
    ct.MYSQL_TYPE_VARCHAR: TypeForm(_mysql_text, _length("VARSTRING")),
    ct.MYSQL_TYPE_VAR_STRING: TypeForm(_mysql_text, _length("VARSTRING")),
    ct.MYSQL_TYPE_STRING: TypeForm(_mysql_text, _length("STRING")),
    ct.MYSQL_TYPE_VARCHAR_COMPRESSED: TypeForm(_mysql_text, _length("VARSTRING", " COMPRESSED")),
    ct.MYSQL_TYPE_BLOB_COMPRESSED: TypeForm(_mysql_text, lambda c: _blob_name(c) + " COMPRESSED"),
    ct.MYSQL_TYPE_GEOMETRY: TypeForm(_mysql_text, _named("GEOMETRY")),
    ct.MYSQL_TYPE_JSON: TypeForm(_json, _named("JSON")),
    ct.MYSQL_TYPE_VECTOR: TypeForm(
        _vector, lambda c: f"VECTOR({c.dimensionality})" if c.dimensionality else "VECTOR"
    ),
    **dict.fromkeys(
        (
            ct.MYSQL_TYPE_TINY_BLOB,
            ct.MYSQL_TYPE_MEDIUM_BLOB,
            ct.MYSQL_TYPE_LONG_BLOB,
            ct.MYSQL_TYPE_BLOB,
        ),
        TypeForm(_mysql_text, _blob_name),
    ),
}
_MARIADB_FORMS = {
    code: face._replace(show=_mariadb_text) if face.show is _mysql_text else face
    for code, face in _FORMS.items()
}
_UNKNOWN = TypeForm(_plain, lambda c: ct.column_type_name(c.type_code))


def type_form(type_code: int, flavour: str = "mysql") -> TypeForm:
    """Return the form of a column type in the tool of a flavour; names are the same in both tools."""
    return (_MARIADB_FORMS if flavour == "mariadb" else _FORMS).get(type_code, _UNKNOWN)
