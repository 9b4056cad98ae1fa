"""START_EVENT_V3 (1): the first event of a log before MySQL 5.0 (versions 1 and 3).

Source: sql/log_event.cc of MySQL 5.0, Start_log_event_v3 and the constructor of
Format_description_log_event from a version. It names the server that wrote the log, but does not
describe the layout of events, which follows from the version.
Body:
    2   binlog_version   1 (3.23) or 3 (4.0.2 to 4.1); 2 was an alpha's
    50  server_version   padded with zero bytes
    4   created          seconds since 1970; 0 where the file does not follow a start of the server
"""

from __future__ import annotations

from dataclasses import dataclass

from binlake.errors import MalformedError, UnsupportedError
from binlake.events.base import HIDDEN, Event
from binlake.events.body.fields import U16, U32, fixed
from binlake.events.common.format_description import (
    SERVER_VERSION_BYTES,
    version_numbers,
    version_text,
)
from binlake.format.event_header import HEADER_BYTES, HEADER_BYTES_V1
from binlake.format.event_types import EVENT_TYPES, QUERY_EVENT, ROTATE_EVENT, USER_VAR_EVENT
from binlake.values.frame import EventFormat

#: The event has 56 bytes after its header, so its length gives the header's: 13 or 19 bytes.
FIRST_V3_BYTES = HEADER_BYTES + 56

_HEADER_BYTES = {1: HEADER_BYTES_V1, 3: HEADER_BYTES}
_QUERY_BYTES = 11  # without a length of status variables
_LAST_TYPE = USER_VAR_EVENT  # later types came with version 4


@dataclass(slots=True)
class StartV3Event(Event):
    """The server, and the version of its log."""

    layout = {
        "binlog_version": U16,
        "server_version_raw": fixed(SERVER_VERSION_BYTES),
        "created": U32,
    }
    renders = {"server_version_raw": HIDDEN}
    extra_fields = ("server_version",)

    binlog_version: int
    server_version_raw: bytes
    created: int

    @property
    def server_version(self) -> str:
        """The server version as logged, for example `3.23.58-log`."""
        return version_text(self.server_version_raw)

    def format(self) -> EventFormat:
        """The format of the log. Raises UnsupportedError for a version that is not known."""
        version = self.binlog_version
        if version == 2:
            raise UnsupportedError(
                "binary log version 2, of the alphas 4.0.0 and 4.0.1 only, is not read",
                event_pos=self.frame.offset,
            )
        if version not in _HEADER_BYTES:
            raise UnsupportedError(f"unknown binary log version {version}", offset=0)
        if (version == 1) != (self.frame.length < FIRST_V3_BYTES):
            raise MalformedError(
                f"an event of {self.frame.length} bytes does not begin a log of version {version}",
                event_pos=self.frame.offset,
            )
        return format_before_v4(version, self.server_version)


def format_before_v4(binlog_version: int, server_version: str) -> EventFormat:
    """Return the format of a log of version 1 or 3, which follows from its version alone."""
    lengths = bytearray(EVENT_TYPES[code].post_header_length for code in range(1, _LAST_TYPE + 1))
    lengths[QUERY_EVENT - 1] = _QUERY_BYTES
    if binlog_version == 1:
        lengths[ROTATE_EVENT - 1] = 0
    return EventFormat(
        binlog_version=binlog_version,
        server_version=server_version,
        flavour="mysql",
        version=version_numbers(server_version),
        header_length=_HEADER_BYTES[binlog_version],
        post_header_lengths=bytes(lengths),
        checksum_alg=None,
        checksum_bytes=0,
    )
