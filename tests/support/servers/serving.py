"""A `serve` in this process, and a client that sees every packet of it."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pymysql

from binlake.serve.server import BinlogServer
from binlake.serve.settings import Settings

USER, PASSWORD = "replica", "s3cret"
COM_REGISTER, COM_DUMP, COM_DUMP_GTID = 0x15, 0x12, 0x1E
NON_BLOCK = 1
SECONDS = 120  # a deadline only
CHECKSUMS = "SET @master_binlog_checksum='NONE', @mariadb_slave_capability=4"


@contextmanager
def serving(path: Path | str, **settings: Any) -> Iterator[BinlogServer]:
    """A server of the logs at `path`; `server.said` has its lines."""
    said: list[str] = []
    given = {"port": 0, "poll_seconds": 0.005, "handshake_seconds": SECONDS, **settings}
    server = BinlogServer(Settings(str(path), USER, PASSWORD, **given), said.append)
    server.said = said  # type: ignore[attr-defined]
    server.start()
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


@contextmanager
def client(server: BinlogServer, **options: Any) -> Iterator[Any]:
    """A PyMySQL connection."""
    host, port = server.address
    options = {"user": USER, "password": PASSWORD, "ssl_disabled": True, **options}
    patience = {"connect_timeout": SECONDS, "read_timeout": SECONDS}
    connection = pymysql.connect(host=host, port=port, **patience, **options)
    try:
        yield connection
    finally:
        connection._force_close()


def rows(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


class Packet(NamedTuple):
    sequence: int
    payload: bytes

    @property
    def event(self) -> bytes:
        assert self.payload[0] == 0, self.payload
        return self.payload[1:]

    @property
    def type_code(self) -> int:
        return self.event[4]


def dump(
    connection: Any,
    file: str = "",
    position: int = 4,
    *,
    flags: int = NON_BLOCK,
    server_id: int = 0,
) -> Iterator[Packet]:
    """The packets of COM_BINLOG_DUMP, to the EOF packet (left out). Raises pymysql's errors."""
    connection._execute_command(
        COM_DUMP, struct.pack("<IHI", position, flags, server_id) + file.encode()
    )
    return packets(connection)


def dump_gtid(
    connection: Any, gtids: bytes, *, flags: int = NON_BLOCK, server_id: int = 0
) -> Iterator[Packet]:
    """The bytes of a COM_BINLOG_DUMP_GTID command."""
    head = struct.pack("<HIIQI", flags, server_id, 0, 4, len(gtids))
    connection._execute_command(COM_DUMP_GTID, head + gtids)
    return packets(connection)


def packets(connection: Any) -> Iterator[Packet]:
    payload = b""
    while True:
        head = _take(connection, 4)
        part = _take(connection, int.from_bytes(head[:3], "little"))
        payload += part
        if len(part) == 0xFFFFFF:
            continue
        if payload[0] == 0xFE and len(payload) < 9:
            return
        if payload[0] == 0xFF:
            pymysql.err.raise_mysql_exception(payload)
        yield Packet(head[3], payload)
        payload = b""


def by_file(stream: Iterator[Packet]) -> dict[str, bytes]:
    """The bytes that were sent of each file, without artificial events."""
    found: dict[str, bytes] = {}
    name = ""
    for packet in stream:
        event = packet.event
        if event[4] == 4 and event[17] & 0x20:
            name = event[27:].split(b"\0")[0].decode("latin-1")
            name = next((known for known in _names(name)), name)
            found.setdefault(name, b"\xfebin")
        elif not event[17] & 0x20 and event[4] not in (27, 41):
            found[name] += event
    return found


def _names(raw: str) -> Iterator[str]:
    """A rotate's file name without the checksum that may follow it."""
    head = raw.rpartition(".")[0]
    digits = raw[len(head) + 1 :][:6]
    if digits.isdigit():
        yield f"{head}.{digits}"


def _take(connection: Any, count: int) -> bytes:
    data = connection._rfile.read(count)
    if len(data) < count:
        raise EOFError
    return bytes(data)


def eventually(condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    """Wait for something that happens in another thread or process."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen in {seconds} s")
