"""From events to bytes: header, body and checksum, as a server writes them.

`encode_event(decode_event(…))` returns the bytes of the log. If the fields do not determine the
bytes (another zlib compresses a statement differently), the class documents it.
"""

from __future__ import annotations

import struct
import zlib

from binlake.errors import BinlogError, MalformedError
from binlake.events.base import Event
from binlake.events.body.writer import BodyWriter
from binlake.events.common.format_description import (
    FormatDescriptionEvent,
    wire_type,
)
from binlake.format.event_header import CHECKSUM_BYTES, HEADER, HEADER_BYTES, HEADER_V1, U32
from binlake.format.flags import LOG_EVENT_BINLOG_IN_USE_F
from binlake.values.frame import EventFormat, Frame

_MAX_EVENT_BYTES = 0xFFFFFFFF


def encode_body(event: Event, fmt: EventFormat | None) -> bytes:
    """Encode the bytes between the header and the checksum. Raises MalformedError with the position."""
    writer = BodyWriter()
    try:
        event.encode(writer, fmt)
    except BinlogError as error:
        raise error.at(event_pos=event.frame.offset, event_type=event.name) from None
    return bytes(writer.data) + event.trailing


def encode_event(event: Event, fmt: EventFormat | None, header_extra: bytes = b"") -> bytes:
    """The whole event in the format `fmt` (None: before there is one), with its checksum.

    Timestamp, server, position and flags of the header are the frame's, the length is computed.
    `header_extra` are the extra bytes of a header longer than today's servers write. Raises
    MalformedError for fields that do not fit.
    """
    checksum_bytes = _checksum_bytes(event, fmt)
    is_format = isinstance(event, FormatDescriptionEvent)
    body = header_extra + encode_body(event, fmt)
    frame = event.frame
    if fmt is not None and fmt.binlog_version == 1:
        return _in_version_1(frame, body)
    length = HEADER_BYTES + len(body) + checksum_bytes
    if length > _MAX_EVENT_BYTES:
        raise MalformedError(f"an event cannot have {length} bytes")
    type_code = frame.type_code if is_format else wire_type(frame.type_code, fmt)

    raw = _header(frame, type_code, length, frame.flags) + body
    if not checksum_bytes:
        return raw
    summed = raw
    if is_format:  # servers set and clear the flag for a file in use without a new checksum
        flags = frame.flags & ~LOG_EVENT_BINLOG_IN_USE_F
        summed = _header(frame, type_code, length, flags) + body
    return raw + U32.pack(zlib.crc32(summed))


def _header(frame: Frame, type_code: int, length: int, flags: int) -> bytes:
    try:
        return HEADER.pack(
            frame.timestamp, type_code, frame.server_id, length, frame.log_pos, flags
        )
    except struct.error as error:
        raise MalformedError(f"the header cannot hold that: {error}", field="header") from None


def _in_version_1(frame: Frame, body: bytes) -> bytes:
    """The event with the short header that logs of version 1 have, which have no checksums."""
    length = HEADER_V1.size + len(body)
    return HEADER_V1.pack(frame.timestamp, frame.type_code, frame.server_id, length) + body


def _checksum_bytes(event: Event, fmt: EventFormat | None) -> int:
    """Size of the event's checksum; a FORMAT_DESCRIPTION has one even if other events do not."""
    if isinstance(event, FormatDescriptionEvent):
        return 0 if event.checksum_alg is None else CHECKSUM_BYTES
    return 0 if fmt is None else fmt.checksum_bytes
