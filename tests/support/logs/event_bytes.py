"""Whole events for tests of `events/`: a walk over frames that knows nothing of `source/`."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace

from binlake.events.base import Event
from binlake.events.registry import decode_event, event_format
from binlake.format.event_types import FORMAT_DESCRIPTION_EVENT, ROTATE_EVENT
from binlake.values.frame import EventFormat, Frame

HEADER = struct.Struct("<IBIIIH")

MYSQL = EventFormat(
    binlog_version=4,
    server_version="9.7.4",
    flavour="mysql",
    version=(9, 7, 4),
    header_length=19,
    post_header_lengths=bytes.fromhex(
        "000d00080000000400040000006200041a08000000000000020000000a0a0a2a2a0012340a280000"
    ),
    checksum_alg=1,
    checksum_bytes=4,
)
MARIADB = replace(
    MYSQL,
    server_version="10.11.18-MariaDB-log",
    flavour="mariadb",
    version=(10, 11, 18),
    post_header_lengths=b"",
)


def frame_at(data: bytes | memoryview, pos: int = 0) -> Frame:
    """The common header at `pos`."""
    timestamp, code, server_id, length, log_pos, flags = HEADER.unpack_from(data, pos)
    return Frame(pos, code, length, timestamp, server_id, log_pos, flags)


def frames(data: bytes | memoryview, pos: int) -> Iterator[Frame]:
    """All whole frames from `pos` on."""
    while pos + HEADER.size <= len(data):
        frame = frame_at(data, pos)
        if frame.length < HEADER.size or frame.end > len(data):
            return
        yield frame
        pos = frame.end


def bodies(data: bytes, pos: int = 4) -> Iterator[tuple[Frame, bytes, EventFormat | None]]:
    """Frames of a log file with their bodies and the format in force (a FORMAT's own: after it)."""
    fmt: EventFormat | None = None
    for frame in frames(data, pos):
        fixed = frame.type_code in (FORMAT_DESCRIPTION_EVENT, ROTATE_EVENT)
        header = HEADER.size if fmt is None or fixed else fmt.header_length
        crc = (
            0 if fmt is None or frame.type_code == FORMAT_DESCRIPTION_EVENT else fmt.checksum_bytes
        )
        body = bytes(data[frame.offset + header : frame.end - crc])
        if frame.type_code == FORMAT_DESCRIPTION_EVENT:
            fmt = event_format(frame, body)
        yield frame, body, fmt


def whole_event(text: str, fmt: EventFormat | None, *, crc_bytes: int = 4) -> Event:
    """Decode one event given as hex with its header; its CRC32, if it has one, must hold."""
    data = bytes.fromhex(text)
    frame = frame_at(data)
    assert frame.length == len(data)
    if crc_bytes:
        assert zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little")
    return decode_event(frame, data[HEADER.size : len(data) - crc_bytes], fmt)


def event_of(code: int, body: bytes, fmt: EventFormat | None = MYSQL, **header: int) -> Event:
    """Decode a body under a made-up header."""
    fields = {"timestamp": 1_700_000_000, "server_id": 7, "log_pos": 0, "flags": 0, **header}
    length = HEADER.size + len(body) + (0 if fmt is None else fmt.checksum_bytes)
    return decode_event(Frame(4, code, length, **fields), body, fmt)
