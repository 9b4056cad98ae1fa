"""Small logs made event by event, with right positions and checksums."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

MAGIC = b"\xfebin"
QUERY, ROTATE, FORMAT, XID, TABLE_MAP, ROWS = 2, 4, 15, 16, 19, 30
GTID, PREVIOUS_GTIDS = 33, 35
MARIADB_GTID = 162

IN_USE, ARTIFICIAL, RELAY = 0x01, 0x20, 0x40


def header(
    type_code: int, length: int, log_pos: int, flags: int = 0, timestamp: int = 1_700_000_000
) -> bytes:
    return struct.pack("<IBIIIH", timestamp, type_code, 1, length, log_pos & 0xFFFFFFFF, flags)


def event(
    type_code: int,
    body: bytes,
    offset: int,
    *,
    crc: bool = True,
    flags: int = 0,
    log_pos: int | None = None,
    header_pad: int = 0,
    timestamp: int = 1_700_000_000,
) -> bytes:
    """One event that starts at `offset` of its file (`log_pos` None: where it ends there)."""
    length = 19 + header_pad + len(body) + 4 * crc
    position = offset + length if log_pos is None else log_pos
    raw = header(type_code, length, position, flags, timestamp) + bytes(header_pad) + body
    if not crc:
        return raw
    # The checksum of a format description leaves out the flag that it is in use.
    signed = bytearray(raw)
    if type_code == FORMAT:
        signed[17] &= 0xFE
    return raw + struct.pack("<I", zlib.crc32(signed))


def format_body(
    version: str, alg: int | None, types: int = 42, header_length: int = 19, created: int = 0
) -> bytes:
    body = struct.pack("<H50sIB", 4, version.encode(), created, header_length) + bytes(types)
    return body + (b"" if alg is None else bytes([alg]))


@dataclass
class LogBuilder:
    """A log that grows by `add`. `offsets` are the starts of its events.

    `alg` None, 0 or 1 as in EventFormat.checksum_alg.
    """

    version: str = "8.0.36"
    alg: int | None = 1
    flags: int = 0
    header_length: int = 19
    created: int = 0  # not 0: the server has just started
    data: bytearray = field(default_factory=lambda: bytearray(MAGIC))
    offsets: list[int] = field(default_factory=list)
    types: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.add_format(self.version, self.alg, self.flags)

    def add_format(self, version: str, alg: int | None, flags: int = 0, **options: int) -> int:
        body = format_body(version, alg, header_length=self.header_length, created=self.created)
        self.alg = alg
        return self._append(
            FORMAT, event(FORMAT, body, len(self.data), crc=alg is not None, flags=flags, **options)
        )

    def add(self, type_code: int, body: bytes = b"", **options: int) -> int:
        pad = 0 if type_code == ROTATE else self.header_length - 19
        raw = event(type_code, body, len(self.data), crc=self.alg == 1, header_pad=pad, **options)
        return self._append(type_code, raw)

    def transaction(self, *rows: bytes, gtid: int | None = GTID) -> int:
        """GTID, BEGIN, a table map and a rows event for each of `rows`, XID."""
        start = len(self.data)
        if gtid is not None:
            self.add(gtid, bytes(42))
        self.add(QUERY, query_body(b"BEGIN"))
        for row in rows:
            self.add(TABLE_MAP, b"\x01" * 40)
            self.add(ROWS, row)
        self.add(XID, struct.pack("<Q", start))
        return start

    def _append(self, type_code: int, raw: bytes) -> int:
        self.offsets.append(len(self.data))
        self.types.append(type_code)
        self.data += raw
        return self.offsets[-1]

    def bytes(self) -> bytes:
        return bytes(self.data)


def query_body(sql: bytes, database: bytes = b"shop") -> bytes:
    return struct.pack("<IIBHH", 7, 0, len(database), 0, 0) + database + b"\0" + sql
