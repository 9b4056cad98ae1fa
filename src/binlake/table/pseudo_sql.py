"""Row changes as the pseudo-SQL of mysqlbinlog's -v: one face per column type.

    ### UPDATE `shop`.`orders`
    ### WHERE
    ###   @1=1 /* INT meta=0 nullable=0 is_null=0 */
    ### SET
    ###   …

The servers' tools show what is stored, not what it means: integers are signed with the unsigned
number behind them, text is bytes, ENUM and SET are numbers, TIMESTAMP is seconds. So the columns
are decoded by the same kernels as everywhere, but as if the log told nothing of their meaning.
Where the tools are wrong this differs: a GEOMETRY is shown (MySQL's tool drops the rest of the
row), and YEAR 0 is 0000 (both tools show 1900).
"""

from __future__ import annotations

import calendar
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from binlake.core.image import ImageBuffers
from binlake.core.json_diff import MARK, parse_json, write_json
from binlake.core.table_sink import StoredImages, TableBuffers
from binlake.events.column_metadata import encode_column_metadata
from binlake.events.table_map import TableMapEvent
from binlake.format import column_types as ct
from binlake.table.images import Image
from binlake.table.plan import TableTypes
from binlake.table.types.base import Target
from binlake.values.options import ReadOptions
from binlake.values.plan import ColumnDefinition, TableDefinition

__all__ = ["Comments", "PseudoTable", "quoted_name", "quoted_text"]

_OPTIONS = ReadOptions()
# what is stored of a compressed column, a geometry or a vector is bytes behind a length
_BYTES_TYPE = {
    ct.MYSQL_TYPE_BLOB_COMPRESSED: ct.MYSQL_TYPE_BLOB,
    ct.MYSQL_TYPE_VARCHAR_COMPRESSED: ct.MYSQL_TYPE_VARCHAR,
    ct.MYSQL_TYPE_GEOMETRY: ct.MYSQL_TYPE_BLOB,
    ct.MYSQL_TYPE_VECTOR: ct.MYSQL_TYPE_BLOB,
}
_BIG_ENDIAN_METADATA = (
    ct.MYSQL_TYPE_NEWDECIMAL,
    ct.MYSQL_TYPE_STRING,
    ct.MYSQL_TYPE_ENUM,
    ct.MYSQL_TYPE_SET,
)
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
#: MySQL's tool has letters for some of them, MariaDB's has not.
_MYSQL_ESCAPES = {
    **_ESCAPES,
    b"\n": b"\\n",
    b"\r": b"\\r",
    b"\t": b"\\t",
    b"\b": b"\\b",
    b"\f": b"\\f",
}
_INT_BITS = {
    ct.MYSQL_TYPE_TINY: 8,
    ct.MYSQL_TYPE_SHORT: 16,
    ct.MYSQL_TYPE_INT24: 24,
    ct.MYSQL_TYPE_LONG: 32,
    ct.MYSQL_TYPE_LONGLONG: 64,
}


class Comments(NamedTuple):
    """What follows a value with -vv, for one column: for a value and for NULL."""

    value: bytes
    null: bytes


def quoted_name(name: str) -> bytes:
    """An identifier in backticks."""
    return b"`" + name.replace("`", "``").encode() + b"`"


def quoted_text(raw: bytes, flavour: str) -> bytes:
    """Bytes in quotes; control characters are escaped, all others are as they are."""
    escapes = _ESCAPES if flavour == "mariadb" else _MYSQL_ESCAPES
    return b"'" + _ESCAPED.sub(lambda found: escapes[found[0]], raw) + b"'"


# --- the faces: how a value is shown, given the column


def _integer(column: ColumnDefinition) -> Callable[[int], bytes]:
    modulus = 1 << _INT_BITS[column.type_code]

    def show(value: int) -> bytes:
        return b"%d" % value if value >= 0 else b"%d (%d)" % (value, value + modulus)

    return show


def _bits(column: ColumnDefinition) -> Callable[[int], bytes]:
    return lambda value: f"b'{value:0{column.length}b}'".encode()


def _set(column: ColumnDefinition) -> Callable[[int], bytes]:
    """The bits of every byte, the first byte first: as stored, and not the number that they make."""

    def show(value: int) -> bytes:
        raw = value.to_bytes(column.length, "little")
        return b"b'" + "".join(f"{byte:08b}" for byte in raw).encode() + b"'"

    return show


def _plain(_column: ColumnDefinition) -> Callable[[Any], bytes]:
    return lambda value: str(value).encode()


def _year(_column: ColumnDefinition) -> Callable[[int], bytes]:
    return lambda value: b"%04d" % value


def _float(_column: ColumnDefinition) -> Callable[[float], bytes]:
    return lambda value: b"%-20g" % value


def _double(_column: ColumnDefinition) -> Callable[[float], bytes]:
    return lambda value: b"%-.20g" % value


def _quoted(_column: ColumnDefinition) -> Callable[[str], bytes]:
    return lambda value: b"'%s'" % value.encode()


