"""The header of an event, and the format of the events in a part of a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

#: The number by which FORMAT_DESCRIPTION says that events end in a CRC32.
BINLOG_CHECKSUM_ALG_CRC32 = 1
#: Default of the option max_memory.
DEFAULT_MAX_MEMORY = 256 << 20
_SHARE_OF_AN_EVENT = 4  # memory contains several copies of an event while binlake decodes it
_BYTES_OF_A_COLUMN = (
    4096  # of a table: its definition, plan, types and buffers, and as much for the rest
)


class Frame(NamedTuple):
    """The common header of one event and where it lies.

    `offset` is the 64-bit byte offset of the event in its file (inside a payload: in the
    inflated payload), computed, not the 32-bit `log_pos` (the end position in the header).
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


_PERMUTED_COUNT = 22
_PERMUTED_TAIL = bytes.fromhex("0606060600041A")


def most_inflated(fmt: EventFormat | None) -> int:
    """`EventFormat.most_inflated` of the format; of the default format where there is none yet."""
    return DEFAULT_MAX_MEMORY // _SHARE_OF_AN_EVENT if fmt is None else fmt.most_inflated


@dataclass(frozen=True, slots=True)
class EventFormat:
    """The format that a FORMAT_DESCRIPTION event sets for the events after it.

    `flavour` is "mysql" or "mariadb"; `version` the three numbers of `server_version`;
    `checksum_alg` None when the server predates checksums, else 0 (off) or 1 (CRC32);
    `post_header_lengths[type - 1]` as the event lists them. Inside a transaction payload
    `checksum_bytes` is always 0. `max_memory` is the option of that name: it travels
    with the format to all that inflate events.
    """

    binlog_version: int
    server_version: str
    flavour: str
    version: tuple[int, int, int]
    header_length: int
    post_header_lengths: bytes
    checksum_alg: int | None
    checksum_bytes: int
    max_memory: int = DEFAULT_MAX_MEMORY

    @property
    def most_inflated(self) -> int:
        """The most bytes that one compressed event may inflate to: a quarter of `max_memory`."""
        return self.max_memory // _SHARE_OF_AN_EVENT

    @property
    def logs_cascades(self) -> bool:
        """Whether the log has the rows that actions of foreign keys change, as MySQL logs them since 9.6."""
        return self.flavour == "mysql" and self.version >= (9, 6, 0)

    @property
    def most_table_columns(self) -> int:
        """The limit on the columns of tables that a read keeps in memory."""
        return self.max_memory // _BYTES_OF_A_COLUMN

    @property
    def has_permuted_types(self) -> bool:
        """Whether the log is from a 5.1 alpha tree with other numbers for the types 16 to 22.

        Some 5.1 and 5.2 alpha trees (5.2.2-a_drop6p13 among others) numbered the types from 16 on
        differently. Their servers recognise each other by a list of version strings; the array of
        post-header lengths, which is permuted with them, shows it as well.
        """
        lengths = self.post_header_lengths
        return len(lengths) == _PERMUTED_COUNT and lengths.endswith(_PERMUTED_TAIL)

    def table_id_bytes(self, type_code: int) -> int:
        """Bytes of the table id in a TABLE_MAP or rows event, by the type in its header.

        4 in logs of 5.1 alphas, whose post-headers have 6 bytes; else 6.
        """
        return 4 if self.has_permuted_types or self.post_header_length(type_code) == 6 else 6

    def post_header_length(self, type_code: int, default: int = 0) -> int:
        """The post-header length listed for a type, or `default` where none is listed."""
        if 0 < type_code <= len(self.post_header_lengths):
            return self.post_header_lengths[type_code - 1]
        return default
