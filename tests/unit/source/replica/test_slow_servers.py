"""Servers that send byte by byte: each answer, and each packet of a stream, ends with an error in bounded time."""

from __future__ import annotations

import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat

import pytest

pytest.importorskip("pymysql")

from binlake.errors import BinlogError, ConnectionLostError, ServerError
from binlake.source.replica.answers import AnswerLimits
from binlake.source.replica.commands import BinlogDump
from binlake.source.replica.connection import connect
from binlake.source.replica.follower import Follower, FollowOptions
from binlake.source.replica.receiver import (
    COMPRESSED_HEADER,
    CompressedReceiver,
    PlainReceiver,
    Receiver,
    SilenceError,
)
from binlake.source.replica.stream import Block
from binlake.source.replica.url import ServerUrl
from binlake.values.position import Position
from support.logs.log_builder import LogBuilder
from support.servers.fake_server import Conversation, fake_server, greeting
from support.servers.fake_source import NAME, source

MOST_S = 60  # of a test whose limit is half a second or one, on a busy machine


def drip(sock: socket.socket, data: Iterator[bytes], pause_s: float = 0.02) -> None:
    """Send piece by piece until the peer has gone."""
    ends = time.monotonic() + 60
    with suppress(OSError):
        for piece in data:
            if time.monotonic() > ends:
                return
            sock.sendall(piece)
            time.sleep(pause_s)


def bytes_of(data: bytes) -> Iterator[bytes]:
    return (bytes([one]) for one in data)


@contextmanager
def dripping(pieces: Iterator[bytes], pause_s: float = 0.02) -> Iterator[socket.socket]:
    one, other = socket.socketpair()
    thread = threading.Thread(target=drip, args=(other, pieces, pause_s), daemon=True)
    with one, other:
        thread.start()
        yield one
        one.shutdown(socket.SHUT_RDWR)
    thread.join(MOST_S)


def refused_in_time(read: Callable[[], object], words: str) -> None:
    begun = time.monotonic()
    with pytest.raises(BinlogError, match=words):
        read()
    assert time.monotonic() - begun < MOST_S


def test_a_greeting_byte_by_byte() -> None:
    def talk(talk: Conversation) -> None:
        packet = len(greeting()).to_bytes(3, "little") + b"\0" + greeting()
        drip(talk.sock, bytes_of(packet), 0.5)

    with fake_server(talk) as (port, _):
        url = f"mysql://ada:pw@127.0.0.1:{port}/?option-file=none&connect-timeout=1"
        refused_in_time(lambda: connect(ServerUrl.parse(url)), "took too long|nothing arrived")


def test_a_tls_handshake_byte_by_byte() -> None:
    """Each byte would begin the time limit of a read again; the handshake has one."""

    def talk(talk: Conversation) -> None:
        talk.send(greeting(capabilities=0xC1FFFFFF & ~0x01000000))
        talk.hear()
        drip(talk.sock, bytes_of(b"\x16\x03\x03\x40\0\x02\0\x3f\xfc\x03\x03" + bytes(1 << 14)), 0.1)

    with fake_server(talk) as (port, _):
        url = f"mysql://ada:pw@127.0.0.1:{port}/?option-file=none&connect-timeout=1&ssl-mode=required"  # fmt: skip
        refused_in_time(lambda: connect(ServerUrl.parse(url)), r"timed out|took too long")