def _date(_column: ColumnDefinition) -> Callable[[str], bytes]:
    return lambda value: b"'%s'" % value.replace("-", ":").encode()


def _timestamp(_column: ColumnDefinition) -> Callable[[str], bytes]:
    """Seconds since 1970, with the fraction as it is stored."""

    def show(value: str) -> bytes:
        moment, dot, fraction = value.partition(".")
        date, _, clock = moment.partition(" ")
        year, month, day = map(int, date.split("-"))
        if not year:
            return b"0" + (dot + fraction).encode()
        hour, minute, second = map(int, clock.split(":"))
        seconds = calendar.timegm((year, month, day, hour, minute, second))
        return f"{seconds}{dot}{fraction}".encode()

    return show


def _mysql_text(_column: ColumnDefinition) -> Callable[[bytes], bytes]:
    return lambda raw: quoted_text(raw, "mysql")


def _mariadb_text(_column: ColumnDefinition) -> Callable[[bytes], bytes]:
    return lambda raw: quoted_text(raw, "mariadb")


def _json(column: ColumnDefinition) -> Callable[[str], bytes]:
    def show(value: str) -> bytes:
        if value.startswith(MARK):
            return _differences(f"@{column.ordinal + 1}", value[len(MARK) :]).encode()
        # a document that is a string is shown as the string
        text = parse_json(value) if value.startswith('"') else value
        return quoted_text(text.encode(), "mysql")

    return show


_NEXT_LINE = ",\n###      "


def _differences(column: str, text: str) -> str:
    """JSON differences as the functions that make them, the first one innermost.

    Neighbours that do the same are one call, with a line for each.
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
    """A JSON value as an SQL expression of that value."""
    text = write_json(value)
    if isinstance(value, dict | list):
        return f"CAST({_literal(text)} AS JSON)"
    return _literal(value) if text.startswith('"') else text


def _literal(text: str) -> str:
    return quoted_text(text.encode(), "mysql").decode()


def _vector(_column: ColumnDefinition) -> Callable[[bytes], bytes]:
    def show(raw: bytes) -> bytes:
        floats = struct.unpack(f"<{len(raw) // 4}f", raw[: len(raw) // 4 * 4])
        return b"[" + b",".join(b"%.5e" % value for value in floats) + b"]"

    return show


class _Face(NamedTuple):
    """How a type's values are shown, and what its comment calls it."""

    show: Callable[[ColumnDefinition], Callable[[Any], bytes]]
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


_FACES: dict[int, _Face] = {
    ct.MYSQL_TYPE_TINY: _Face(_integer, _named("TINYINT")),
    ct.MYSQL_TYPE_SHORT: _Face(_integer, _named("SHORTINT")),
    ct.MYSQL_TYPE_INT24: _Face(_integer, _named("MEDIUMINT")),
    ct.MYSQL_TYPE_LONG: _Face(_integer, _named("INT")),
    ct.MYSQL_TYPE_LONGLONG: _Face(_integer, _named("LONGINT")),
    ct.MYSQL_TYPE_YEAR: _Face(_year, _named("YEAR")),
    ct.MYSQL_TYPE_BIT: _Face(_bits, _length("BIT")),
    ct.MYSQL_TYPE_NEWDECIMAL: _Face(_plain, lambda c: f"DECIMAL({c.precision},{c.decimals})"),
    ct.MYSQL_TYPE_FLOAT: _Face(_float, _named("FLOAT")),
    ct.MYSQL_TYPE_DOUBLE: _Face(_double, _named("DOUBLE")),
    ct.MYSQL_TYPE_DATE: _Face(_date, _named("DATE")),
    ct.MYSQL_TYPE_NEWDATE: _Face(_date, _named("DATE")),
    ct.MYSQL_TYPE_TIME: _Face(_quoted, _named("TIME")),
    ct.MYSQL_TYPE_TIME2: _Face(_quoted, _digits("TIME")),
    ct.MYSQL_TYPE_DATETIME: _Face(_quoted, _named("DATETIME")),
    ct.MYSQL_TYPE_DATETIME2: _Face(_quoted, _digits("DATETIME")),
    ct.MYSQL_TYPE_TIMESTAMP: _Face(_timestamp, _named("TIMESTAMP")),
    ct.MYSQL_TYPE_TIMESTAMP2: _Face(_timestamp, _digits("TIMESTAMP")),
    ct.MYSQL_TYPE_ENUM: _Face(_plain, _enum_name),
    ct.MYSQL_TYPE_SET: _Face(_set, lambda c: f"SET({c.length} bytes)"),
    ct.MYSQL_TYPE_VARCHAR: _Face(_mysql_text, _length("VARSTRING")),
    ct.MYSQL_TYPE_VAR_STRING: _Face(_mysql_text, _length("VARSTRING")),
    ct.MYSQL_TYPE_STRING: _Face(_mysql_text, _length("STRING")),
    ct.MYSQL_TYPE_VARCHAR_COMPRESSED: _Face(_mysql_text, _length("VARSTRING", " COMPRESSED")),
    ct.MYSQL_TYPE_BLOB_COMPRESSED: _Face(_mysql_text, lambda c: _blob_name(c) + " COMPRESSED"),
    ct.MYSQL_TYPE_GEOMETRY: _Face(_mysql_text, _named("GEOMETRY")),
    ct.MYSQL_TYPE_JSON: _Face(_json, _named("JSON")),
    ct.MYSQL_TYPE_VECTOR: _Face(
        _vector, lambda c: f"VECTOR({c.dimensionality})" if c.dimensionality else "VECTOR"
    ),
    **dict.fromkeys(
        (
            ct.MYSQL_TYPE_TINY_BLOB,
            ct.MYSQL_TYPE_MEDIUM_BLOB,
            ct.MYSQL_TYPE_LONG_BLOB,
            ct.MYSQL_TYPE_BLOB,
        ),
        _Face(_mysql_text, _blob_name),
    ),
}
_MARIADB_FACES = {
    code: face._replace(show=_mariadb_text) if face.show is _mysql_text else face
    for code, face in _FACES.items()
}
_UNKNOWN = _Face(_plain, lambda c: ct.column_type_name(c.type_code))


