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

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from binlake.errors import BinlogError, MalformedError
from binlake.events.base import HIDDEN, Event, Render, bits
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
from binlake.events.common.table_description import TableDescription
from binlake.format.column_types import MOST_COLUMNS
from binlake.format.flags import TABLE_MAP_FLAGS
from binlake.values.frame import EventFormat, Frame
from binlake.values.plan import TableDefinition

__all__ = ["TableMapEvent"]


# Tables are described again for every statement, always with the same bytes, so a description is
# read once. When too many tables come by, it starts anew; long ones (thousands of ENUM members)
# are not kept, so memory is bounded.
_DESCRIPTIONS: dict[tuple[bytes, str], TableDescription] = {}
_DESCRIPTIONS_MAX = 256
# a column takes some 300 bytes, and twice that once its definition has been asked for
_DESCRIPTIONS_COLUMNS_MAX = 16_384
_DESCRIPTION_BYTES_MAX = 1 << 16


@dataclass(slots=True)
class TableMapEvent(Event):
    """A table's columns as the server logged them; `definition()` relates them to each other."""

    renders: ClassVar[Mapping[str, Render | None]] = {
        "flags": bits(TABLE_MAP_FLAGS),
        "description": HIDDEN,
        "columns": list,
    }
    extra_fields: ClassVar[tuple[str, ...]] = ("database", "table", "columns", "primary_key")

    table_id: int
    flags: int
    description: TableDescription

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        table_id = reader.at("table_id").le_uint(table_id_bytes(frame.type_code, fmt))
        flags = reader.u16("flags")
        flavour = "mysql" if fmt is None else fmt.flavour
        key = (bytes(reader.body[reader.pos :]), flavour)
        known = _DESCRIPTIONS.get(key)
        if known is None:
            known = _decode_description(reader, flavour)
            kept = sum(len(one.column_types) for one in _DESCRIPTIONS.values())
            if (
                len(_DESCRIPTIONS) >= _DESCRIPTIONS_MAX
                or kept + len(known.column_types) > _DESCRIPTIONS_COLUMNS_MAX
            ):
                _DESCRIPTIONS.clear()
            if len(key[0]) <= _DESCRIPTION_BYTES_MAX:
                _DESCRIPTIONS[key] = known
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
        """The table as a value, for column plans.

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
        if self.description.column_metadata is not None:
            self.definition()  # its errors name the event
        return self.description.shown_columns

    @property
    def primary_key(self) -> list[str] | None:
        """Names of the primary key's columns, None if the log does not contain them."""
        if self.description.optional.primary_key is None:
            return None
        definition = self.definition()
        return [definition.columns[ordinal].name for ordinal in definition.primary_key]


def _decode_description(reader: BodyReader, flavour: str) -> TableDescription:
    database = reader.name_text("database", reader.short("database"))
    reader.nul("database")
    table = reader.name_text("table", reader.short("table"))
    reader.nul("table")
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
    return TableDescription(database, table, types, metadata, nullable, optional, flavour, elements)


def _encode_description(writer: BodyWriter, described: TableDescription) -> None:
    for name, text in (("database", described.database), ("table", described.table)):
        writer.short(name, text.encode("utf-8"))
        writer.nul(name)
    types = described.column_types
    writer.counted("column_types", types)
    if described.column_metadata is None:
        return
    metadata = encode_column_metadata(types, described.column_metadata, described.array_elements)
    writer.counted("column_metadata", metadata)
    writer.take("nullable", (len(types) + 7) // 8, described.nullable)
    encode_optional_metadata(writer, described.optional)
