"""TABLE_MAP_EVENT (19): names and describes the table of the rows events after it.

Source: libs/mysql/binlog/event/rows_event.cpp, Table_map_event; sql/log_event.cc; MariaDB
sql/log_event.cc, Table_map_log_event. Since 5.1. A table id is valid until the
rows event with STMT_END, inside one file.
Body:
    6 (4)    table_id
    2        flags
    1+n+1    database             length, name, zero byte
    1+n+1    table                the same
    lenenc   number of columns
    n        column types         one byte each: event column types (ENUM, SET, CHAR all 254)
    lenenc   metadata length      missing, with all that follows, in pre-releases of 5.1
    n        metadata             0 to 3 bytes per column, by its type
    (n+7)/8  nullable             bit i: column i
    rest     optional metadata    MySQL 8.0.1, MariaDB 10.5: optional_metadata.py
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from binlake.errors import BinlogError, MalformedError
from binlake.events.base import HIDDEN, Event, bits
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.events.common.column_metadata import (
    ColumnMetadata,
    decode_column_metadata,
    encode_column_metadata,
)
from binlake.events.common.format_description import table_id_bytes
from binlake.events.common.optional_metadata import (
    OptionalMetadata,
    decode_optional_metadata,
    encode_optional_metadata,
)
from binlake.events.common.table_description import ColumnsDescription, TableDescription
from binlake.format.column_types import MOST_COLUMNS
from binlake.format.event_types import TABLE_MAP_EVENT
from binlake.format.flags import TABLE_MAP_FLAGS
from binlake.values.frame import EventFormat, Frame
from binlake.values.plan import TableDefinition

_Known = TypeVar("_Known")


class _KnownBytes(Generic[_Known]):
    """A cache of objects that were decoded from repeated bytes, by bytes and flavour.

    It is emptied when it has too many entries, and it does not store objects from many bytes
    (thousands of ENUM members), so memory is bounded.
    """

    MOST = 256
    # a column takes some 300 bytes, and twice that once its definition has been asked for
    MOST_COLUMNS = 16_384
    MOST_BYTES = 1 << 16

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, str], _Known] = {}
        self._columns = 0

    def get(self, raw: bytes, flavour: str) -> _Known | None:
        return self._known.get((raw, flavour))

    def keep(self, raw: bytes, flavour: str, made: _Known, columns: int) -> None:
        if len(raw) > self.MOST_BYTES:
            return
        if len(self._known) >= self.MOST or self._columns + columns > self.MOST_COLUMNS:
            self._known.clear()
            self._columns = 0
        self._known[raw, flavour] = made
        self._columns += columns


# Tables are described again for every statement, always with the same bytes. Tables with the same
# columns differ by their names only.
_DESCRIPTIONS: _KnownBytes[TableDescription] = _KnownBytes()
_COLUMNS: _KnownBytes[ColumnsDescription] = _KnownBytes()


@dataclass(slots=True)
class TableMapEvent(Event):
    """A table's columns as the server logged them; `definition()` relates them to each other."""

    renders = {"flags": bits(TABLE_MAP_FLAGS), "description": HIDDEN, "columns": list}
    extra_fields = ("database", "table", "columns", "primary_key")

    table_id: int
    flags: int
    description: TableDescription

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        table_id = reader.at("table_id").le_uint(table_id_bytes(frame.type_code, fmt))
        flags = reader.u16("flags")
        flavour = "mysql" if fmt is None else fmt.flavour
        raw = bytes(reader.body[reader.pos :])
        known = _DESCRIPTIONS.get(raw, flavour)
        if known is None:
            known = _decode_description(reader, flavour)
            _DESCRIPTIONS.keep(raw, flavour, known, len(known.columns.types))
        else:
            reader.rest_view("description")
        return cls(frame, table_id, flags, known)

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        writer.le_uint("table_id", table_id_bytes(self.frame.type_code, fmt), self.table_id)
        writer.u16("flags", self.flags)
        _encode_description(writer, self.description)

    @property
    def database(self) -> str:
        """The table's database."""
        return self.description.database

    @property
    def table(self) -> str:
        """The table's name in its database."""
        return self.description.table

    def definition(self) -> TableDefinition:
        """The table definition, for column plans.

        Raises MalformedError when fields disagree, UnsupportedError when the server was too old
        to describe its columns.
        """
        try:
            definition = self.description.definition
        except BinlogError as error:
            error.at(event_pos=self.frame.offset, event_type=self.name)
            raise
        return replace(definition, flags=self.flags) if self.flags else definition

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The columns as `to_fields` shows them, with the metadata that the log contains."""
        if self.description.columns.metadata is not None:
            self.definition()  # its errors name the event
        return self.description.columns.shown

    @property
    def primary_key(self) -> list[str] | None:
        """Names of the primary key's columns, None if the log does not contain them."""
        if self.description.columns.optional.primary_key is None:
            return None
        definition = self.definition()
        return [definition.columns[ordinal].name for ordinal in definition.primary_key]


def table_map_of(body: bytes, fmt: EventFormat) -> TableMapEvent:
    """Decode the body of a TABLE_MAP event whose place in the log is unknown. Raises FormatError."""
    frame = Frame(0, TABLE_MAP_EVENT, len(body), 0, 0, 0, 0)
    return TableMapEvent.decode(frame, BodyReader(body), fmt)


def _decode_description(reader: BodyReader, flavour: str) -> TableDescription:
    database = reader.name_text("database", reader.short("database"))
    reader.nul("database")
    table = reader.name_text("table", reader.short("table"))
    reader.nul("table")
    raw = bytes(reader.body[reader.pos :])
    columns = _COLUMNS.get(raw, flavour)
    if columns is None:
        columns = _decode_columns(reader, flavour)
        _COLUMNS.keep(raw, flavour, columns, len(columns.types))
    else:
        reader.rest_view("columns")
    return TableDescription(database, table, columns)


def _decode_columns(reader: BodyReader, flavour: str) -> ColumnsDescription:
    types = reader.counted("column_types")
    if len(types) > MOST_COLUMNS:
        raise MalformedError(
            f"{len(types):,} columns: servers allow {MOST_COLUMNS:,}", field="column_types"
        )
    metadata: tuple[ColumnMetadata, ...] | None = None
    elements: tuple[bytes, ...] = ()
    nullable = b""
    optional = OptionalMetadata()
    if reader.left:
        with reader.block("column_metadata", reader.at("column_metadata").length()):
            metadata, elements = decode_column_metadata(types, reader)
        nullable = reader.take("nullable", (len(types) + 7) // 8)
        optional = decode_optional_metadata(reader)
    return ColumnsDescription(types, metadata, nullable, optional, flavour, elements)


def _encode_description(writer: BodyWriter, described: TableDescription) -> None:
    for name, text in (("database", described.database), ("table", described.table)):
        writer.short(name, text.encode("utf-8"))
        writer.nul(name)
    columns = described.columns
    writer.counted("column_types", columns.types)
    if columns.metadata is None:
        return
    metadata = encode_column_metadata(columns.types, columns.metadata, columns.array_elements)
    writer.counted("column_metadata", metadata)
    writer.take("nullable", (len(columns.types) + 7) // 8, columns.nullable)
    encode_optional_metadata(writer, columns.optional)