def follow(port: int, dead_after_s: float) -> bytes:
    url = ServerUrl.parse(f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none")
    options = FollowOptions.of(url, dead_after_s=dead_after_s, backoff_s=0.01, attempts=1)
    with Follower(url, Position("", NAME, 4), options, lambda _line: None) as follower:
        return b"".join(item.data for item in follower if isinstance(item, Block))


def made() -> LogBuilder:
    log = LogBuilder()
    log.transaction(b"x" * 5000, gtid=None)
    return log


def test_an_event_byte_by_byte() -> None:
    def slow(conversation: Conversation, packets: bytes) -> None:
        at = len(packets) // 2  # inside of the long event
        conversation.sock.sendall(packets[:at])
        drip(conversation.sock, bytes_of(packets[at:]))

    asked: list[BinlogDump] = []
    with fake_server(source(made(), [slow] * 9, asked)) as (port, _):
        refused_in_time(lambda: follow(port, 2.0), r"only .* bytes of a packet arrived in")
    assert len(asked) == 2  # it was tried again


def test_a_slow_event_that_is_fast_enough_is_read() -> None:
    """It takes longer than the limit on silence."""
    pieces = repeat(b"x" * 100, 200)
    with dripping(pieces, 0.02) as sock:
        receiver = PlainReceiver(sock)
        receiver.timeout, receiver.least_bytes_s = 3.0, 100
        begun = time.monotonic()
        assert len(receiver.take(20_000)) == 20_000
        assert time.monotonic() - begun > 3.0


def test_a_consumer_that_works_for_long_does_not_make_the_server_slow() -> None:
    with dripping(iter([b"abc", b"d" * 100]), 0.0) as sock:
        receiver = PlainReceiver(sock)
        receiver.timeout, receiver.least_bytes_s = 0.2, 1 << 20
        receiver.fill()
        time.sleep(0.5)
        assert len(receiver.take(103)) == 103


def take_in_pieces(receiver: Receiver) -> None:
    """Receive bytes in the way of a stream: take the bytes that have arrived, wait a moment, then block."""
    while True:
        if not receiver.fill_at_once() and not receiver.is_readable(0.01):
            receiver.fill()


def compressed(payload: bytes) -> bytes:
    packed = zlib.compress(payload)
    head = COMPRESSED_HEADER.pack(len(packed), 0, 0, len(payload), 0)
    return head + packed


def test_a_compressed_packet_byte_by_byte() -> None:
    with dripping(bytes_of(compressed(bytes(1 << 15)) * 9)) as sock:
        receiver = CompressedReceiver(sock, "zlib")
        receiver.timeout, receiver.least_bytes_s = 2.0, 1024
        with pytest.raises(SilenceError, match="only"):
            take_in_pieces(receiver)


def test_a_packet_of_many_small_compressed_packets() -> None:
    with dripping(repeat(compressed(b"x"))) as sock:
        receiver = CompressedReceiver(sock, "zlib")
        receiver.timeout, receiver.least_bytes_s = 2.0, 1024
        with pytest.raises(SilenceError, match="only"):
            take_in_pieces(receiver)


def stored(payload: bytes) -> bytes:
    """A compressed packet whose payload is not compressed."""
    return COMPRESSED_HEADER.pack(len(payload), 0, 0, 0, 0) + payload


def test_a_slow_compressed_packet_that_is_fast_enough_is_read() -> None:
    """It takes longer than the limit on silence."""
    packet = stored(b"x" * 10_000)
    with dripping((packet[at : at + 100] for at in range(0, len(packet), 100)), 0.02) as sock:
        receiver = CompressedReceiver(sock, "zlib")
        receiver.timeout, receiver.least_bytes_s = 1.0, 100
        begun = time.monotonic()
        while receiver.held < 10_000:
            if not receiver.fill_at_once():
                receiver.is_readable(0.1)
        assert time.monotonic() - begun > 1.0


def test_a_packet_that_is_followed_by_empty_compressed_packets() -> None:
    with dripping(chain([compressed(b"x")], repeat(stored(b"")))) as sock:
        receiver = CompressedReceiver(sock, "zlib")
        receiver.timeout, receiver.least_bytes_s = 2.0, 1024
        with pytest.raises(SilenceError, match="only"):
            receiver.take(2)


def slow_packets(packet: bytes) -> Iterator[bytes]:
    """A packet that takes a while, and another one after a pause."""
    for at in range(0, len(packet), 100):
        yield packet[at : at + 100]
        time.sleep(0.2)
    time.sleep(0.8)
    yield packet


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_pause_after_a_slow_packet_begins_when_the_packet_is_here(is_compressed: bool) -> None:
    packet = b"x" * 600
    with dripping(slow_packets(stored(packet) if is_compressed else packet)) as sock:
        receiver = CompressedReceiver(sock, "zlib") if is_compressed else PlainReceiver(sock)
        receiver.timeout, receiver.least_bytes_s = 2.0, 1
        for _ in range(2):
            while receiver.held < len(packet):
                if not receiver.fill_at_once():
                    receiver.is_readable(0.01)
            receiver.take(len(packet))


def test_a_row_of_a_table_byte_by_byte() -> None:
    from binlake.source.replica import prepared

    def talk(talk: Conversation) -> None:
        talk.login()
        for answer in (b"\0\0\0\2\0\0\0", b"\0" + struct.pack("<IHHBH", 1, 0, 0, 0, 0)):
            talk.hear()
            talk.send(answer, 1)
        talk.hear()
        drip(talk.sock, repeat(b"\1"))

    with fake_server(talk) as (port, _):
        url = f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none&read-timeout=2"
        with connect(ServerUrl.parse(url)) as server:
            rows = prepared.query_rows(server, "SELECT 1", [], prepared.BatchLimits())
            begun = time.monotonic()
            with pytest.raises((ServerError, ConnectionLostError)):
                list(rows)
            assert time.monotonic() - begun < MOST_S


def test_rows_of_a_slow_scan_are_read() -> None:
    """Each row comes before the limit on silence, but the buffer of the server always ends inside of a row."""
    from binlake.source.replica import prepared

    def talk(talk: Conversation) -> None:
        talk.login()
        for answer in (b"\0\0\0\2\0\0\0", b"\0" + struct.pack("<IHHBH", 1, 0, 0, 0, 0)):
            talk.hear()
            talk.send(answer, 1)
        talk.hear()
        talk.send(b"\0", 1)
        talk.send(b"\xfe\0\0\2\0", 2)
        rows = b"\2\0\0\2\0\0" * 20 + b"\5\0\0\3\xfe\0\0\2\0"
        drip(talk.sock, (rows[max(0, at - 3) : at + 3] for at in range(0, len(rows), 6)), 0.15)
        talk.hear()

    with fake_server(talk) as (port, _):
        url = f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none&read-timeout=2"
        with connect(ServerUrl.parse(url), AnswerLimits(seconds=5)) as server:
            rows = prepared.query_rows(server, "SELECT 1", [], prepared.BatchLimits())
            assert [buffers.count for buffers, _ in rows] == [20]
