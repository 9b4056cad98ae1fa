"""The nouns of framing: one event's header, and the format that a stretch of a log has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["EventFormat", "Frame"]


class Frame(NamedTuple):
    """The common header of one event and where it lies.

    `offset` is the 64-bit byte offset of the event in its file (inside a payload: in the
    inflated payload), computed, never the 32-bit `log_pos` (end position as the header says).
    `length` counts header, body and checksum. `timestamp` is in seconds since 1970.
    """

    offset: int
    type_code: int
    length: int
    timestamp: int
    server_id: int
    log_pos: int
    flags: int

    @property
    def end(self) -> int:
        """Offset of the byte after the event."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class EventFormat:
    """What a FORMAT_DESCRIPTION event fixes for the events after it.

    `flavour` is "mysql" or "mariadb"; `version` the three numbers of `server_version`;
    `checksum_alg` None when the server predates checksums, else 0 (off) or 1 (CRC32);
    `post_header_lengths[type - 1]` as the event lists them. Inside a transaction payload
    `checksum_bytes` is 0 whatever the log says.
    """

    binlog_version: int
    server_version: str
    flavour: str
    version: tuple[int, int, int]
    header_length: int
    post_header_lengths: bytes
    checksum_alg: int | None
    checksum_bytes: int

    def post_header_length(self, type_code: int, default: int = 0) -> int:
        """The post-header length listed for a type, or `default` where none is listed."""
        if 0 < type_code <= len(self.post_header_lengths):
            return self.post_header_lengths[type_code - 1]
        return default