def _stored(column: ColumnDefinition) -> ColumnDefinition:
    """The column as it is stored: no sign, no members, no character set."""
    return replace(
        column,
        type_code=_BYTES_TYPE.get(column.type_code, column.type_code),
        unsigned=False,
        members=None,
        collation_id=None,
        declared=None,
    )


def _metadata_number(column: ColumnDefinition, entry: tuple[int, int, int, int]) -> int:
    """The column's metadata in TABLE_MAP as one number, as the tools show it."""
    code = column.type_code
    wire = ct.MYSQL_TYPE_STRING if code in (ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET) else code
    raw = encode_column_metadata(bytes((wire,)), (entry,), ())
    return int.from_bytes(raw, "big" if code in _BIG_ENDIAN_METADATA else "little")


class PseudoTable:
    """The table of one TABLE_MAP event: takes its rows (`sink`), and shows them.

    `name` is what the statements call the table. Raises UnsupportedError, FormatError for a table
    that the log does not describe.
    """

    def __init__(self, table_map: TableMapEvent, name: bytes) -> None:
        told = table_map.definition()
        self.name = name
        self.definition: TableDefinition = replace(
            told, columns=tuple(_stored(column) for column in told.columns)
        )
        self.types = TableTypes.of(self.definition, _OPTIONS, Target.TEXT, lambda _sentence: None)
        self.sink = StoredImages(self.types.plan.columns)
        known = _MARIADB_FACES if told.flavour == "mariadb" else _FACES
        faces = [known.get(column.type_code, _UNKNOWN) for column in told.columns]
        self._shows = [face.show(column) for face, column in zip(faces, told.columns, strict=True)]
        entries = table_map.description.column_metadata or ()
        self._comments = [
            _comments(face.name(column), _metadata_number(column, entry), column.nullable)
            for face, column, entry in zip(faces, told.columns, entries, strict=True)
        ]

    def lines(self, rows: TableBuffers, operation: str, *, comments: bool) -> Iterator[bytes]:
        """The statements of an event's rows, a text of whole lines per row. Raises FormatError."""
        sides: list[tuple[bytes, Sequence[bytes]]] = []
        if operation != "insert":
            sides.append((b"### WHERE\n", self._images(rows.before, comments)))
        if operation != "delete":
            sides.append((b"### SET\n", self._images(rows.after, comments)))
        head = _HEADS[operation] + self.name + b"\n"
        for row in range(rows.count):
            yield head + b"".join(title + images[row] for title, images in sides)

    def _images(self, buffers: ImageBuffers, comments: bool) -> list[bytes]:
        """The lines of every image of one side."""
        image = Image.of(self.types, buffers)
        present = image.patterns[0] if image.patterns else b""  # one event has one
        columns: list[list[bytes]] = []
        for kind, values in zip(self.types.columns, image.columns, strict=True):
            at = kind.column.ordinal
            if at >> 3 >= len(present) or not present[at >> 3] >> (at & 7) & 1:
                continue
            lead = b"###   @%d=" % (at + 1)
            after = self._comments[at] if comments else _NO_COMMENTS
            show, tail, null = self._shows[at], after.value, lead + b"NULL" + after.null
            columns.append(
                [
                    null if value is None else lead + show(value) + tail
                    for value in values.to_pylist()
                ]
            )
        if not columns:
            return [b""] * image.count
        return [b"".join(parts) for parts in zip(*columns, strict=True)]


_HEADS = {"insert": b"### INSERT INTO ", "update": b"### UPDATE ", "delete": b"### DELETE FROM "}
_NO_COMMENTS = Comments(b"\n", b"\n")


def _comments(name: str, metadata: int, nullable: bool) -> Comments:
    text = f" /* {name} meta={metadata} nullable={nullable:d} is_null=%d */\n".encode()
    return Comments(text % 0, text % 1)
