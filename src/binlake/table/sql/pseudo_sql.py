"""Row changes as the pseudo-SQL of mysqlbinlog's -v, with one form per column type.

    ### UPDATE `shop`.`orders`
    ### WHERE
    ###   @1=1 /* INT meta=0 nullable=0 is_null=0 */
    ### SET
    ###   …

The servers' tools show the stored form, not its meaning: integers are signed with the unsigned
number after them, text is bytes, ENUM and SET are numbers, TIMESTAMP is seconds. So the same
kernels decode the columns, but without the metadata of the log. binlake differs where the tools
are wrong: it shows a GEOMETRY (MySQL's tool drops the rest of the row), and YEAR 0 is 0000 (both
tools show 1900).

The module has over 500 lines because all stored forms are together, one short function for each type.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.rows.image import ImageBuffers
from binlake.core.rows.table_sink import StoredImages, TableBuffers
from binlake.core.text.text_rows import RowTemplate, ValueColumn, ValueForm
from binlake.core.values.json_diff import MARK, parse_json, write_json
from binlake.events.common.column_metadata import ColumnMetadata, encode_column_metadata
from binlake.events.common.table_map import TableMapEvent
from binlake.format import column_types as ct
from binlake.printable import printable_bytes
from binlake.source.arrays import array
from binlake.table.batches import OPERATIONS
from binlake.table.images import Presence, has_column
from binlake.table.plan import ByColumns, TableTypes, TypesOfTables
from binlake.table.text.json_values import number_values, row_index, text_values
from binlake.table.types.base import ColumnType, Target
from binlake.values.options import ReadOptions
from binlake.values.plan import ColumnDefinition, TableDefinition

__all__ = ["Comments", "PseudoTable", "PseudoTables", "quoted_name", "quoted_text"]

_OPTIONS = ReadOptions()
_TEXT = pa.large_string()
# a compressed column, a geometry or a vector is stored as bytes after a length
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
#: MySQL's tool has letters for some of them; MariaDB's has none.
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
    """The text after a value with -vv, for one column: for a value and for NULL."""

    value: bytes
    null: bytes


class Around(NamedTuple):
    """The text around the values of one column."""

    comments: Comments

    def of(self, before: bytes = b"", after: bytes = b"") -> dict[str, bytes]:
        """Return arguments of `ValueColumn`, with `before` and `after` directly around a value."""
        comments = self.comments
        return {
            "before": before,
            "after": after + comments.value,
            "null": b"NULL" + comments.null,
        }


def quoted_name(name: str) -> bytes:
    """Return an identifier in backticks."""
    return b"`" + name.replace("`", "``").encode() + b"`"


def quoted_text(raw: bytes, flavour: str) -> bytes:
    """Return bytes in quotes; control characters are escaped, all others are unchanged."""
    escapes = _ESCAPES if flavour == "mariadb" else _MYSQL_ESCAPES
    return b"'" + _ESCAPED.sub(lambda found: escapes[found[0]], raw) + b"'"


# --- the forms: how the values of a column are shown, given the column and the text around them

Show = Callable[[ColumnDefinition, pa.Array, Around], ValueColumn]


class _Number(NamedTuple):
    """Numbers of a fixed width, which are shown as the core stores them, without an array between.

    `bits` are those of a column, `before` and `after` stand around a value.
    """

    form: ValueForm
    bits: Callable[[ColumnDefinition], int]
    before: bytes = b""
    after: bytes = b""


_integer = _Number(ValueForm.BOTH_SIGNS, lambda column: _INT_BITS[column.type_code])
_bits = _Number(ValueForm.BITS, lambda column: column.length, b"b'", b"'")
_real = _Number(ValueForm.REAL, lambda _column: 0)


def _set(column: ColumnDefinition, values: pa.Array, around: Around) -> ValueColumn:
    """The bits of every byte, the first byte first: in the stored order, not as a number."""
    bits = 8 * column.length
    return number_values(values, ValueForm.SET_BITS, bits=bits, **around.of(b"b'", b"'"))


def _plain(_column: ColumnDefinition, values: pa.Array, around: Around) -> ValueColumn:
    return text_values(values.cast(_TEXT), ValueForm.RAW, **around.of())


def _year(_column: ColumnDefinition, values: pa.Array, around: Around) -> ValueColumn:
    years = pc.utf8_lpad(values.cast(_TEXT), 4, "0")
    return text_values(years, ValueForm.RAW, **around.of())


def _quoted(_column: ColumnDefinition, values: pa.Array, around: Around) -> ValueColumn:
    return text_values(values, ValueForm.RAW, **around.of(b"'", b"'"))


def _date(_column: ColumnDefinition, values: pa.Array, around: Around) -> ValueColumn:
    dates = pc.replace_substring(values, "-", ":")
    return text_values(dates, ValueForm.RAW, **around.of(b"'", b"'"))


def _timestamp(_column: ColumnDefinition, values: pa.Array, around: Around) -> ValueColumn:
    """Seconds since 1970, with the fraction in its stored form."""
    return text_values(values, ValueForm.UNIX_TIME, **around.of())


def _mysql_text(_column: ColumnDefinition, values: pa.Array, around: Around) -> ValueColumn:
    return text_values(values, ValueForm.MYSQL_TEXT, **around.of(b"'", b"'"))


def _mariadb_text(_column: ColumnDefinition, values: pa.Array, around: Around) -> ValueColumn:
    return text_values(values, ValueForm.MARIADB_TEXT, **around.of(b"'", b"'"))


def _json(column: ColumnDefinition, values: pa.Array, around: Around) -> ValueColumn:
    odd = pc.or_(pc.starts_with(values, MARK), pc.starts_with(values, '"'))
    if not pc.any(odd).as_py():
        return _mysql_text(column, values, around)
    shown = [None if value is None else _json_text(column, value) for value in values.to_pylist()]
    return text_values(array(shown, pa.binary()), ValueForm.RAW, **around.of())


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


def _vector(_column: ColumnDefinition, values: pa.Array, around: Around) -> ValueColumn:
    shown = [None if value is None else _vector_text(value) for value in values.to_pylist()]
    return text_values(array(shown, pa.binary()), ValueForm.RAW, **around.of())


def _vector_text(raw: bytes) -> bytes:
    floats = struct.unpack(f"<{len(raw) // 4}f", raw[: len(raw) // 4 * 4])
    return b"[" + b",".join(b"%.5e" % value for value in floats) + b"]"


class _Face(NamedTuple):
    """How to show a type's values, and its name in the comment."""

    show: Show | _Number
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
    ct.MYSQL_TYPE_FLOAT: _Face(_real, _named("FLOAT")),
    ct.MYSQL_TYPE_DOUBLE: _Face(_real, _named("DOUBLE")),
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
    """Return the column in its stored form: no sign, no members, no character set."""
    # tables share most of their columns; members may be long, and a key of the cache keeps them
    return _stored_form(column) if column.members is None else _stored_form.__wrapped__(column)


