"""The protocol between replicas and sources besides events: commands, and answers of a source.

The module has both directions: a client encodes and decodes what `serve` decodes and encodes.
Layouts: MySQL sql/rpl_source.cc and sql-common/client.cc, MariaDB sql/sql_repl.cc. All integers
little-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from binlake.errors import MalformedError, ServerError
from binlake.format.magic import FIRST_EVENT
from binlake.values.gtid import GtidSet

COM_BINLOG_DUMP = 0x12
COM_REGISTER_SLAVE = 0x15
COM_BINLOG_DUMP_GTID = 0x1E

#: BinlogDump flag: at the end of the log send an EOF packet instead of waiting.
NON_BLOCK = 0x01
#: BinlogDump flag of MySQL (8.0.26): send HEARTBEAT_LOG_EVENT_V2.
BINLOG_SEND_HEARTBEAT_V2 = 0x02
#: BinlogDump flag of MariaDB: send ANNOTATE_ROWS events.
BINLOG_SEND_ANNOTATE_ROWS = 0x02

#: The first byte of what semi-synchronous replication adds: behind the status byte of an event,
#: and of an acknowledgement.
SEMI_SYNC_MAGIC = 0xEF
#: The byte after it, from the source: an acknowledgement is waited for.
ACK_FLAG = 0x01

_DUMP = struct.Struct("<IHI")
_REGISTRATION_TAIL = struct.Struct("<HII")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_MAX_TEXT = 255


@dataclass(frozen=True, slots=True)
class Registration:
    """COM_REGISTER_SLAVE: how the source lists a replica. `rank` and `source_id` are 0 from all
    clients.
    """

    server_id: int
    host: str = ""
    user: str = ""
    password: str = ""
    port: int = 0
    rank: int = 0
    source_id: int = 0

    def encode(self) -> bytes:
        """The payload after the command byte. Texts of more than 255 bytes are cut."""
        texts = b"".join(
            bytes([len(raw)]) + raw
            for raw in (text.encode()[:_MAX_TEXT] for text in (self.host, self.user, self.password))
        )
        tail = _REGISTRATION_TAIL.pack(self.port, self.rank, self.source_id)
        return _U32.pack(self.server_id) + texts + tail

    @classmethod
    def decode(cls, payload: bytes) -> Registration:
        """Raises MalformedError."""
        reader = _Reader(payload)
        server_id = reader.number(4, "server_id")
        host, user, password = (
            reader.take(reader.number(1, name), name).decode("utf-8", "replace")
            for name in ("host", "user", "password")
        )
        return cls(
            server_id, host, user, password,
            reader.number(2, "port"), reader.number(4, "rank"), reader.number(4, "source_id"),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class BinlogDump:
    """COM_BINLOG_DUMP: send a log from `offset` (at most 2**32 - 1) on; `file` "" is the first
    one, or with MariaDB's connect state the one in which it lies.
    """

    server_id: int
    file: str
    offset: int
    flags: int = 0

    def encode(self) -> bytes:
        """The payload after the command byte."""
        return _DUMP.pack(self.offset, self.flags, self.server_id) + self.file.encode()

    @classmethod
    def decode(cls, payload: bytes) -> BinlogDump:
        """Raises MalformedError."""
        reader = _Reader(payload)
        offset = reader.number(4, "offset")
        flags = reader.number(2, "flags")
        server_id = reader.number(4, "server_id")
        return cls(server_id, reader.rest().rstrip(b"\0").decode("utf-8", "replace"), offset, flags)


@dataclass(frozen=True, slots=True)
class BinlogDumpGtid:
    """COM_BINLOG_DUMP_GTID of MySQL: send what is not in `gtids`, from the file that begins with
    it (`file` "" and `offset` 4), or from a place on.
    """

    server_id: int
    gtids: GtidSet
    file: str = ""
    offset: int = FIRST_EVENT
    flags: int = 0

    def encode(self) -> bytes:
        """The payload after the command byte; a set with tags is for servers from 8.3 on."""
        name, data = self.file.encode(), self.gtids.encode()
        head = struct.pack("<HII", self.flags, self.server_id, len(name))
        return head + name + _U64.pack(self.offset) + _U32.pack(len(data)) + data

    @classmethod
    def decode(cls, payload: bytes) -> BinlogDumpGtid:
        """Raises FormatError."""
        reader = _Reader(payload)
        flags = reader.number(2, "flags")
        server_id = reader.number(4, "server_id")
        name = reader.take(reader.number(4, "name length"), "file").decode("utf-8", "replace")
        offset = reader.number(8, "offset")
        data = reader.take(reader.number(4, "data length"), "gtids")
        return cls(server_id, GtidSet.decode(data), name.rstrip("\0"), offset, flags)


@dataclass(frozen=True, slots=True)
class Ack:
    """The acknowledgement of semi-synchronous replication: all before `offset` of `file` is safe."""

    file: str
    offset: int

    def encode(self) -> bytes:
        """The payload of a packet with sequence 0."""
        return bytes([SEMI_SYNC_MAGIC]) + _U64.pack(self.offset) + self.file.encode()

    @classmethod
    def decode(cls, payload: bytes) -> Ack:
        """Raises MalformedError."""
        reader = _Reader(payload)
        if reader.number(1, "magic") != SEMI_SYNC_MAGIC:
            raise MalformedError("not a semi-synchronous acknowledgement", field="magic")
        offset = reader.number(8, "offset")
        return cls(reader.rest().decode("utf-8", "replace"), offset)


def error_of(payload: bytes | memoryview) -> ServerError:
    """The content of an ERR packet: code, SQL state, one line of text."""
    raw = bytes(payload)
    code = int.from_bytes(raw[1:3], "little")
    state, text = "", raw[3:]
    if text[:1] == b"#":
        state, text = text[1:6].decode("ascii", "replace"), text[6:]
    said = " ".join(text.decode("utf-8", "replace").split())[:2000]
    return ServerError(said or f"error {code}", code=code, sqlstate=state or None)


class _Reader:
    """Little-endian reads of one payload."""

    def __init__(self, payload: bytes) -> None:
        self._data = payload
        self._pos = 0

    def take(self, size: int, field: str) -> bytes:
        if size > len(self._data) - self._pos:
            raise MalformedError("a command ends too early", field=field, offset=self._pos)
        self._pos += size
        return self._data[self._pos - size : self._pos]

    def number(self, size: int, field: str) -> int:
        return int.from_bytes(self.take(size, field), "little")

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._pos, "file")
