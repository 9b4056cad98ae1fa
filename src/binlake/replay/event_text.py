"""The common text of all events: the line of the header, hex dumps, BINLOG statements.

Text is bytes here: statements and values are in the character sets of their sessions and columns.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from binlake.format.event_header import (
    CHECKSUM_BYTES,
    FLAGS_AT,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_POS_AT,
    SERVER_ID_AT,
    TIMESTAMP_AT,
    TYPE_AT,
    U32,
)

#: Ends a statement, since statements may hold semicolons.
DELIMITER = b"/*!*/;"
#: Ends a statement and its line.
END = DELIMITER + b"\n"
_DUMP_BYTES = 16


class Base64(StrEnum):
    """When row changes are printed as BINLOG statements (--base64-output)."""

    AUTO = "auto"  # rows and what they need
    NEVER = "never"  # no row changes
    DECODE_ROWS = "decode-rows"  # pseudo-SQL comments only: nothing is replayed


@dataclass(frozen=True, slots=True)
class TextLimits:
    """How much of the text of rows is in memory, in bytes.

    `decoded`: rows with the text that they become, before that is written; `window`: the comments of a whole
    window; `recorded`: the first part of an event's text, of which the words that may occur again are learned.
    """

    decoded: int = 16 << 20
    window: int = 32 << 20
    recorded: int = 1 << 20


@dataclass(frozen=True, slots=True)
class TextOptions:
    """The options for printing the chosen events, by the names that the servers' tools give it.

    `verbose` counts -v. `databases` are those shown (all when empty); `rewrite_db` maps old names to
    new ones. `local_load` is the folder for the files of LOAD DATA. `restores_gtid_variables`: at the
    end, MariaDB's session gets its own server and domain back. `limits` bound the memory for the text.
    """

    base64_output: Base64 = Base64.AUTO
    verbose: int = 0
    hexdump: bool = False
    short_form: bool = False
    skip_gtids: bool = False
    skip_annotate_row_events: bool = False
    print_row_count: bool = True
    print_table_metadata: bool = False
    idempotent: bool = False
    disable_log_bin: bool = False
    set_charset: str | None = None
    databases: frozenset[str] = frozenset()
    rewrite_db: dict[str, str] = field(default_factory=dict)
    local_load: str | None = None
    restores_gtid_variables: bool = False
    limits: TextLimits = field(default_factory=TextLimits)

    @property
    def prints_base64(self) -> bool:
        """Whether BINLOG statements are printed."""
        return self.base64_output is Base64.AUTO and not self.short_form

    def renamed(self, database: str) -> str:
        """The database's name after `rewrite_db`."""
        return self.rewrite_db.get(database, database)

    def shows(self, database: str) -> bool:
        """Whether `databases` includes a database.

        A statement of a session without a default database (database "") belongs to none, so
        `databases` leaves it out, as both servers' tools do.
        """
        return not self.databases or database in self.databases


def with_length(raw: bytes, checksum_bytes: int = 0) -> bytes:
    """An event (given without checksum) with its length right, which counts a checksum of so many bytes."""
    return raw[:LENGTH_AT] + U32.pack(len(raw) + checksum_bytes) + raw[LOG_POS_AT:]


def sealed(raw: bytes) -> bytes:
    """An event (given without checksum) with its length right, and a checksum."""
    sized = with_length(raw, CHECKSUM_BYTES)
    return sized + U32.pack(zlib.crc32(sized))


def clock_text(timestamp: int) -> str:
    """A time as the servers' tools write it, in the local zone."""
    local = time.localtime(timestamp)
    return f"{local.tm_year % 100:02d}{local.tm_mon:02d}{local.tm_mday:02d} {local.tm_hour:2d}:{local.tm_min:02d}:{local.tm_sec:02d}"


# --- hex dumps, from `at` on


def mysql_dump(raw: bytes, at: int) -> Iterator[bytes]:
    """The dump between the header's line and the event's own words, as MySQL's tool has it."""
    yield b"\n# Position  Timestamp   Type   Source ID        Size      Source Pos    Flags \n"
    groups = "   ".join(raw[a:b].hex(" ") for a, b in _FIELDS)
    yield f"# {at:08x} {groups}\n".encode()
    for offset in range(HEADER_BYTES, len(raw), _DUMP_BYTES):
        part = raw[offset : offset + _DUMP_BYTES]
        text = "".join(chr(b) if chr(b).isascii() and chr(b).isalnum() else "." for b in part)
        yield f"# {at + offset:08x} {_hex_columns(part):<48} |{text}|\n".encode()
    yield b"# "


def mariadb_dump(raw: bytes, at: int) -> Iterator[bytes]:
    """The dump between the header's line and the event's own words, as MariaDB's tool has it."""
    yield b"\n# Position\n"
    yield b"#           |Timestamp   |Type |Master ID   |Size        |Master Pos  |Flags\n"
    groups = [raw[a:b].hex(" ") for a, b in _FIELDS]
    groups[1] += "  "
    yield f"# {at:8x}  |{' |'.join(groups)}\n#\n".encode()
    for offset in range(HEADER_BYTES, len(raw), _DUMP_BYTES):
        part = raw[offset : offset + _DUMP_BYTES]
        text = "".join(chr(b) if 0x20 <= b < 0x7F else "." for b in part)
        yield f"# {at + offset:8x}  {_hex_columns(part):<48}  |{text}|\n".encode()
    yield b"# Event: " if len(raw) == HEADER_BYTES else b"#\n# Event: "


# Where the fields of the header begin and end.
_FIELDS = tuple(
    pairwise((TIMESTAMP_AT, TYPE_AT, SERVER_ID_AT, LENGTH_AT, LOG_POS_AT, FLAGS_AT, HEADER_BYTES))
)


def _hex_columns(part: bytes) -> str:
    return (part[:8].hex(" ") + "  " + part[8:].hex(" ")).rstrip()
