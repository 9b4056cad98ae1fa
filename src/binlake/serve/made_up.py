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
from binlake.events.common.format_description import SERVER_VERSION_BYTES
from binlake.events.common.heartbeat import HeartbeatEvent, HeartbeatV2Event
from binlake.events.common.rotate import RotateEvent
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.format import event_types as types
from binlake.format.event_header import (
    CHECKSUM_BYTES,
    FLAGS_AT,
    HEADER_BYTES,
    LOG_POS_AT,
    TYPE_AT,
    U32,
)
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

# Of a FORMAT_DESCRIPTION event: after binlog_version and server_version.
_CREATED_AT = HEADER_BYTES + 2 + SERVER_VERSION_BYTES

# A QUERY event without status variables and database: header, post-header, zero byte, text.
_QUERY_FIXED_BYTES = HEADER_BYTES + types.EVENT_TYPES[types.QUERY_EVENT].post_header_length + 1
_CATALOG_NZ = 6  # status variable: a name that replicas read and do not use
# A USER_VAR event without its name: header, length of the name, NULL.
_USER_VAR_FIXED_BYTES = HEADER_BYTES + 4 + 1


def with_checksums(format: EventFormat) -> EventFormat:
    """The format with a checksum at each event."""
    return replace(format, checksum_bytes=CHECKSUM_BYTES)


def without_checksums(format: EventFormat) -> EventFormat:
    """The format without checksums."""
    return replace(format, checksum_bytes=0)


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
    event[FLAGS_AT] &= ~LOG_EVENT_BINLOG_IN_USE_F & 0xFF
    if entered:
        U32.pack_into(event, LOG_POS_AT, 0)
    if not created:
        U32.pack_into(event, _CREATED_AT, 0)
    if format.checksum_alg is not None:  # it has a checksum even if the others have none
        event[-CHECKSUM_BYTES:] = U32.pack(event_crc32(event))
    return bytes(event)


def ignorable(raw: bytes, format: EventFormat) -> bytes:
    """The event marked as ignorable for a replica (START_ENCRYPTION of a log that is sent
    decrypted).
    """
    event = bytearray(raw)
    event[FLAGS_AT] |= LOG_EVENT_IGNORABLE_F
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
        text = f"# event {raw[TYPE_AT]} of another version".encode()[: size - _QUERY_FIXED_BYTES]
        return _query(raw, format, b"", text.ljust(size - _QUERY_FIXED_BYTES, b"."))
    name = b"dummy".ljust(size - _USER_VAR_FIXED_BYTES, b"_")[: size - _USER_VAR_FIXED_BYTES]
    event = bytearray(raw[:HEADER_BYTES]) + struct.pack("<I", len(name)) + name + b"\1"
    event[TYPE_AT] = types.USER_VAR_EVENT
    return _resum(event + bytes(format.checksum_bytes), format)


def _query(raw: bytes, format: EventFormat, status: bytes, text: bytes) -> bytes:
    event = bytearray(raw[:HEADER_BYTES])
    event[TYPE_AT] = types.QUERY_EVENT
    event[FLAGS_AT] |= LOG_EVENT_SUPPRESS_USE_F
    event += struct.pack("<IIBHH", 0, 0, 0, 0, len(status)) + status + b"\0" + text
    return _resum(event + bytes(format.checksum_bytes), format)


def _resum(event: bytearray, format: EventFormat) -> bytes:
    if format.checksum_bytes:
        event[-CHECKSUM_BYTES:] = U32.pack(zlib.crc32(event[:-CHECKSUM_BYTES]))
    return bytes(event)


def _frame(type_code: int, server_id: int, log_pos: int, flags: int) -> Frame:
    return Frame(0, type_code, 0, 0, server_id, log_pos, flags)


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
