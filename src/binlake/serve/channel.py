"""Packets on one connection, from the server's side, with deadlines and size limits.

A packet is a 3-byte length, a sequence number and that many bytes. A payload of 2**24 - 1 bytes or
more continues in the next packet, so the last one is shorter. Reading takes exactly the bytes of a
packet, so that TLS can begin after any of them.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time

from binlake.errors import PeerGoneError, ServerError
from binlake.format.protocol import MAX_PACKET_BYTES
from binlake.serve.answers import NET_PACKET_TOO_LARGE
from binlake.serve.compression import Compression
from binlake.source.replica.packets import framed

_HEADS_BYTES = 1024  # of packets, beside their content, in one compressed packet


class Channel:
    """One connection. Used by one thread, except for `abort`.

    `sequence` is the number of the next packet to be written; reading sets it.
    """

    def __init__(self, connection: socket.socket, write_seconds: float) -> None:
        self.sequence = 0
        self.is_tls = False
        self._socket = connection
        self._write_seconds = write_seconds
        self._compression: Compression | None = None
        self._aborted = False

    def read(self, max_bytes: int, deadline: float) -> bytes:
        """Return the next payload, of at most `max_bytes`, by `deadline` (of time.monotonic).

        Raises PeerGoneError; ServerError for a longer payload, before allocating memory for it.
        """
        payload = b""
        while True:
            head = self._take(4, deadline, max_bytes)
            length = int.from_bytes(head[:3], "little")
            self.sequence = head[3] + 1 & 0xFF
            if len(payload) + length > max_bytes:
                raise ServerError(
                    f"a packet of {len(payload) + length} bytes exceeds the limit of"
                    f" {max_bytes} bytes",
                    code=NET_PACKET_TOO_LARGE,
                    sqlstate="08S01",
                )
            payload += self._take(length, deadline, max_bytes)
            if length < MAX_PACKET_BYTES:
                return payload

    def write(self, *payloads: bytes) -> None:
        """Send payloads, each as its own packet. Raises PeerGoneError."""
        self.send(b"".join(map(self.packets, payloads)))

    def packets(self, payload: bytes) -> bytes:
        """Return the packets of a payload; `sequence` is then the number after them."""
        pieces = list(framed(payload, self.sequence))
        self.sequence = self.sequence + len(pieces) // 2 & 0xFF
        return b"".join(pieces)

    def send(self, packets: bytes) -> None:
        """Send packets that have their headers. Raises PeerGoneError if the peer does not take
        them in time.
        """
        if self._compression is not None:
            packets = self._compression.packed(packets)
        try:
            self._socket.settimeout(self._write_seconds)
            self._socket.sendall(packets)
        except TimeoutError:
            raise PeerGoneError(f"has not read for {self._write_seconds:g} s") from None
        except (OSError, ValueError) as error:
            raise _gone(error) from None

    def has_input(self) -> bool:
        """Whether reading would not wait: there are bytes, or the peer has gone."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        if self._compression is not None and self._compression.held:
            return True
        try:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            return bool(poll.poll(0))
        except (OSError, ValueError) as error:
            raise _gone(error) from None

    def secure(self, context: ssl.SSLContext, deadline: float) -> None:
        """Switch to TLS. Raises PeerGoneError when the peer cannot."""
        try:
            self._socket.settimeout(_left(deadline))
            # known before the handshake, so that `abort` can end it
            self._socket = secured = context.wrap_socket(
                self._socket, server_side=True, do_handshake_on_connect=False
            )
            if self._aborted:  # while neither of the two sockets could be ended
                raise PeerGoneError("made room for a newer connection while TLS began")
            secured.do_handshake()
        except TimeoutError:
            raise PeerGoneError("TLS was not negotiated in time") from None
        except (OSError, ValueError) as error:
            raise PeerGoneError(f"TLS failed: {_reason(error)}") from None
        self.is_tls = True

    @property
    def compression(self) -> str:
        """The compression of the connection: "", zlib or zstd."""
        return "" if self._compression is None else self._compression.algorithm

    def compress(self, compression: Compression) -> None:
        """Switch to the compressed protocol."""
        self._compression = compression

    def abort(self) -> None:
        """End it from another thread, and wake the thread that waits on the socket."""
        self._aborted = True
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def _take(self, count: int, deadline: float, max_bytes: int) -> bytes:
        if self._compression is None:
            return self._receive(count, deadline)
        return self._compression.take(
            count, lambda size: self._receive(size, deadline), max_bytes + _HEADS_BYTES
        )

    def _receive(self, count: int, deadline: float) -> bytes:
        parts: list[bytes] = []
        while count:
            try:
                self._socket.settimeout(_left(deadline))
                part = self._socket.recv(min(count, 1 << 16))
            except TimeoutError:
                raise PeerGoneError("was silent for too long") from None
            except (OSError, ValueError) as error:
                raise _gone(error) from None
            if not part:
                raise PeerGoneError("closed the connection")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _gone(error: Exception) -> PeerGoneError:
    return PeerGoneError(f"the connection broke: {_reason(error)}")


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
