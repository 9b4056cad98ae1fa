"""GTID_TAGGED_LOG_EVENT (42): a transaction whose GTID may have a tag (MySQL 8.3).

Source: libs/mysql/binlog/event/control_events.h, Gtid_event::define_fields, serialised by
libs/mysql/serialization (primitive_type_codec.hpp, serializer_impl.hpp); formats.md §7.2.
Encoding: an unsigned number has as many bytes as its first byte has trailing one bits, plus
one; its value is in the bits above them (a first byte 0xFF: in the next 8 bytes). Signed ones
are zig-zag. Message:
    version              1
    size                 of the whole message, version and size included
    last_non_ignorable   0, or 1 + id of the last field that a reader has to know
    fields               id, then data, by ascending id; what is absent has its default
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from binlake.errors import MalformedError, UnsupportedError
from binlake.events.base import BodyReader
from binlake.events.gtid_mysql import GtidEvent
from binlake.values.frame import EventFormat, Frame

__all__ = ["GtidTaggedEvent"]

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


def _signed(reader: BodyReader, name: str) -> int:
    value = _unsigned(reader, name)
    return (value >> 1) ^ -(value & 1)


def _uuid(reader: BodyReader, name: str) -> bytes:
    """16 bytes, each a number of its own (those above 0x7F take two bytes)."""
    values = [_unsigned(reader, name) for _ in range(16)]
    if max(values) > 0xFF:
        raise MalformedError("a byte of the UUID is above 255", offset=reader.pos)
    return bytes(values)


def _tag(reader: BodyReader, name: str) -> str:
    length = _unsigned(reader, name)
    if length > _TAG_BYTES_MAX:
        raise MalformedError(f"a tag cannot have {length} bytes", offset=reader.pos)
    raw = reader.take(name, length)
    if not raw.isascii():
        raise MalformedError("a tag is ASCII", offset=reader.pos)
    return raw.decode("ascii")


_Read = Callable[[BodyReader, str], Any]

# by field id
_FIELDS: tuple[tuple[str, _Read], ...] = (
    ("flags", _unsigned),
    ("sid", _uuid),
    ("gno", _signed),
    ("tag", _tag),
    ("last_committed", _signed),
    ("sequence_number", _signed),
    ("immediate_commit_us", _unsigned),
    ("original_commit_us", _unsigned),
    ("transaction_length", _unsigned),
    ("immediate_server_version", _unsigned),
    ("original_server_version", _unsigned),
    ("commit_group_ticket", _unsigned),
)


@dataclass(slots=True)
class GtidTaggedEvent(GtidEvent):
    """A GtidEvent in the newer encoding; the only one whose `tag` can be set."""

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        version = _unsigned(reader, "version")
        if version != _VERSION:
            raise UnsupportedError(f"tagged GTID event, serialisation version {version}")
        size = _unsigned(reader, "size")
        reader.at("size").need(size - reader.pos)
        reader.cursor.bound(reader.pos, size)
        last_needed = _unsigned(reader, "last_non_ignorable")
        values: dict[str, Any] = {"flags": 0, "sid": bytes(16), "gno": 0}
        next_id = 0
        while reader.left:
            field_id = _unsigned(reader, "field_id")
            if field_id < next_id:
                raise MalformedError("the fields are not in order", offset=reader.pos)
            if field_id >= len(_FIELDS):
                break  # of a later server: the size says where the message ends
            name, read = _FIELDS[field_id]
            values[name] = read(reader, name)
            next_id = field_id + 1
        if last_needed > len(_FIELDS):
            raise UnsupportedError("the tagged GTID event has fields of a newer server")
        if values.get("immediate_commit_us") is not None:
            values.setdefault("original_commit_us", values["immediate_commit_us"])
        if values.get("immediate_server_version") is not None:
            values.setdefault("original_server_version", values["immediate_server_version"])
        return cls(frame=frame, **values)
