"""GTID_TAGGED_LOG_EVENT (42): a transaction whose GTID may have a tag (MySQL 8.3).

Source: libs/mysql/binlog/event/control_events.h, Gtid_event::define_fields, serialised by
libs/mysql/serialization (primitive_type_codec.hpp, serializer_impl.hpp).
Encoding: an unsigned number has as many bytes as its first byte has trailing one bits, plus
one; its value is in the bits above them (a first byte 0xFF: in the next 8 bytes). Signed ones
are zig-zag. Message:
    version              1
    size                 of the whole message, version and size included
    last_non_ignorable   0, or 1 + id of the last field that a reader has to know
    fields               id, then data, by ascending id; what is absent has its default
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from binlake.errors import MalformedError, UnsupportedError
from binlake.events.base import HIDDEN
from binlake.events.body.fields import FieldFormat
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.events.mysql.gtid import GtidEvent
from binlake.values.frame import EventFormat, Frame
from binlake.values.gtid import TAG

_VERSION = 1
_TAG_BYTES_MAX = 32


def _unsigned(reader: BodyReader, name: str) -> int:
    cursor = reader.at(name)
    first = cursor.u8()
    extra = (~first & (first + 1)).bit_length() - 1  # trailing one bits
    if extra == 8:
        return cursor.u64()
    rest = cursor.take(extra)
    return (first | int.from_bytes(rest, "little") << 8) >> (extra + 1)


def _write_unsigned(writer: BodyWriter, name: str, value: int) -> None:
    for extra in range(8):
        if 0 <= value < 1 << (7 * (extra + 1)):
            ones = (1 << extra) - 1
            return writer.le_uint(name, extra + 1, value << (extra + 1) | ones)
    writer.u8(name, 0xFF)
    return writer.u64(name, value)


def _signed(reader: BodyReader, name: str) -> int:
    value = _unsigned(reader, name)
    return (value >> 1) ^ -(value & 1)


def _write_signed(writer: BodyWriter, name: str, value: int) -> None:
    _write_unsigned(writer, name, value << 1 if value >= 0 else ~value << 1 | 1)


def _uuid(reader: BodyReader, name: str) -> bytes:
    """16 bytes, each a number of its own (those above 0x7F take two bytes)."""
    values = [_unsigned(reader, name) for _ in range(16)]
    if max(values) > 0xFF:
        raise MalformedError("a byte of the UUID is above 255", offset=reader.pos)
    return bytes(values)


def _write_uuid(writer: BodyWriter, name: str, sid: bytes) -> None:
    if len(sid) != 16:
        raise MalformedError("a UUID has 16 bytes", field=name)
    for byte in sid:
        _write_unsigned(writer, name, byte)


def _tag(reader: BodyReader, name: str) -> str:
    length = _unsigned(reader, name)
    if length > _TAG_BYTES_MAX:
        raise MalformedError(f"a tag cannot have {length} bytes", offset=reader.pos)
    raw = reader.take(name, length)
    tag = raw.decode("latin-1")
    if tag and not TAG.fullmatch(tag):
        raise MalformedError(f"{tag!r} is not the tag of a GTID", offset=reader.pos)
    return tag


def _write_tag(writer: BodyWriter, name: str, tag: str) -> None:
    if tag and not TAG.fullmatch(tag):
        raise MalformedError(f"{tag!r} is not a tag", field=name)
    _write_unsigned(writer, name, len(tag))
    writer.rest(name, tag.encode("ascii"))


_UNSIGNED = FieldFormat(_unsigned, _write_unsigned)
_SIGNED = FieldFormat(_signed, _write_signed)

# by field id
_FIELDS: tuple[tuple[str, FieldFormat], ...] = (
    ("flags", _UNSIGNED),
    ("sid", FieldFormat(_uuid, _write_uuid)),
    ("gno", _SIGNED),
    ("tag", FieldFormat(_tag, _write_tag)),
    ("last_committed", _SIGNED),
    ("sequence_number", _SIGNED),
    ("immediate_commit_us", _UNSIGNED),
    ("original_commit_us", _UNSIGNED),
    ("transaction_length", _UNSIGNED),
    ("immediate_server_version", _UNSIGNED),
    ("original_server_version", _UNSIGNED),
    ("commit_group_ticket", _UNSIGNED),
)


@dataclass(slots=True)
class GtidTaggedEvent(GtidEvent):
    """A GtidEvent in the newer encoding; the only one whose `tag` can be set.

    `field_ids` are those of the fields that the event holds (the others have their defaults),
    `last_needed` is its last_non_ignorable, `unread` its fields of a later server.
    """

    renders = {
        **GtidEvent.renders,
        "field_ids": HIDDEN,
        "last_needed": HIDDEN,
        "unread": HIDDEN,
    }

    field_ids: tuple[int, ...] = ()
    last_needed: int = 0
    unread: bytes = b""

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        version = _unsigned(reader, "version")
        if version != _VERSION:
            raise UnsupportedError(f"tagged GTID event, serialisation version {version}")
        size = _unsigned(reader, "size")
        with reader.block("size", size - reader.pos):
            return cls._decode_fields(frame, reader)

    @classmethod
    def _decode_fields(cls, frame: Frame, reader: BodyReader) -> Self:
        last_needed = _unsigned(reader, "last_non_ignorable")
        values: dict[str, Any] = {"flags": 0, "sid": bytes(16), "gno": 0}
        field_ids: list[int] = []
        unread = b""
        while reader.left:
            start = reader.pos
            field_id = _unsigned(reader, "field_id")
            if field_ids and field_id <= field_ids[-1]:
                raise MalformedError("the fields are not in order", offset=reader.pos)
            if field_id >= len(_FIELDS):  # of a later server: the size says where it all ends
                unread = bytes(reader.body[start : reader.pos]) + reader.rest("field")
                break
            name, wire = _FIELDS[field_id]
            values[name] = wire.read(reader, name)
            field_ids.append(field_id)
        if last_needed > len(_FIELDS):
            raise UnsupportedError("the tagged GTID event has fields of a newer server")
        if values.get("immediate_commit_us") is not None:
            values.setdefault("original_commit_us", values["immediate_commit_us"])
        if values.get("immediate_server_version") is not None:
            values.setdefault("original_server_version", values["immediate_server_version"])
        return cls(
            frame=frame,
            field_ids=tuple(field_ids),
            last_needed=last_needed,
            unread=unread,
            **values,
        )

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        message = BodyWriter()
        _write_unsigned(message, "last_non_ignorable", self.last_needed)
        for field_id in self.field_ids:
            name, wire = _FIELDS[field_id]
            _write_unsigned(message, "field_id", field_id)
            wire.write(message, name, getattr(self, name))
        message.rest("field", self.unread)
        _write_unsigned(writer, "version", _VERSION)
        for size_bytes in range(1, 10):  # the size counts itself
            size = BodyWriter()
            _write_unsigned(size, "size", 1 + size_bytes + len(message.data))
            if len(size.data) == size_bytes:
                writer.rest("size", size.data)
                break
        writer.rest("fields", message.data)
