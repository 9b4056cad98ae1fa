"""TRANSACTION_CONTEXT_EVENT (36) and VIEW_CHANGE_EVENT (37): MySQL's group replication.

Source: libs/mysql/binlog/event/control_events.cpp, Transaction_context_event, View_change_event;
MySQL 5.7.6. Members send 36 to each other to find conflicts, and log 37 when one
joins or leaves. We had no log of a real group.
Body of 36:
    1     length of server_uuid
    4     thread_id
    1     gtid_specified
    4     length of the snapshot
    4     number of items in write_set
    4     number of items in read_set
    n     server_uuid
    n     snapshot         an encoded GTID set: what was executed when the transaction began
    2+n   each item        a hash of a row: length u16, bytes
Body of 37:
    40    view_id          padded with zero bytes
    8     sequence_number
    4     number of entries
    n     each entry       certification information: length u16, key, length u32, value
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.errors import BinlogError
from binlake.events.base import HIDDEN, Event, text_or_hex
from binlake.events.body.fields import counted
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.values.frame import EventFormat, Frame
from binlake.values.gtid import GtidSet

_HASH = counted(2)  # of a row
_VALUE = counted(4)
_VIEW_ID_BYTES = 40


@dataclass(slots=True)
class TransactionContextEvent(Event):
    """The row hashes that a transaction read and wrote, and the GTID set that it could see."""

    renders = {"server_uuid_raw": HIDDEN, "snapshot_raw": HIDDEN}
    extra_fields = ("server_uuid", "snapshot")

    server_uuid_raw: bytes
    thread_id: int
    gtid_specified: int
    snapshot_raw: bytes
    write_set: tuple[bytes, ...]
    read_set: tuple[bytes, ...]

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        uuid_bytes = reader.u8("server_uuid_length")
        thread_id = reader.u32("thread_id")
        gtid_specified = reader.u8("gtid_specified")
        snapshot_bytes = reader.u32("snapshot_length")
        write_count = reader.u32("write_set_count")
        read_count = reader.u32("read_set_count")
        uuid = reader.take("server_uuid", uuid_bytes)
        snapshot = reader.take("snapshot", snapshot_bytes)
        return cls(
            frame, uuid, thread_id, gtid_specified, snapshot,
            _items(reader, "write_set", write_count), _items(reader, "read_set", read_count),
        )  # fmt: skip

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        writer.u8("server_uuid_length", len(self.server_uuid_raw))
        writer.u32("thread_id", self.thread_id)
        writer.u8("gtid_specified", self.gtid_specified)
        writer.u32("snapshot_length", len(self.snapshot_raw))
        writer.u32("write_set_count", len(self.write_set))
        writer.u32("read_set_count", len(self.read_set))
        writer.rest("server_uuid", self.server_uuid_raw)
        writer.rest("snapshot", self.snapshot_raw)
        for item in self.write_set + self.read_set:
            _HASH.write(writer, "item", item)

    @property
    def server_uuid(self) -> str:
        """UUID of the member on which the transaction ran."""
        return text_or_hex(self.server_uuid_raw)

    @property
    def snapshot(self) -> str:
        """The GTIDs that were executed when the transaction began; 0x… if they are not a valid set."""
        return _gtids_text(self.snapshot_raw)


@dataclass(slots=True)
class ViewChangeEvent(Event):
    """A member joined or left: the group's new view, and the data for finding conflicts.

    `entries_raw` are the certification information: the hash of a row, and the GTIDs of those
    that wrote it.
    """

    renders = {"view_id_raw": HIDDEN, "entries_raw": HIDDEN}
    extra_fields = ("view_id", "certification_info")

    view_id_raw: bytes
    sequence_number: int
    entries_raw: tuple[tuple[bytes, bytes], ...]

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        view_id = reader.take("view_id", _VIEW_ID_BYTES)
        sequence_number = reader.u64("sequence_number")
        count = reader.u32("entry_count")
        reader.at("entries").need(count * 6)
        entries = tuple(
            (_HASH.read(reader, "key"), _VALUE.read(reader, "value")) for _ in range(count)
        )
        return cls(frame, view_id, sequence_number, entries)

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        writer.take("view_id", _VIEW_ID_BYTES, self.view_id_raw)
        writer.u64("sequence_number", self.sequence_number)
        writer.u32("entry_count", len(self.entries_raw))
        for key, value in self.entries_raw:
            _HASH.write(writer, "key", key)
            _VALUE.write(writer, "value", value)

    @property
    def view_id(self) -> str:
        """Name of the view."""
        return text_or_hex(self.view_id_raw.rstrip(b"\0"))

    @property
    def certification_info(self) -> dict[str, str]:
        """GTIDs by the hash of the row that they wrote; 0x… for values that are no GTID set."""
        return {text_or_hex(key): _gtids_text(value) for key, value in self.entries_raw}


def _items(reader: BodyReader, name: str, count: int) -> tuple[bytes, ...]:
    reader.at(name).need(count * 2)
    return tuple(_HASH.read(reader, name) for _ in range(count))


def _gtids_text(raw: bytes) -> str:
    try:
        return str(GtidSet.decode(raw))
    except BinlogError:
        return "0x" + raw.hex()
