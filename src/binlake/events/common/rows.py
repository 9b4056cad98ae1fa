"""Rows events: changes of one table as row images (20 to 25, 30 to 32, 39, 166 to 171).

Source: libs/mysql/binlog/event/rows_event.cpp, Rows_event; MariaDB sql/log_event.cc,
Rows_log_event. Everything before the first row image is read by
core/rows/rows_header.pyx, which describes it; the row decoders in core/, which know the table, read
the images. In MariaDB's compressed events the images are compressed together.
Version 0 (20 to 22, pre-releases of 5.1): one bitmap for both images of an update, and images
that begin with the null bytes of the server's own record (a bit unused, then one per nullable
column), which a log of that time does not describe: the event is typed, its rows are not
decoded.
Extra data of version 2: chunks of type u8 and
    0  NDB        length u8 (counts itself and the format), format u8, data
    1  PARTITION  partition_id u16, for updates also source_partition_id u16
An unknown type ends the parsing of the extra data, which is kept as `extra_raw`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from binlake.core.events.inflate import inflate_event_data
from binlake.core.rows.rows_header import RowsHeader
from binlake.errors import BinlogError, MalformedError
from binlake.events.base import HIDDEN, Event, bits
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.events.common.format_description import table_id_bytes
from binlake.format.event_types import EVENT_TYPES
from binlake.format.flags import ROWS_FLAGS, ROWS_STMT_END_F
from binlake.values.frame import EventFormat, Frame, most_inflated

_NDB = 0
_PARTITION = 1
_NDB_HEAD_BYTES = 2
_EXTRA_LENGTH_BYTES = 2  # they count themselves

# Table ids of an event without rows that only frees table maps (older servers write all ones).
_DUMMY_TABLE_IDS = frozenset({0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF})


@dataclass(slots=True)
class _Extra:
    partition_id: int | None = None
    source_partition_id: int | None = None
    ndb: bytes | None = None


@dataclass(slots=True)
class RowsEvent(Event):
    """Row images of one table.

    `width` is the number of columns of the table, `present` the bitmap (bit i: column i,
    lowest first) of those in the images, `present_after` the same of an update's after-images
    (None otherwise). `rows` are the images as in the log (a view of the decoded buffer).
    `partition_id`, `source_partition_id` and `ndb` come from `extra_raw`.
    """

    renders = {"flags": bits(ROWS_FLAGS), "present": HIDDEN, "present_after": HIDDEN}
    extra_fields = ("columns", "columns_after")

    table_id: int
    flags: int
    partition_id: int | None = field(compare=False)
    source_partition_id: int | None = field(compare=False)
    ndb: bytes | None = field(compare=False)
    extra_raw: bytes
    width: int
    present: bytes
    present_after: bytes | None
    rows: memoryview

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        kind = EVENT_TYPES[frame.type_code]
        is_update = kind.operation == "update"
        version = kind.rows_version or 0
        head = RowsHeader()
        head.parse(
            reader.at("rows_header"),
            table_id_bytes(frame.type_code, fmt),
            version,
            2 if is_update and version > 0 else 1,
        )
        body = reader.body
        extra_raw = bytes(body[head.extra_start : head.extra_end])
        extra = _decode_extra(reader, head, is_update=is_update)
        after: bytes | None = None
        if head.present_after >= 0:
            after = bytes(body[head.present_after : head.present_after + head.bitmap_bytes])
        return cls(
            frame=frame,
            table_id=head.table_id,
            flags=head.flags,
            partition_id=extra.partition_id,
            source_partition_id=extra.source_partition_id,
            ndb=extra.ndb,
            extra_raw=extra_raw,
            width=head.width,
            present=bytes(body[head.present : head.present + head.bitmap_bytes]),
            present_after=after,
            rows=reader.rest_view("rows"),
        )

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        kind = EVENT_TYPES[self.frame.type_code]
        writer.le_uint("table_id", table_id_bytes(self.frame.type_code, fmt), self.table_id)
        writer.u16("flags", self.flags)
        if kind.rows_version == 2:
            writer.u16("extra", _EXTRA_LENGTH_BYTES + len(self.extra_raw))
            writer.rest("extra", self.extra_raw)
        bitmap_bytes = (self.width + 7) // 8
        writer.lenenc("width", self.width)
        writer.take("present", bitmap_bytes, self.present)
        if self.present_after is not None:
            writer.take("present_after", bitmap_bytes, self.present_after)
        writer.rest("rows", self.rows)

    @property
    def operation(self) -> str:
        """The operation: insert, update or delete."""
        return EVENT_TYPES[self.frame.type_code].operation or ""

    @property
    def is_statement_end(self) -> bool:
        """Whether the statement ends here, and with it the validity of its table maps."""
        return bool(self.flags & ROWS_STMT_END_F)

    @property
    def is_dummy(self) -> bool:
        """Whether the event holds no rows and only ends a statement."""
        return self.table_id in _DUMMY_TABLE_IDS and not self.rows.nbytes

    @property
    def columns(self) -> list[int]:
        """Ordinals of the columns in the images (before-images of an update), from 0."""
        return _ordinals(self.present, self.width)

    @property
    def columns_after(self) -> list[int] | None:
        """Ordinals of the columns in an update's after-images; None otherwise."""
        return None if self.present_after is None else _ordinals(self.present_after, self.width)

    def inflate(self, fmt: EventFormat | None = None) -> memoryview:
        """The row images uncompressed; `rows` itself unless the type is a compressed one.

        Raises MalformedError when the compressed data is corrupt, UnsupportedError for an unknown
        algorithm, and for more bytes than the format allows.
        """
        if not EVENT_TYPES[self.frame.type_code].compressed:
            return self.rows
        try:
            return memoryview(inflate_event_data(self.rows, most_inflated(fmt)))
        except BinlogError as error:
            error.at(event_pos=self.frame.offset, event_type=self.name)
            raise


def _ordinals(bitmap: bytes, width: int) -> list[int]:
    return [i for i in range(width) if bitmap[i >> 3] >> (i & 7) & 1]


def _decode_extra(reader: BodyReader, head: RowsHeader, *, is_update: bool) -> _Extra:
    extra = _Extra()
    if head.extra_start == head.extra_end:
        return extra
    reader.cursor.bound(head.extra_start, reader.cursor.end)
    with reader.block("extra", head.extra_end - head.extra_start):
        while reader.left:
            kind = reader.u8("extra_type")
            if kind == _NDB:
                length = reader.u8("ndb_length")
                if length < _NDB_HEAD_BYTES:
                    raise MalformedError("NDB data cannot be that short", offset=reader.pos - 1)
                extra.ndb = reader.take("ndb", length - 1)
            elif kind == _PARTITION:
                extra.partition_id = reader.u16("partition_id")
                if is_update:
                    extra.source_partition_id = reader.u16("source_partition_id")
            else:
                break
    reader.cursor.bound(head.rows_start, reader.cursor.end)
    return extra
