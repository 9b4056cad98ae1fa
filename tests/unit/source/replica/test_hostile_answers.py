"""Answers of a server that never end, or take more and more memory: one limit for each answer."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count

import pytest

pytest.importorskip("pymysql")

from binlake.errors import ServerError
from binlake.source.replica.answers import AnswerLimits
from binlake.source.replica.connection import connect
from binlake.source.replica.url import ServerUrl
from support.servers.fake_server import OK, Conversation, fake_server

COLUMN = (
    b"\3def" + b"\0" * 3 + b"\1c\1c" + b"\x0c" + struct.pack("<HIBHB", 255, 999, 253, 0, 0) + b"\0\0"
)  # fmt: skip
EOF, EOF_MORE_RESULTS = b"\xfe\0\0\2\0", b"\xfe\0\0\x0a\0"
OK_MORE_RESULTS = b"\0\0\0\x0a\0\0\0"
LIMIT = 4 << 20


def packets(payloads: Iterator[bytes], start: int = 1) -> Iterator[bytes]:
    """Blocks of packets, one sequence number after the other."""
    block = bytearray()
    for sequence, payload in enumerate(payloads, start):
        block += len(payload).to_bytes(3, "little") + bytes([sequence & 255]) + payload
        if len(block) > 1 << 14:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def rows(columns: int, row: bytes) -> Iterator[bytes]:
    yield struct.pack("<BH", 0xFC, columns)
    yield from [COLUMN] * columns
    yield EOF
    while True:
        yield row


def columns_only() -> Iterator[bytes]:
    yield b"\xfd\xff\xff\xff"
    while True:
        yield COLUMN


def results() -> Iterator[bytes]:
    """One result after the other, each with the announcement of the next."""
    while True:
        yield b"\1"
        yield COLUMN
        yield EOF
        yield b"\1x"
        yield EOF_MORE_RESULTS


ENDLESS: dict[str, Callable[[], Iterator[bytes]]] = {
    "rows": lambda: rows(1, b"\x02ab"),
    "large rows": lambda: rows(1, b"\xfc\xff\xff" + b"x" * 65535),
    "rows of NULL": lambda: rows(200, b"\xfb" * 200),
    "rows of short values": lambda: rows(200, b"\x02ab" * 200),
    "empty rows": lambda: rows(1, b"\xfb"),
    "columns": columns_only,
    "results": results,
    "oks": lambda: (OK_MORE_RESULTS for _ in count()),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_answer_without_an_end(name: str) -> None:
    """Refused at the limit, which is about the memory that the answer takes here."""

    def talk(talk: Conversation) -> None:
        talk.login()
        talk.hear()
        talk.send(OK, 1)
        talk.hear()
        for block in packets(ENDLESS[name]()):
            talk.sock.sendall(block)

    with fake_server(talk) as (port, _):
        url = f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none"
        with connect(ServerUrl.parse(url), AnswerLimits(memory_bytes=LIMIT)) as server:
            tracemalloc.start()
            try:
                with pytest.raises(ServerError, match=r"takes more than 4096 KB|several results"):
                    server.rows("SHOW BINARY LOGS")
                most = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    assert most < 4 * LIMIT


@pytest.mark.parametrize("at", ["first packet", "rows"])
def test_an_answer_byte_by_byte_has_one_deadline(at: str) -> None:
    ends = time.monotonic() + 60

    def talk(talk: Conversation) -> None:
        talk.login()
        talk.hear()
        talk.send(OK, 1)
        talk.hear()
        source = rows(1, b"\x02ab")
        if at == "rows":
            for sequence in range(1, 4):
                talk.send(next(source), sequence)
        for block in packets(source, 4 if at == "rows" else 1):
            for byte in block:
                if time.monotonic() > ends:
                    return
                talk.sock.sendall(bytes([byte]))
                time.sleep(0.01)

    with fake_server(talk) as (port, _):
        url = f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none"
        with connect(ServerUrl.parse(url), AnswerLimits(seconds=2)) as server:
            began = time.monotonic()
            with pytest.raises(ServerError, match="took too long"):
                server.rows("SHOW BINARY LOGS")
    assert time.monotonic() - began < 30


def test_a_listing_of_a_hundred_thousand_logs_fits() -> None:
    listing = [
        b"\x03", COLUMN, COLUMN, COLUMN, EOF,
        *(b"\x0dbinlog.%06d\x0a1073741824\x02No" % at for at in range(100_000)),
        EOF,
    ]  # fmt: skip

    def talk(talk: Conversation) -> None:
        talk.login()
        talk.hear()
        talk.send(OK, 1)
        talk.hear()
        for block in packets(iter(listing)):
            talk.sock.sendall(block)

    with fake_server(talk) as (port, _):
        url = f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none"
        with connect(ServerUrl.parse(url)) as server:
            assert len(server.logs()) == 100_000
