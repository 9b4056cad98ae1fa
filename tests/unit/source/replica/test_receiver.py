"""Receiving without waiting: what has come, all of it, and nothing that has not."""

from __future__ import annotations

import socket
import zlib
from collections.abc import Iterator

import pytest

from binlake.source.replica.receiver import (
    COMPRESSED_HEADER,
    CompressedReceiver,
    PlainReceiver,
    Receiver,
    SilenceError,
)

Sockets = tuple[socket.socket, socket.socket]


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def packed(data: bytes) -> bytes:
    """One packet of the compressed protocol."""
    small = zlib.compress(data)
    header = COMPRESSED_HEADER.pack(
        len(small) & 0xFFFF, len(small) >> 16, 0, len(data) & 0xFFFF, len(data) >> 16
    )
    return header + small


def test_fill_at_once_does_not_wait(sockets: Sockets) -> None:
    ours, theirs = sockets
    receiver = PlainReceiver(ours)
    receiver.timeout = 0.01
    assert not receiver.fill_at_once()
    assert not receiver.is_readable()
    theirs.sendall(b"one")
    assert receiver.is_readable()
    assert receiver.fill_at_once()
    assert not receiver.fill_at_once()
    assert receiver.take(3) == b"one"
    with pytest.raises(SilenceError):
        receiver.fill()  # waits as usual
    theirs.sendall(b"two")
    receiver.fill()
    assert receiver.take(3) == b"two"


@pytest.mark.parametrize("make", [PlainReceiver, lambda s: CompressedReceiver(s, "zlib")])
def test_the_end_is_reported(sockets: Sockets, make: type[Receiver]) -> None:
    ours, theirs = sockets
    theirs.close()
    with pytest.raises(EOFError):
        make(ours).fill_at_once()


def test_half_a_compressed_packet_is_nothing_yet(sockets: Sockets) -> None:
    ours, theirs = sockets
    receiver = CompressedReceiver(ours, "zlib")
    data = bytes(range(256)) * 40
    sent = packed(data) + packed(data[::-1])
    for cut in (3, 7, 20):
        theirs.sendall(sent[:cut])
        sent = sent[cut:]
        assert not receiver.fill_at_once()
        # else the caller would ask again immediately, and repeatedly
        assert not receiver.is_readable()
    theirs.sendall(sent)
    assert receiver.fill_at_once()
    assert receiver.held == len(data)
    assert receiver.is_readable()
    assert receiver.fill_at_once()
    assert receiver.take(2 * len(data)) == data + data[::-1]
    assert not receiver.fill_at_once()
