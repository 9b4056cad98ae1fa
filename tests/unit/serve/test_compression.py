"""The compressed protocol: both directions, with our own replica, and with other clients."""

from __future__ import annotations

import resource
import socket
import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from binlake.errors import BinlogError, ServerError
from binlake.serve.compression import Compression
from binlake.source.replica.connection import connect
from binlake.source.replica.follower import Block, Follower, FollowOptions
from binlake.source.replica.receiver import COMPRESSED_HEADER, CompressedReceiver
from binlake.source.replica.url import ServerUrl
from binlake.values.position import Position
from support.logs.log_builder import LogBuilder
from support.servers.serving import PASSWORD, SECONDS, USER, client, eventually, rows, serving

BOTH = pytest.mark.parametrize("algorithm", ["zlib", "zstd"])


def receiving(data: bytes) -> Callable[[int], bytes]:
    left = memoryview(data)

    def receive(count: int) -> bytes:
        nonlocal left
        if len(left) < count:
            raise EOFError
        taken, left = bytes(left[:count]), left[count:]
        return taken

    return receive


def compressed(data: bytes, size: int, sequence: int = 0) -> bytes:
    head = COMPRESSED_HEADER.pack(
        len(data) & 0xFFFF, len(data) >> 16, sequence, size & 0xFFFF, size >> 16
    )
    return head + data


def zstd_claiming(size: int) -> bytes:
    """A zstd frame whose header says that it holds so many bytes."""
    return b"\x28\xb5\x2f\xfd" + bytes([0xE0]) + struct.pack("<Q", size) + b"\x01\0\0"


@BOTH
@given(pieces=st.lists(st.binary(max_size=3000) | st.just(b"x" * 2_500_000), max_size=6))
@settings(max_examples=30, deadline=None)
def test_compressed_packets_round_trip(algorithm: str, pieces: list[bytes]) -> None:
    sender, taker = Compression(algorithm), Compression(algorithm)
    receive = receiving(b"".join(sender.packed(piece) for piece in pieces))
    for piece in pieces:
        half = len(piece) // 2
        assert taker.take(half, receive, 1 << 22) == piece[:half]
        assert taker.take(len(piece) - half, receive, 1 << 22) == piece[half:]
    assert taker.held == 0


@BOTH
@pytest.mark.parametrize(
    "size_and_data",
    [
        (4000, b"no compressed data"),
        (4000, zlib.compress(bytes(3999))),
        (3999, zlib.compress(bytes(4000))[:-8]),
        (4000, zstandard.compress(bytes(3999))),
        (4000, zstd_claiming(1 << 40)),
        (4000, zstd_claiming((1 << 64) - 3)),
        (4000, zstd_claiming(5000)),
        (10, zstandard.compress(bytes(1 << 26))),
        ((1 << 24) - 1, zlib.compress(b"")),
    ],
    ids=range(9),
)
def test_malformed_packets_are_refused_without_allocation(
    algorithm: str, size_and_data: tuple[int, bytes]
) -> None:
    """Refused, by `serve` and by our replica, and no memory is taken for what they promise."""
    size, data = size_and_data
    packet = compressed(data, size)
    tracemalloc.start()
    try:
        with pytest.raises(ServerError):
            Compression(algorithm).take(10, receiving(packet), 1 << 16)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(packet)
            receiver = CompressedReceiver(ours, algorithm)
            receiver.timeout = SECONDS
            with pytest.raises(ServerError, match="compressed packet"):
                receiver.take(10)
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 8 << 20  # KB


def log_of(size: int) -> bytes:
    log = LogBuilder()
    for number in range(size):
        log.transaction(bytes([number & 0xFF]) * (1 + number * 37 % 5000), gtid=None)
    log.transaction(bytes(17 << 20), gtid=None)
    return log.bytes()


@BOTH
def test_our_replica_of_serve(algorithm: str, tmp_path: Path) -> None:
    """More packets than a sequence number counts, and events of more than one packet."""
    data = log_of(3000)
    (tmp_path / "binlog.000001").write_bytes(data)
    with serving(tmp_path) as server:
        host, port = server.address
        url = ServerUrl.parse(
            f"mysql://{USER}:{PASSWORD}@{host}:{port}/?compress={algorithm}&option-file=none"
        )
        options = FollowOptions.of(url, until_current=True, attempts=0)
        with Follower(url, Position("", "binlog.000001", 4), options) as follower:
            got = b"".join(item.data for item in follower if isinstance(item, Block))
        assert b"\xfebin" + got == data
        said = server.said  # type: ignore[attr-defined]
        assert any(line.endswith(f"compressed by {algorithm}") for line in said)


def test_a_bomb_after_the_login(tmp_path: Path) -> None:
    """A logged-in client cannot make the server use much memory, and other clients are not affected."""
    (tmp_path / "binlog.000001").write_bytes(log_of(1)[: 1 << 20])
    with serving(tmp_path) as server:
        for packet in (
            compressed(zlib.compress(bytes((1 << 24) - 1)), (1 << 24) - 1),
            compressed(b"\xff" * 100, 4000),
            compressed(zlib.compress(bytes(4000)), 100),
        ):
            host, port = server.address
            url = f"mysql://{USER}:{PASSWORD}@{host}:{port}/?compress=zlib&option-file=none"
            with connect(ServerUrl.parse(url)) as connection:
                sock = connection.driver._sock
                sock.sendall(packet)
                answer = b""
                with suppress(ConnectionError):
                    while part := sock.recv(4096):
                        answer += part
                assert b"08S01" in answer
        with client(server) as connection:
            assert rows(connection, "SELECT 1")


def test_a_command_byte_by_byte_has_one_deadline(tmp_path: Path) -> None:
    """A logged-in client must also finish its packets in time."""
    (tmp_path / "binlog.000001").write_bytes(log_of(1)[: 1 << 20])
    with serving(tmp_path, idle_seconds=1) as server:
        began = time.monotonic()
        with client(server) as connection, suppress(ConnectionError):
            while time.monotonic() - began < SECONDS:
                connection._sock.sendall(b"\x01")
                time.sleep(0.1)
        assert time.monotonic() - began < SECONDS / 2
        eventually(lambda: not server._open, "it was gone")


def test_a_level_that_would_keep_us_busy() -> None:
    began = time.process_time()
    data = bytes(range(256)) * 4096
    for level in (0, 3, 22, 255):
        packed = Compression("zstd", level).packed(data)
        assert Compression("zstd").take(len(data), receiving(packed), 1 << 22) == data
    assert time.process_time() - began < 5


@BOTH
@given(noise=st.binary(max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_refused_or_end(algorithm: str, noise: bytes) -> None:
    with suppress(BinlogError, EOFError):
        Compression(algorithm).take(8, receiving(noise), 1 << 16)
