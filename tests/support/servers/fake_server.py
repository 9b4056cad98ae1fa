"""A server that says what a test wants: greetings, answers, streams, and silence."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["OK", "Conversation", "fake_server", "greeting"]

OK = b"\0\0\0\2\0\0\0"
_CAPABILITIES = 0xC1FFF7FF & ~0x0800 & ~0x01000000  # no TLS, results end in EOF packets


class Conversation:
    """One accepted connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.heard: list[bytes] = []

    def send(self, payload: bytes, sequence: int = 0) -> None:
        """One packet."""
        self.sock.sendall(len(payload).to_bytes(3, "little") + bytes([sequence]) + payload)

    def hear(self) -> bytes:
        """One packet of the client; b"" when it has gone."""
        head = self._exactly(4)
        payload = self._exactly(int.from_bytes(head[:3], "little"))
        self.heard.append(payload)
        return payload

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                raise ConnectionError("the client has gone")
            data += piece
        return data

    def login(self) -> None:
        """Greet and believe everything; answer what PyMySQL asks at once."""
        self.send(greeting())
        self.hear()
        self.send(OK, 2)

    def result(self, *rows: tuple[str, ...]) -> None:
        """Rows of text as the answer of a query."""
        columns = len(rows[0])
        self.send(bytes([columns]), 1)
        sequence = 2
        for _ in range(columns):
            text = (
                b"\3def"
                + b"\0" * 3
                + b"\1c\1c"
                + b"\x0c"
                + struct.pack("<HIBHB", 255, 999, 253, 0, 0)
            )
            self.send(text + b"\0\0", sequence)
            sequence += 1
        self.send(b"\xfe\0\0\2\0", sequence)
        for row in rows:
            sequence += 1
            self.send(b"".join(map(_text, row)), sequence & 255)
        self.send(b"\xfe\0\0\2\0", (sequence + 1) & 255)


def _text(value: str) -> bytes:
    """A value of a row, after its length."""
    raw = value.encode()
    if len(raw) <= 250:
        return bytes([len(raw)]) + raw
    return b"\xfd" + len(raw).to_bytes(3, "little") + raw


def greeting(
    version: str = "8.0.36",
    plugin: str = "mysql_native_password",
    capabilities: int = _CAPABILITIES,
) -> bytes:
    """A server's first packet."""
    low, high = capabilities & 0xFFFF, capabilities >> 16
    return (
        b"\x0a" + version.encode() + b"\0" + struct.pack("<I", 7) + b"12345678\0"
        + struct.pack("<HBHHB", low, 45, 2, high, 21) + b"\0" * 10 + b"123456789012\0"
        + plugin.encode() + b"\0"
    )  # fmt: skip


@contextmanager
def fake_server(
    talk: Callable[[Conversation], None], unix_socket: str = ""
) -> Iterator[tuple[int, list[Conversation]]]:
    """Runs `talk` for each connection; gives the port (0 of a unix socket) and the conversations."""
    conversations: list[Conversation] = []
    with (
        socket.create_server(unix_socket, family=socket.AF_UNIX)
        if unix_socket
        else socket.create_server(("127.0.0.1", 0))
    ) as listener:

        def converse(conversation: Conversation) -> None:
            with suppress(OSError):
                talk(conversation)
            conversation.sock.close()  # another one where TLS has begun

        def serve() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                conversations.append(Conversation(sock))
                threading.Thread(target=converse, args=conversations[-1:], daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield 0 if unix_socket else listener.getsockname()[1], conversations
        finally:
            listener.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=120)
