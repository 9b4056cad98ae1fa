"""The bytes that a server sends, in one big buffer, from a plain or a compressed connection.

Everything that is read from a server passes `Receiver`: the login, answers to queries, and the
events of a stream, whose packets are taken out of the buffer by the kernel `core.packets`.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable

import zstandard

from binlake.errors import ServerError

#: Header of a packet of the compressed protocol: length as sent (3), sequence (1), inflated length (3).
COMPRESSED_HEADER = struct.Struct("<HBBHB")
_LEAST_COMPRESSED = 50  # the servers do not compress shorter packets

# The socket's report that nothing has come; TLS has its own.
_NOTHING_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

_FIRST_BUFFER = 256 << 10
_RECEIVE_LEAST = 32 << 10

# How many bytes of one event each byte that has come may inflate to.
_MOST_INFLATION = 32


class SilenceError(OSError):
    """Nothing has arrived within the given time."""


class Receiver(ABC):
    """A buffer of received bytes: `data[start:end]` has not been taken yet.

    `data` may be another object after `fill`. `timeout` is how many seconds to wait for a silent
    peer (None: without a limit), `deadline` the monotonic time at which waiting ends in any case.
    `least_bytes_s` is how many bytes a second a peer has to send of a packet that has begun, 0: any number. The
    time that counts is that of waiting, not that in which the caller works.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.data = bytearray(_FIRST_BUFFER)
        self.start = 0
        self.end = 0
        self._poll: select.poll | None = None
        self.timeout: float | None = None
        self.deadline: float | None = None
        self.least_bytes_s = 0
        # since the first byte of the packet that is being received, or since the last time that it came fast enough;
        # between packets, since the end of the last one
        self._waited_s = 0.0
        self._arrived = 0

    @property
    def held(self) -> int:
        """How many bytes can be taken."""
        return self.end - self.start

    @property
    def _has_begun(self) -> bool:
        """Whether a part of a packet is here."""
        return self.held > 0

    @property
    def most_inflated(self) -> int | None:
        """The largest event that the peer may have sent by now, if it sends less than the event's
        length (compression); None: no more than the peer has sent.
        """
        return None

    @abstractmethod
    def fill(self) -> None:
        """Receive at least one more byte. Raises SilenceError, OSError, EOFError at the end."""

    @abstractmethod
    def fill_at_once(self) -> bool:
        """Receive bytes that have arrived already, without waiting; return whether there were any.
        Raises OSError, EOFError at the end.
        """

    def is_readable(self, seconds: float = 0.0) -> bool:
        """Whether bytes arrive within so many seconds; `fill_at_once` then takes them."""
        pending = getattr(self.sock, "pending", None)
        if pending is not None and pending():
            return True
        self._poll = self._poll or _poll_of(self.sock)
        begun = time.monotonic()
        found = bool(self._poll.poll(seconds * 1000))
        self._count_wait(begun)
        return found

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes. Memory is allocated as they arrive. Raises as `fill`."""
        while self.held < size:
            self.fill()
        taken = bytes(memoryview(self.data)[self.start : self.start + size])
        self.start += size
        return taken

    def grow(self, size: int) -> None:
        """Receive up to `size` bytes per call from now on."""
        if len(self.data) < size:
            self._room(size - self.held)

    def _room(self, size: int) -> None:
        """Make room for `size` bytes after `end`."""
        if self.start == self.end:
            self.start = self.end = 0
        if len(self.data) - self.end >= size:
            return
        held = self.held
        if held + size <= len(self.data) and self.start:
            self.data[:held] = self.data[self.start : self.end]
        else:
            grown = bytearray(max(2 * len(self.data), held + size))
            grown[:held] = memoryview(self.data)[self.start : self.end]
            self.data = grown
        self.start, self.end = 0, held

    def _receive(self, view: memoryview) -> int:
        """Receive into `view`; return how many bytes."""
        patience_s = self._patience()
        self.sock.settimeout(patience_s)
        begun = time.monotonic()
        try:
            count = self._received(view)
            self._count_wait(begun)
            self._count_bytes(count)
            return count
        except TimeoutError:
            self._patience()  # the deadline may have ended the wait
            raise SilenceError(f"nothing arrived for {patience_s:.3g} seconds") from None

    def _receive_at_once(self, view: memoryview) -> int:
        """Receive into `view` the bytes that have arrived, without waiting; return how many, 0 if there are none."""
        if self.sock.gettimeout() != 0:  # to set it is a system call
            self.sock.settimeout(0)
        try:
            count = self._received(view)
        except _NOTHING_YET:
            return 0
        self._count_bytes(count)
        return count

    def _received(self, view: memoryview) -> int:
        count = self.sock.recv_into(view)
        if not count:
            raise EOFError("the server has closed the connection")
        return count

    def _count_bytes(self, count: int) -> None:
        """Note bytes that have come, and are not held yet."""
        if not self._has_begun:  # a packet begins
            self._waited_s, self._arrived = 0.0, 0
        self._arrived += count

    def _count_wait(self, begun: float) -> None:
        """Note a wait since a monotonic time. Raises SilenceError if the peer sends a packet too slowly."""
        if not self.least_bytes_s or self.timeout is None:
            return
        if not self._has_begun and self._arrived:  # a packet has ended
            self._waited_s, self._arrived = 0.0, 0
        self._waited_s += time.monotonic() - begun
        if self._waited_s <= self.timeout:
            return
        if not self._has_begun:
            raise SilenceError(f"nothing arrived for {self.timeout:.3g} seconds")
        if self._arrived < self.least_bytes_s * self._waited_s:
            raise SilenceError(
                f"only {self._arrived:,} bytes of a packet arrived in {self._waited_s:.3g} seconds"
            )
        self._waited_s, self._arrived = 0.0, 0

    def _patience(self) -> float | None:
        if self.deadline is None:
            return self.timeout
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise SilenceError("the server took too long")
        return left if self.timeout is None else min(left, self.timeout)


def _poll_of(sock: socket.socket) -> select.poll:
    poll = select.poll()  # unlike select, for any number of open files
    poll.register(sock, select.POLLIN)
    return poll


class PlainReceiver(Receiver):
    """Bytes as they come from the socket."""

    def fill(self) -> None:
        self._room(_RECEIVE_LEAST)
        with memoryview(self.data) as whole, whole[self.end :] as view:
            self.end += self._receive(view)

    def fill_at_once(self) -> bool:
        self._room(_RECEIVE_LEAST)
        with memoryview(self.data) as whole, whole[self.end :] as view:
            count = self._receive_at_once(view)
        self.end += count
        return count > 0


class _PackedReceiver(PlainReceiver):
    """The compressed packets as they come. `inflated_bytes` of those before have not been taken yet."""

    inflated_bytes = 0

    @property
    def _has_begun(self) -> bool:
        return self.held + self.inflated_bytes > 0

    def follow(self, inflated: Receiver) -> None:
        """Apply the limits of the receiver that inflates the packets."""
        self.timeout, self.deadline = inflated.timeout, inflated.deadline
        self.least_bytes_s = inflated.least_bytes_s
        self.inflated_bytes = inflated.held

    def count_wait(self, begun: float) -> None:
        """Note a wait since a monotonic time. Raises SilenceError."""
        self._count_wait(begun)


class CompressedReceiver(Receiver):
    """Bytes out of the packets of the compressed protocol (zlib, or zstd where agreed).

    An event may have `freely_bytes`, however few bytes have come.

    Layout: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_compression.html
    """

    def __init__(self, sock: socket.socket, algorithm: str, freely_bytes: int = 64 << 20) -> None:
        super().__init__(sock)
        self._freely_bytes = freely_bytes
        self._zstd = zstandard.ZstdDecompressor() if algorithm == "zstd" else None
        self._raw = _PackedReceiver(sock)
        self._came = 0

    @property
    def most_inflated(self) -> int | None:
        return self._freely_bytes + _MOST_INFLATION * self._came

    def fill(self) -> None:
        raw = self._raw
        raw.follow(self)
        low, high, _, plain_low, plain_high = COMPRESSED_HEADER.unpack(
            raw.take(COMPRESSED_HEADER.size)
        )
        size, plain_size = low | high << 16, plain_low | plain_high << 16
        payload = raw.take(size)
        self._came += COMPRESSED_HEADER.size + size
        if plain_size:
            payload = self._inflated(payload, plain_size)
        self._room(len(payload))
        self.data[self.end : self.end + len(payload)] = payload
        self.end += len(payload)

    def fill_at_once(self) -> bool:
        self._raw.follow(self)
        while not self._has_whole():
            if not self._raw.fill_at_once():
                return False
        self.fill()
        return True

    def _has_whole(self) -> bool:
        """Whether the next compressed packet is complete."""
        raw = self._raw
        if raw.held < COMPRESSED_HEADER.size:
            return False
        low, high, *_ = COMPRESSED_HEADER.unpack_from(raw.data, raw.start)
        return bool(raw.held - COMPRESSED_HEADER.size >= low | high << 16)

    def is_readable(self, seconds: float = 0.0) -> bool:
        return self._has_whole() or super().is_readable(seconds)

    def _count_wait(self, begun: float) -> None:
        self._raw.follow(self)
        self._raw.count_wait(begun)

    def _inflated(self, payload: bytes, size: int) -> bytes:
        try:
            return inflated(payload, size, self._zstd)
        except ValueError as error:
            raise ServerError(f"a compressed packet of the server is damaged: {error}") from None


def compressed_packet(plain: bytes, sequence: int, pack: Callable[[bytes], bytes]) -> bytes:
    """Return a packet of the compressed protocol; `pack` compresses what becomes shorter by it."""
    size, data = len(plain), plain
    if size >= _LEAST_COMPRESSED:
        data = pack(plain)
    if len(data) >= size:
        size, data = 0, plain
    lengths = len(data) & 0xFFFF, len(data) >> 16, sequence, size & 0xFFFF, size >> 16
    return COMPRESSED_HEADER.pack(*lengths) + data


def inflated(data: bytes, size: int, unpacker: zstandard.ZstdDecompressor | None) -> bytes:
    """Return the `size` bytes of a compressed packet, zlib's without `unpacker`.

    Memory is allocated for `size` bytes, whatever the data declares. Raises ValueError.
    """
    try:
        if unpacker is None:
            plain = zlib.decompressobj().decompress(data, size + 1)  # one more would be too many
        else:
            # the library takes as much memory as the frame's header says
            told = zstandard.frame_content_size(data)
            if told > size:
                raise ValueError(f"it contains {told} bytes, but declares {size}")
            plain = unpacker.decompress(data, max_output_size=size)
    except (zlib.error, zstandard.ZstdError) as error:
        raise ValueError(str(error)) from None
    if len(plain) != size:
        raise ValueError(f"it contains {len(plain)} bytes, but declares {size}")
    return plain