@lru_cache(maxsize=1 << 13)
def _stored_form(column: ColumnDefinition) -> ColumnDefinition:
    return replace(
        column,
        type_code=_BYTES_TYPE.get(column.type_code, column.type_code),
        unsigned=False,
        members=None,
        collation_id=None,
        declared=None,
    )


def _metadata_number(entry: ColumnMetadata) -> int:
    """Return a column's metadata in TABLE_MAP as one number, as the tools show it."""
    code = entry[0]
    if code == ct.MYSQL_TYPE_TYPED_ARRAY:
        return 0  # binlake does not decode the type of its elements
    wire = ct.MYSQL_TYPE_STRING if code in (ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET) else code
    raw = encode_column_metadata(bytes((wire,)), (entry,), ())
    return int.from_bytes(raw, "big" if code in _BIG_ENDIAN_METADATA else "little")


@lru_cache(maxsize=1 << 12)
def _comments(entry: ColumnMetadata, nullable: bool, dimensionality: int | None) -> Comments:
    """The comments of a column; there are thousands of columns, and few different ones."""
    column = ColumnDefinition(0, "", *entry, dimensionality=dimensionality)
    name = _FACES.get(column.type_code, _UNKNOWN).name(column)
    metadata = _metadata_number(entry)
    text = f" /* {name} meta={metadata} nullable={nullable:d} is_null=%d */\n".encode()
    return Comments(text % 0, text % 1)


class _PseudoColumns:
    """How the columns of tables are shown, and their types in the stored form."""

    def __init__(self, table_map: TableMapEvent, told: TableDefinition, types: TableTypes) -> None:
        self.told = told.columns
        self.stored = types.definition.columns
        self._kinds = types.columns
        known = _MARIADB_FACES if told.flavour == "mariadb" else _FACES
        self.shows = [known.get(column.type_code, _UNKNOWN).show for column in told.columns]
        entries = table_map.description.column_metadata or ()
        self.comments = [
            _comments(entry, column.nullable, column.dimensionality)
            for column, entry in zip(told.columns, entries, strict=True)
        ]
        self.leads = [b"###   @%d=" % (column.ordinal + 1) for column in told.columns]
        #: bytes of text around a value of each column, with its comment
        self.text_bytes = [_LEAD_BYTES + len(one.null) for one in self.comments]
        self._numbers: dict[bool, list[_MakeValues | None]] = {}

    def around(self, at: int, *, comments: bool) -> Around:
        """The text around the values of a column."""
        return Around(self.comments[at] if comments else _NO_COMMENTS)

    def numbers(self, *, comments: bool) -> Sequence[_MakeValues | None]:
        """The maker of the values of each column of numbers; None for other columns."""
        known = self._numbers.get(comments)
        if known is not None:
            return known
        made: dict[tuple[int, int, Comments], _MakeValues | None] = {}
        known = self._numbers[comments] = []
        for at, column in enumerate(self.told):
            around = self.around(at, comments=comments)
            like = column.type_code, column.length, around.comments
            if like not in made:
                made[like] = _number_maker(self.shows[at], self._kinds[at], column, around)
            known.append(made[like])
        return known


