"""`serve` under a fuzzer: an honest replica's conversation with changes, plain and compressed.

Each ends in time, no thread is left, nothing is printed but lines of ours, and others are served.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress

import pytest

pytest.importorskip("pymysql")

from binlake.format.auth_plugins import NATIVE
from binlake.serve.passwords import _expected
from binlake.serve.server import BinlogServer
from binlake.source.replica.commands import BinlogDump, BinlogDumpGtid, Registration
from binlake.source.replica.receiver import COMPRESSED_HEADER
from binlake.values.gtid import GtidSet
from support.logs.log_builder import LogBuilder
from support.logs.mutations import mutated_packet
from support.servers.serving import (
    CHECKSUMS,
    PASSWORD,
    SECONDS,
    USER,
    client,
    eventually,
    rows,
    serving,
)

CASES = int(os.environ.get("BINLAKE_FUZZ_CASES", "0")) // 10 or 150
CAPABILITIES = 0x200 | 0x8000 | 0x80000
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
QUERIES = (
    "SELECT @@GLOBAL.server_id", CHECKSUMS, "SHOW BINARY LOGS", "SHOW VARIABLES LIKE 'server%'",
    "SET @slave_connect_state='0-1-1'", "SELECT BINLOG_GTID_POS('binlog.000001', 4)", "KILL 99",
    "SELECT 'a', 1, @@version AS v", "SET @source_heartbeat_period=1, @slave_uuid='x'",
)  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BinlogServer]:
    folder = tmp_path_factory.mktemp("fuzzed")
    log = LogBuilder()
    for number in range(5):
        log.transaction(bytes([number]) * 400)
    (folder / "binlog.000001").write_bytes(log.bytes())
    with serving(folder, handshake_seconds=2, idle_seconds=2, write_seconds=2) as server:
        yield server


def packet(payload: bytes, sequence: int = 0) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([sequence]) + payload


def compressed(data: bytes, sequence: int, rng: random.Random) -> bytes:
    """A compressed packet; sometimes what it says of itself is wrong."""
    inside = zlib.compress(data)
    size = len(data) if rng.random() < 0.8 else rng.choice((0, 1, 1 << 22, (1 << 24) - 1))
    if rng.random() < 0.1:
        inside = zlib.compress(bytes(rng.choice((1 << 16, 5 << 20))))
    head = COMPRESSED_HEADER.pack(
        len(inside) & 0xFFFF, len(inside) >> 16, sequence, size & 0xFFFF, size >> 16
    )
    return head + inside


def commands(rng: random.Random) -> Iterator[bytes]:
    for _ in range(rng.randrange(4)):
        yield b"\x03" + rng.choice(QUERIES).encode()
    if rng.random() < 0.5:
        yield b"\x15" + Registration(rng.randrange(1 << 32), "host", "user", "", 3306).encode()
    match rng.randrange(4):
        case 0:
            yield b"\x12" + BinlogDump(7, "binlog.000001", 4, 1).encode()
        case 1:
            wanted = GtidSet.parse(f"{UUID}:1-{rng.randrange(1, 9)}")
            yield b"\x1e" + BinlogDumpGtid(7, wanted, flags=1).encode()
        case 2:
            yield bytes([rng.randrange(256)]) + rng.randbytes(rng.randrange(60))
        case _:
            yield b"\x01"


def converse(sock: socket.socket, rng: random.Random) -> None:
    sock.settimeout(SECONDS)
    greeting = sock.recv(1 << 10)
    version_end = greeting.index(b"\0", 5)
    nonce = greeting[version_end + 5 : version_end + 13]
    nonce += greeting[version_end + 32 : version_end + 44]
    is_compressed = rng.random() < 0.4
    flags = CAPABILITIES | (0x20 if is_compressed else 0)
    answer = _expected(NATIVE, PASSWORD.encode(), nonce)
    login = struct.pack("<IIB23x", flags, 1 << 24, 45) + USER.encode() + b"\0"
    login += bytes([len(answer)]) + answer + NATIVE.encode() + b"\0"
    out = packet(login, 1)
    if rng.random() < 0.2:
        out = mutated_packet(out, rng)
    sock.sendall(out)
    for sequence, command in enumerate(commands(rng)):
        out = packet(command)
        if rng.random() < 0.5:
            out = mutated_packet(out, rng)
        sock.sendall(compressed(out, sequence & 0, rng) if is_compressed else out)
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(1 << 16):
        pass


@pytest.mark.parametrize("part", range(3))
def test_a_conversation_that_is_changed(shared: BinlogServer, part: int) -> None:
    for seed in range(part, CASES, 3):
        with (
            suppress(OSError),
            socket.create_connection(shared.address, timeout=SECONDS) as connection,
        ):
            converse(connection, random.Random(seed))
    lines = shared.said  # type: ignore[attr-defined]
    assert [line for line in lines if "internal error" in line] == []
    eventually(lambda: not shared._open, "all connections have ended")
    eventually(
        lambda: not [t for t in threading.enumerate() if t.name.startswith("replica-")], "threads"
    )
    with client(shared) as connection:
        assert rows(connection, "SELECT 1")


def test_the_conversation_itself_is_honest(shared: BinlogServer) -> None:
    """Unchanged, it logs in: else only logins would be tried."""
    before = len(shared.said)  # type: ignore[attr-defined]
    with (
        pytest.MonkeyPatch.context() as patch,
        socket.create_connection(shared.address, timeout=SECONDS) as connection,
    ):
        patch.setattr(sys.modules[__name__], "mutated_packet", lambda data, _: data)
        converse(connection, random.Random(4))
    eventually(lambda: any(" connected" in line for line in shared.said[before:]), "the login")  # type: ignore[attr-defined]
