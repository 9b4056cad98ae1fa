"""FORMAT_DESCRIPTION_EVENT (15): how all events after it are read.

Source: libs/mysql/binlog/event/control_events.cpp, Format_description_event; MariaDB
sql/log_event.cc, Format_description_log_event. Since 5.0. Its header
always has 19 bytes.
Body:
    2   binlog_version        4
    50  server_version        padded with zero bytes
    4   created               not 0 only in the first file after a server start
    1   header_length         of all other events; 19 so far
    n   post_header_lengths   entry type - 1
    1   checksum_alg          servers that know checksums: 0 off, 1 CRC32
    4   CRC                   the same servers, also when the algorithm is 0
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from binlake.errors import MalformedError, UnsupportedError
from binlake.events.base import HIDDEN, Event, text_or_hex
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.format import event_types as types
from binlake.format.event_header import CHECKSUM_BYTES, HEADER_BYTES
from binlake.values.frame import BINLOG_CHECKSUM_ALG_CRC32, EventFormat, Frame

#: Bytes of the server's version, which zero bytes fill up.
SERVER_VERSION_BYTES = 50

_CHECKSUM_OFF = 0

# The first servers that write an algorithm byte and a CRC.
_FIRST_WITH_CHECKSUM = {"mysql": (5, 6, 1), "mariadb": (5, 3, 0)}

# For formats with permuted types, see EventFormat.
_PERMUTATION = {
    16: types.TABLE_MAP_EVENT,
    17: types.PRE_GA_WRITE_ROWS_EVENT,
    18: types.PRE_GA_UPDATE_ROWS_EVENT,
    19: types.PRE_GA_DELETE_ROWS_EVENT,
    20: types.XID_EVENT,
    21: types.BEGIN_LOAD_QUERY_EVENT,
    22: types.EXECUTE_LOAD_QUERY_EVENT,
}
_PERMUTED = {today: number for number, today in _PERMUTATION.items()}

_PRE_RELEASE_TYPES = 22
_VERSION = re.compile(r"(\d+)\.(\d*)\.?(\d*)")


@dataclass(slots=True)
class FormatDescriptionEvent(Event):
    """The server, and the layout of the events after this one (`format()` as a value).

    `created` is in seconds since 1970, 0 unless the server had just started. `checksum_alg`
    is None for servers without checksums. `checksum` is the stored CRC32; None if the event has
    none or the body was passed without it.
    """

    renders = {"server_version_raw": HIDDEN}
    extra_fields = ("server_version", "flavour")

    binlog_version: int
    server_version_raw: bytes
    created: int
    header_length: int
    post_header_lengths: bytes
    checksum_alg: int | None
    checksum: int | None

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None = None) -> Self:
        """Decode the body, with or without its CRC; the length of the frame decides which."""
        binlog_version = reader.u16("binlog_version")
        if binlog_version != 4:
            raise UnsupportedError(f"unknown binary log version {binlog_version}", offset=0)
        version_raw = reader.take("server_version", SERVER_VERSION_BYTES)
        created = reader.u32("created")
        header_length = reader.u8("header_length")
        if header_length < HEADER_BYTES:
            raise MalformedError(
                f"event headers cannot have {header_length} bytes", offset=reader.pos - 1
            )
        checksum_alg: int | None = None
        checksum: int | None = None
        with_checksum = _has_checksum(version_text(version_raw))
        has_crc = reader.body.nbytes >= frame.length - HEADER_BYTES
        tail_bytes = (1 + CHECKSUM_BYTES * has_crc) if with_checksum else 0
        lengths = reader.take("post_header_lengths", reader.left - tail_bytes)
        if with_checksum:
            checksum_alg = reader.u8("checksum_alg")
            if checksum_alg not in (_CHECKSUM_OFF, BINLOG_CHECKSUM_ALG_CRC32):
                raise UnsupportedError(
                    f"unknown checksum algorithm {checksum_alg}", offset=reader.pos - 1
                )
            checksum = reader.u32("checksum") if has_crc else None
        return cls(
            frame, binlog_version, version_raw, created, header_length, lengths,
            checksum_alg, checksum,
        )  # fmt: skip

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        """The body without its checksum, which counts the header too."""
        writer.u16("binlog_version", self.binlog_version)
        writer.take("server_version", SERVER_VERSION_BYTES, self.server_version_raw)
        writer.u32("created", self.created)
        writer.u8("header_length", self.header_length)
        writer.rest("post_header_lengths", self.post_header_lengths)
        if self.checksum_alg is not None:
            writer.u8("checksum_alg", self.checksum_alg)

    @property
    def server_version(self) -> str:
        """The server version as logged, for example `8.4.3` or `11.8.2-MariaDB-log`."""
        return version_text(self.server_version_raw)

    @property
    def flavour(self) -> str:
        """The server family that wrote the log: `mariadb`, or `mysql` for MySQL and its other forks."""
        return _flavour(self.server_version)

    def format(self) -> EventFormat:
        """The format of all events after this one, until the next."""
        return EventFormat(
            binlog_version=self.binlog_version,
            server_version=self.server_version,
            flavour=self.flavour,
            version=version_numbers(self.server_version),
            header_length=self.header_length,
            post_header_lengths=self.post_header_lengths,
            checksum_alg=self.checksum_alg,
            checksum_bytes=CHECKSUM_BYTES if self.checksum_alg == BINLOG_CHECKSUM_ALG_CRC32 else 0,
        )


def version_text(raw: bytes) -> str:
    """The server's version out of its 50 bytes."""
    return text_or_hex(raw.split(b"\0", 1)[0])


def is_pre_release(fmt: EventFormat) -> bool:
    """Whether the log is of a pre-release of MySQL 5.1 that does not describe the columns of tables.

    Those write 22 types, in any numbering; 5.1.17 was the last.
    """
    return len(fmt.post_header_lengths) == _PRE_RELEASE_TYPES and fmt.version >= (5, 1, 0)


def effective_type(type_code: int, fmt: EventFormat) -> int:
    """The type, in today's numbering, of an event whose header says `type_code`.

    Counts of events are by the header's number; decoding goes by this one.
    """
    if fmt.has_permuted_types:
        return _PERMUTATION.get(type_code, type_code)
    return type_code


def wire_type(type_code: int, fmt: EventFormat | None) -> int:
    """The opposite of `effective_type`: the number that a header of this format has."""
    if fmt is not None and fmt.has_permuted_types:
        return _PERMUTED.get(type_code, type_code)
    return type_code


def _has_checksum(server_version: str) -> bool:
    """Whether this server writes an algorithm byte and a CRC in this event."""
    return version_numbers(server_version) >= _FIRST_WITH_CHECKSUM[_flavour(server_version)]


def _flavour(server_version: str) -> str:
    if "MariaDB" in server_version or "-maria-" in server_version:
        return "mariadb"
    return "mysql"


def version_numbers(server_version: str) -> tuple[int, int, int]:
    """Split a version into three numbers below 256, as the servers do; 0.0.0 if that fails."""
    found = _VERSION.match(server_version)
    if found is None:
        return (0, 0, 0)
    major, minor, patch = (int(digits[:9] or "0") for digits in found.groups())
    if max(major, minor, patch) > 255:
        return (0, 0, 0)
    return (major, minor, patch)


def table_id_bytes(type_code: int, fmt: EventFormat | None) -> int:
    """Bytes of the table id in a TABLE_MAP or rows event; of no format, today's 6."""
    return 6 if fmt is None else fmt.table_id_bytes(type_code)