#: Makes values of the number of rows, the validity, the offsets (None) and the data of a column.
_MakeValues = Callable[[int, Any, None, Any], ValueColumn]


def _number_maker(
    show: Show | _Number, kind: ColumnType, column: ColumnDefinition, around: Around
) -> _MakeValues | None:
    if not isinstance(show, _Number):
        return None
    written: dict[str, Any] = around.of(show.before, show.after)
    return partial(
        ValueColumn,
        show.form,
        width=kind.arrow_type.bit_width // 8,
        is_signed=pa.types.is_signed_integer(kind.arrow_type),
        bits=show.bits(column),
        **written,
    )


class PseudoTables:
    """Makes `PseudoTable`s; those with the same columns share the work."""

    def __init__(self) -> None:
        self._types = TypesOfTables(_OPTIONS, Target.TEXT, lambda _sentence: None)
        self._known: ByColumns[_PseudoColumns] = ByColumns()

    def table(self, table_map: TableMapEvent, name: bytes) -> PseudoTable:
        """The table of a TABLE_MAP event, which the statements call `name`.

        Raises UnsupportedError, FormatError for a table that the log does not describe.
        """
        told = table_map.definition()
        columns = self._known.get(told)
        if columns is not None:
            types = self._types.types(replace(told, columns=columns.stored))
        else:
            stored = tuple(map(_stored, told.columns))
            types = self._types.types(replace(told, columns=stored))
            columns = _PseudoColumns(table_map, told, types)
            self._known.keep(told, columns)
        return PseudoTable(printable_bytes(name), types, columns)


class PseudoTable:
    """The table of one TABLE_MAP event: takes its rows (`new_sink`), and shows them.

    `name` is what the statements call the table.
    """

    def __init__(self, name: bytes, types: TableTypes, columns: _PseudoColumns) -> None:
        self.name = name
        self.types = types
        self._columns = columns

    def new_sink(self) -> StoredImages:
        """A sink for its rows, which counts the text of their statements."""
        return StoredImages(self.types.plan.columns, texts=self._columns.text_bytes)

    def template(self, rows: TableBuffers, *, comments: bool) -> RowTemplate:
        """Return how the statements of rows are written, each in whole lines. Raises FormatError."""
        template = RowTemplate(rows.count)
        op = pa.Array.from_buffers(pa.uint8(), rows.count, [None, pa.py_buffer(rows.op)])
        kinds = row_index(op)
        for number, name in enumerate(OPERATIONS):
            template.add(_HEADS[name] + self.name + b"\n", variant_of=kinds, variant=number)
        for title, side in ((b"### WHERE\n", rows.before), (b"### SET\n", rows.after)):
            if side.null_count < side.count:  # an insert has no image before, a delete none after
                self._add_images(template, title, side, comments)
        return template

    def _add_images(
        self, template: RowTemplate, title: bytes, images: ImageBuffers, comments: bool
    ) -> None:
        presence = Presence.of(images)
        pattern_of = presence.pattern_index()
        shown = self._values(images, comments)
        leads = self._columns.leads
        for number, present in enumerate(presence.patterns):
            template.add(title, variant_of=pattern_of, variant=number)
            for at, values in enumerate(shown):
                if has_column(present, at):
                    template.add(leads[at], values, variant_of=pattern_of, variant=number)

    def _values(self, images: ImageBuffers, comments: bool) -> list[ValueColumn]:
        """The values of all columns. Raises FormatError."""
        numbers = self._columns.numbers(comments=comments)
        found = []
        for at, decoded in enumerate(images.columns):
            assert decoded is not None, "all columns are wanted"
            make = numbers[at]
            if make is not None:
                count, nulls, validity, _, data, _ = decoded
                found.append(make(count, validity if nulls else None, None, data))
                continue
            show = self._columns.shows[at]
            assert not isinstance(show, _Number)
            around = self._columns.around(at, comments=comments)
            values = self.types.columns[at].finish(decoded)
            found.append(show(self._columns.told[at], values, around))
        return found


_LEAD_BYTES = len("###   @4096=NULL\n")
_HEADS = {"insert": b"### INSERT INTO ", "update": b"### UPDATE ", "delete": b"### DELETE FROM "}
_NO_COMMENTS = Comments(b"\n", b"\n")
