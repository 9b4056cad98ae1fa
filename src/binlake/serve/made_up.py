"""The events of a stream that are in no file: announcements, heartbeats, and stand-ins.

Each has the timestamp 0 or the server id of `serve`, so that a replica never takes it for a
change. Their event classes encode them.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

from binlake.core.events.checksum import event_crc32
from binlake.events.body.encoding import encode_event
from binlake.events.common.heartbeat import HeartbeatEvent, HeartbeatV2Event
from binlake.events.common.rotate import RotateEvent
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.format import event_types as types
from binlake.format.flags import (
    LOG_EVENT_ARTIFICIAL_F,
    LOG_EVENT_BINLOG_IN_USE_F,
    LOG_EVENT_IGNORABLE_F,
    LOG_EVENT_SUPPRESS_USE_F,
)
from binlake.values.frame import EventFormat, Frame
from binlake.values.gtid import MariaGtid

#: Flag of a GTID_LIST: the replica has everything up to its UNTIL.
UNTIL_REACHED = 1 << 28

_FLAGS_AT = 17
_LOG_POS_AT = 13
_CREATED_AT = 19 + 2 + 50
_CHECKSUM_BYTES = 4

# A QUERY event without status variables and database: header, post-header, zero byte, text.
_QUERY_FIXED_BYTES = 19 + 13 + 1
_CATALOG_NZ = 6  # status variable: a name that replicas read and do not use
_USER_VAR_FIXED_BYTES = 19 + 4 + 1


def with_checksum(format: EventFormat, *, wanted: bool) -> EventFormat:
    """The format with or without a checksum at each event."""
    return replace(format, checksum_bytes=_CHECKSUM_BYTES if wanted else 0)


def rotate(format: EventFormat, server_id: int, name: str, position: int) -> bytes:
    """Announces which file follows, and from which position."""
    frame = _frame(types.ROTATE_EVENT, server_id, 0, LOG_EVENT_ARTIFICIAL_F)
    return encode_event(RotateEvent(frame, position, _raw(name)), format)


def heartbeat(format: EventFormat, server_id: int, name: str, position: int) -> bytes:
    """Announces that there is nothing new up to a position, as HEARTBEAT_LOG_EVENT."""
    log_pos = position if position < 1 << 32 else 0  # MariaDB then has it in the body
    if log_pos == 0 and format.flavour != "mariadb":
        log_pos = position & 0xFFFFFFFF
    frame = _frame(types.HEARTBEAT_LOG_EVENT, server_id, log_pos, 0)
    return encode_event(HeartbeatEvent(frame, position, _raw(name)), format)


def heartbeat_v2(format: EventFormat, server_id: int, name: str, position: int) -> bytes:
    """Announces that there is nothing new up to a position, as HEARTBEAT_LOG_EVENT_V2, which has room for every position."""
    frame = _frame(types.HEARTBEAT_LOG_EVENT_V2, server_id, 0, 0)
    return encode_event(HeartbeatV2Event(frame, position, _raw(name)), format)


def gtid_list(
    format: EventFormat, server_id: int, gtids: tuple[MariaGtid, ...], position: int, flags: int = 0
) -> bytes:
    """Announces the last GTID of each of MariaDB's domains at a position: the replica's may be any
    earlier one.
    """
    frame = _frame(types.GTID_LIST_EVENT, server_id, position & 0xFFFFFFFF, LOG_EVENT_ARTIFICIAL_F)
    return encode_event(GtidListEvent(frame, flags, gtids), format)


def format_description(raw: bytes, format: EventFormat, *, entered: bool, created: bool) -> bytes:
    """A file's FORMAT_DESCRIPTION for replicas: closed, even if the file is in use.

    `entered`: they begin after it, so it does not set their position. Without `created` they keep
    their temporary tables, as they must if the server had not just started.
    """
    event = bytearray(raw)
    event[_FLAGS_AT] &= ~LOG_EVENT_BINLOG_IN_USE_F & 0xFF
    if entered:
        event[_LOG_POS_AT : _LOG_POS_AT + 4] = bytes(4)
    if not created:
        event[_CREATED_AT : _CREATED_AT + 4] = bytes(4)
    if format.checksum_alg is not None:  # it has a checksum even if the others have none
        event[-4:] = event_crc32(event).to_bytes(4, "little")
    return bytes(event)


def ignorable(raw: bytes, format: EventFormat) -> bytes:
    """The event marked as ignorable for a replica (START_ENCRYPTION of a log that is sent
    decrypted).
    """
    event = bytearray(raw)
    event[_FLAGS_AT] |= LOG_EVENT_IGNORABLE_F
    return _resum(event, format)


def begin_in_place_of(raw: bytes, format: EventFormat) -> bytes:
    """A BEGIN of the same length as the GTID event that it replaces, for replicas without GTIDs."""
    spare = len(raw) - format.checksum_bytes - _QUERY_FIXED_BYTES - len(b"BEGIN")
    if spare == 1 or spare > 250:
        return dummy_in_place_of(raw, format)
    status = bytes((_CATALOG_NZ, spare - 2)) + b"-" * (spare - 2) if spare else b""
    return _query(raw, format, status, b"BEGIN")


def dummy_in_place_of(raw: bytes, format: EventFormat) -> bytes:
    """An event without effect of the same length as another, for replicas that do not know that
    type.
    """
    size = len(raw) - format.checksum_bytes
    if size >= _QUERY_FIXED_BYTES + 1:
        text = f"# event {raw[4]} of another version".encode()[: size - _QUERY_FIXED_BYTES]
        return _query(raw, format, b"", text.ljust(size - _QUERY_FIXED_BYTES, b"."))
    name = b"dummy".ljust(size - _USER_VAR_FIXED_BYTES, b"_")[: size - _USER_VAR_FIXED_BYTES]
    event = bytearray(raw[:19]) + struct.pack("<I", len(name)) + name + b"\1"
    event[4] = types.USER_VAR_EVENT
    return _resum(event + bytes(format.checksum_bytes), format)


def _query(raw: bytes, format: EventFormat, status: bytes, text: bytes) -> bytes:
    event = bytearray(raw[:19])
    event[4] = types.QUERY_EVENT
    event[_FLAGS_AT] |= LOG_EVENT_SUPPRESS_USE_F
    event += struct.pack("<IIBHH", 0, 0, 0, 0, len(status)) + status + b"\0" + text
    return _resum(event + bytes(format.checksum_bytes), format)


def _resum(event: bytearray, format: EventFormat) -> bytes:
    if format.checksum_bytes:
        event[-4:] = zlib.crc32(event[:-4]).to_bytes(4, "little")
    return bytes(event)


def _frame(type_code: int, server_id: int, log_pos: int, flags: int) -> Frame:
    return Frame(0, type_code, 0, 0, server_id, log_pos, flags)


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
