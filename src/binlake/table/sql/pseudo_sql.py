"""Row changes as the pseudo-SQL of mysqlbinlog's -v, with one form per column type.

    ### UPDATE `shop`.`orders`
    ### WHERE
    ###   @1=1 /* INT meta=0 nullable=0 is_null=0 */
    ### SET
    ###   …

The same kernels as elsewhere decode the columns, but without the metadata of the log: the servers'
tools show the stored form of a value, not its meaning. `pseudo_values.py` has these forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import pyarrow as pa

from binlake.core.images.image import ImageBuffers
from binlake.core.rows.table_sink import StoredImages, TableBuffers
from binlake.core.text.text_rows import RowTemplate, ValueColumn
from binlake.events.common.column_metadata import ColumnMetadata, encode_column_metadata
from binlake.events.common.table_map import TableMapEvent
from binlake.format import column_types as ct
from binlake.printable import printable_bytes
from binlake.table.batches import OPERATIONS
from binlake.table.images import Presence, has_column
from binlake.table.plan import ByColumns, TableTypes, TypesOfTables
from binlake.table.sql.pseudo_values import Comments, FixedWidth, Show, type_form
from binlake.table.text.json_values import row_index
from binlake.table.types.base import ColumnType, Target
from binlake.values.options import ReadOptions
from binlake.values.plan import ColumnDefinition, TableDefinition

_OPTIONS = ReadOptions()
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
    name = type_form(column.type_code).name(column)
    metadata = _metadata_number(entry)
    text = f" /* {name} meta={metadata} nullable={nullable:d} is_null=%d */\n".encode()
    return Comments(text % 0, text % 1)


class _ValueTexts(NamedTuple):
    """The comments after the values of each column, and the maker of its values if it has numbers, else None."""

    comments: Sequence[Comments]
    numbers: Sequence[_MakeValues | None]


class _PseudoColumns:
    """How the columns of tables are shown, and their types in the stored form."""

    def __init__(
        self, table_map: TableMapEvent, definition: TableDefinition, types: TableTypes
    ) -> None:
        self.logged = definition.columns
        self.stored = types.definition.columns
        self._kinds = types.columns
        self.shows = [
            type_form(column.type_code, definition.flavour).show for column in definition.columns
        ]
        entries = table_map.description.columns.metadata or ()
        self.comments = [
            _comments(entry, column.nullable, column.dimensionality)
            for column, entry in zip(definition.columns, entries, strict=True)
        ]
        self.leads = [b"###   @%d=" % (column.ordinal + 1) for column in definition.columns]
        #: bytes of text around a value of each column, with its comment
        self.text_bytes = [_LEAD_BYTES + len(one.null) for one in self.comments]

    @cached_property
    def commented(self) -> _ValueTexts:
        """The text of the values with their comments."""
        return self._texts(self.comments)

    @cached_property
    def plain(self) -> _ValueTexts:
        """The text of the values alone."""
        return self._texts([_NO_COMMENTS] * len(self.logged))

    def _texts(self, comments: Sequence[Comments]) -> _ValueTexts:
        made: dict[tuple[int, int, Comments], _MakeValues | None] = {}
        numbers = []
        for at, column in enumerate(self.logged):
            like = column.type_code, column.length, comments[at]
            if like not in made:
                made[like] = _number_maker(self.shows[at], self._kinds[at], column, comments[at])
            numbers.append(made[like])
        return _ValueTexts(comments, numbers)


#: Makes values of the number of rows, the validity, the offsets (None) and the data of a column.
_MakeValues = Callable[[int, Any, None, Any], ValueColumn]


def _number_maker(
    show: Show | FixedWidth, kind: ColumnType, column: ColumnDefinition, comments: Comments
) -> _MakeValues | None:
    if not isinstance(show, FixedWidth):
        return None
    written: dict[str, Any] = comments.around(show.before, show.after)
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
        definition = table_map.definition()
        columns = self._known.get(definition)
        if columns is not None:
            types = self._types.types(replace(definition, columns=columns.stored))
        else:
            stored = tuple(map(_stored, definition.columns))
            types = self._types.types(replace(definition, columns=stored))
            columns = _PseudoColumns(table_map, definition, types)
            self._known.keep(definition, columns)
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

    def template(self, rows: TableBuffers) -> RowTemplate:
        """Return how the statements of rows are written, each in whole lines. Raises FormatError."""
        return self._template(rows, self._columns.plain)

    def commented_template(self, rows: TableBuffers) -> RowTemplate:
        """Return the same with the type of each value as a comment. Raises FormatError."""
        return self._template(rows, self._columns.commented)

    def _template(self, rows: TableBuffers, texts: _ValueTexts) -> RowTemplate:
        template = RowTemplate(rows.count)
        op = pa.Array.from_buffers(pa.uint8(), rows.count, [None, pa.py_buffer(rows.op)])
        kinds = row_index(op)
        for number, name in enumerate(OPERATIONS):
            template.add(_HEADS[name] + self.name + b"\n", variant_of=kinds, variant=number)
        for title, side in ((b"### WHERE\n", rows.before), (b"### SET\n", rows.after)):
            if side.null_count < side.count:  # an insert has no image before, a delete none after
                self._add_images(template, title, side, texts)
        return template

    def _add_images(
        self, template: RowTemplate, title: bytes, images: ImageBuffers, texts: _ValueTexts
    ) -> None:
        presence = Presence.of(images)
        pattern_of = presence.pattern_index()
        shown = self._values(images, texts)
        leads = self._columns.leads
        for number, present in enumerate(presence.patterns):
            template.add(title, variant_of=pattern_of, variant=number)
            for at, values in enumerate(shown):
                if has_column(present, at):
                    template.add(leads[at], values, variant_of=pattern_of, variant=number)

    def _values(self, images: ImageBuffers, texts: _ValueTexts) -> list[ValueColumn]:
        """The values of all columns. Raises FormatError."""
        found = []
        for at, decoded in enumerate(images.columns):
            assert decoded is not None, "all columns are wanted"
            make = texts.numbers[at]
            if make is not None:
                count, nulls, validity, _, data, _ = decoded
                found.append(make(count, validity if nulls else None, None, data))
                continue
            show = self._columns.shows[at]
            assert not isinstance(show, FixedWidth)
            values = self.types.columns[at].finish(decoded)
            found.append(show(self._columns.logged[at], values, texts.comments[at]))
        return found


_LEAD_BYTES = len("###   @4096=NULL\n")
_HEADS = {"insert": b"### INSERT INTO ", "update": b"### UPDATE ", "delete": b"### DELETE FROM "}
_NO_COMMENTS = Comments(b"\n", b"\n")
