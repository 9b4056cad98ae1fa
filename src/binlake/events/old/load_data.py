"""LOAD_EVENT (6), NEW_LOAD_EVENT (12), CREATE_FILE_EVENT (8): LOAD DATA INFILE before 5.0.

Source: sql/log_event.cc of MySQL 5.0, Load_log_event::copy_log_event, sql_ex_info::init,
Create_file_log_event. A LOAD_EVENT of 3.23 refers to a file of the source; from 4.0
on the file's blocks are in the log: CREATE_FILE with the first, APPEND_BLOCK with more, EXEC_LOAD
or DELETE_FILE at the end (load_blocks.py).
Body:
    4     thread_id
    4     exec_time         seconds
    4     skip_lines        IGNORE n LINES
    1     length of table
    1     length of database
    4     number of fields
    4     file_id           CREATE_FILE only
    n     delimiters        field_term, enclosed, line_term, line_start, escaped. LOAD: a byte each;
                            others: length u8 and bytes
    1     opt_flags
    1     empty_flags       LOAD only: which of the delimiters are empty
    n     lengths of the fields, a byte each
    n     fields            each with a zero byte
    n+1   table             and a zero byte
    n+1   database          and a zero byte
    rest  file              CREATE_FILE: and a zero byte, then the block
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from binlake.events.base import HIDDEN, Event, bits, file_name_text, text_or_hex
from binlake.events.body.fields import U32
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.format.event_types import LOAD_EVENT
from binlake.values.frame import EventFormat, Frame

_DELIMITERS = ("field_term", "enclosed", "line_term", "line_start", "escaped")
_OPT_FLAGS = {0x01: "DUMPFILE", 0x02: "OPT_ENCLOSED", 0x04: "REPLACE", 0x08: "IGNORE"}


@dataclass(slots=True)
class LoadEvent(Event):
    """A LOAD DATA INFILE statement, as fields.

    `delimiters_raw` are those of `delimiters` as they are stored, `empty_flags` the bits of those
    that are stored although they are empty (None in the newer layout, which has lengths). A
    subclass names in `layout` the fields that it adds before the delimiters.
    """

    renders = {
        "delimiters_raw": HIDDEN,
        "opt_flags": bits(_OPT_FLAGS),
        "empty_flags": HIDDEN,
        "field_names_raw": HIDDEN,
        "table_raw": HIDDEN,
        "database_raw": HIDDEN,
        "file_raw": HIDDEN,
    }
    extra_fields: ClassVar[tuple[str, ...]] = (
        "delimiters", "database", "table", "fields", "file",
    )  # fmt: skip

    thread_id: int
    exec_time: int
    skip_lines: int
    delimiters_raw: tuple[bytes, ...]
    opt_flags: int
    empty_flags: int | None
    field_names_raw: tuple[bytes, ...]
    table_raw: bytes
    database_raw: bytes
    file_raw: bytes

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        thread_id = reader.u32("thread_id")
        exec_time = reader.u32("exec_time")
        skip_lines = reader.u32("skip_lines")
        table_bytes = reader.u8("table_length")
        database_bytes = reader.u8("database_length")
        field_count = reader.u32("field_count")
        file_id = [wire.read(reader, name) for name, wire in cls.layout.items()]
        old = frame.type_code == LOAD_EVENT
        delimiters = tuple(
            reader.take(name, 1) if old else reader.short(name) for name in _DELIMITERS
        )
        opt_flags = reader.u8("opt_flags")
        empty_flags = reader.u8("empty_flags") if old else None
        lengths = reader.take("field_lengths", field_count)
        names = tuple(_name(reader, "field_name", length) for length in lengths)
        table = _name(reader, "table", table_bytes)
        database = _name(reader, "database", database_bytes)
        file, *block = cls._decode_file(reader)
        return cls(
            frame, thread_id, exec_time, skip_lines, delimiters, opt_flags, empty_flags, names,
            table, database, file, *file_id, *block,
        )  # fmt: skip

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        writer.u32("thread_id", self.thread_id)
        writer.u32("exec_time", self.exec_time)
        writer.u32("skip_lines", self.skip_lines)
        writer.u8("table_length", len(self.table_raw))
        writer.u8("database_length", len(self.database_raw))
        writer.u32("field_count", len(self.field_names_raw))
        Event.encode(self, writer, fmt)  # the fields of `layout`
        old = self.frame.type_code == LOAD_EVENT
        for name, raw in zip(_DELIMITERS, self.delimiters_raw, strict=True):
            if old:
                writer.take(name, 1, raw)
            else:
                writer.short(name, raw)
        writer.u8("opt_flags", self.opt_flags)
        if old:
            writer.u8("empty_flags", self.empty_flags or 0)
        for raw in self.field_names_raw:
            writer.u8("field_lengths", len(raw))
        for raw in (*self.field_names_raw, self.table_raw, self.database_raw):
            writer.rest("name", raw)
            writer.nul("name")
        self._encode_file(writer)

    @classmethod
    def _decode_file(cls, reader: BodyReader) -> tuple[bytes, ...]:
        """Decode the rest after the names: the file name, and the first block if the log contains it."""
        return (reader.rest("file"),)

    def _encode_file(self, writer: BodyWriter) -> None:
        """Write the fields that `_decode_file` reads."""
        writer.rest("file", self.file_raw)

    @property
    def delimiters(self) -> dict[str, str]:
        """The separators of fields and lines, by their names in the server's source."""
        empty = self.empty_flags or 0
        return {
            name: "" if empty >> i & 1 else text_or_hex(raw)
            for i, (name, raw) in enumerate(zip(_DELIMITERS, self.delimiters_raw, strict=True))
        }

    @property
    def database(self) -> str:
        """The table's database."""
        return text_or_hex(self.database_raw)

    @property
    def table(self) -> str:
        """The table that is loaded."""
        return text_or_hex(self.table_raw)

    @property
    def fields(self) -> list[str]:
        """The columns that are loaded; none: all of them."""
        return [text_or_hex(raw) for raw in self.field_names_raw]

    @property
    def file(self) -> str:
        """The file name, spelled as in the statement."""
        return file_name_text(self.file_raw)


@dataclass(slots=True)
class CreateFileEvent(LoadEvent):
    """A LoadEvent with the first block of the file: `file_id` joins it with the others."""

    layout = {"file_id": U32}
    renders = {**LoadEvent.renders, "block": HIDDEN}
    extra_fields = (*LoadEvent.extra_fields, "block_bytes")

    file_id: int
    block: bytes

    @classmethod
    def _decode_file(cls, reader: BodyReader) -> tuple[bytes, ...]:
        return reader.until_nul("file"), reader.rest("block")

    def _encode_file(self, writer: BodyWriter) -> None:
        writer.until_nul("file", self.file_raw)
        writer.rest("block", self.block)

    @property
    def block_bytes(self) -> int:
        """Length of the block."""
        return len(self.block)


def _name(reader: BodyReader, name: str, length: int) -> bytes:
    raw = reader.take(name, length)
    reader.nul(name)
    return raw
