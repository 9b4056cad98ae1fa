"""The only definition of the metadata columns of a row change: names, types, meaning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from binlake.errors import SchemaError
from binlake.values.options import ReadOptions

# sorts in commit order: ordinal of the file in its chain, position of the event, row of the event
SEQUENCE_TYPE = pa.struct(
    [pa.field("file", pa.int32()), pa.field("pos", pa.int64()), pa.field("row", pa.int64())]
)


class MetadataColumn(NamedTuple):
    """A metadata column. `name` is without its prefix; `option` is the option that adds it, if
    any.

    `unprefixed` is its whole name if the user chooses no prefix and `_name` is taken.
    """

    name: str
    type: pa.DataType | None
    meaning: str
    option: str | None = None
    unprefixed: str | None = None

    def full_name(self, options: ReadOptions) -> str:
        """Return the column's name in rows that are read with these options."""
        if options.metadata_prefix is not None:
            return options.metadata_prefix + self.name
        return self.unprefixed or f"_{self.name}"


# The type of `_absent`: lists of names, or, in exports, of indexes into a dictionary of names.
NAMES = pa.list_(pa.field("element", pa.string()))
PLACES_OF_NAMES = pa.list_(pa.field("element", pa.dictionary(pa.int16(), pa.string())))

METADATA: tuple[MetadataColumn, ...] = (
    MetadataColumn("op", pa.string(), "insert, update or delete"),
    MetadataColumn("ts", pa.timestamp("us", "UTC"), "commit time on the server that wrote the log"),
    MetadataColumn("gtid", pa.string(), "GTID of the transaction, or null"),
    MetadataColumn("server_id", pa.int64(), "server id in the event's header"),
    # Iceberg reserves _file and _pos: a table with such columns can be written but not read
    MetadataColumn("file", pa.string(), "base name of the log file", unprefixed="_log_file"),
    MetadataColumn("pos", pa.int64(), "offset of the event in the file", unprefixed="_log_pos"),
    MetadataColumn("row", pa.int32(), "number of the row change in its event or payload, from 0"),
    MetadataColumn("seq", SEQUENCE_TYPE, "sorts in commit order"),
    MetadataColumn(
        "absent",
        NAMES,
        "names of the columns whose values the images do not contain; null if there are none",
    ),
    MetadataColumn("before", None, "before-image of an update (struct of the columns)", "before"),
    MetadataColumn("query", pa.string(), "the statement, where the log has it", "query"),
    MetadataColumn("thread_id", pa.int64(), "thread id of the connection", "thread_id"),
)


def metadata_columns(options: ReadOptions) -> list[MetadataColumn]:
    """Return the metadata columns of the options, in order."""
    return [
        column
        for column in METADATA
        if (options.metadata if column.option is None else getattr(options, column.option))
    ]


def metadata_fields(
    table_fields: Iterable[pa.Field], options: ReadOptions, lists: pa.DataType = NAMES
) -> list[pa.Field]:
    """Return the fields of the metadata columns of the options, for a table of such columns; the type
    `lists` is for lists of names.
    """
    fields = []
    for column in metadata_columns(options):
        kind = pa.struct(list(table_fields)) if column.type is None else column.type
        kind = lists if kind == NAMES else kind
        fields.append(pa.field(column.full_name(options), kind))
    return fields


def check_names(table: str, names: Iterable[str], options: ReadOptions) -> None:
    """Raise SchemaError when a column of the table has the name of a metadata column."""
    reserved = METADATA if options.metadata else metadata_columns(options)
    taken = {column.full_name(options) for column in reserved}
    if clashes := taken.intersection(names):
        name = min(clashes)
        raise SchemaError(
            f"table {table} has a column {name}, which is also the name of a metadata column",
            field=name,
            hint="choose another prefix with the option metadata_prefix",
        )
