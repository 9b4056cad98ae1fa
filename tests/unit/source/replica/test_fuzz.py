"""A server under a fuzzer: whatever it says, a client ends in time, with rows or one error of ours.

The server holds an honest conversation, of which some bytes, lengths or answers are changed. The seed
is the number of the case: `BINLAKE_FUZZ_CASES` sets how many are tried.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pymysql")

from binlake.errors import BinlogError
from binlake.source.replica.commands import BinlogDump
from binlake.source.replica.connection import connect
from binlake.source.replica.follower import Block, Follower, FollowOptions
from binlake.source.replica.health import Who, examine
from binlake.source.replica.url import ServerUrl
from binlake.values.position import Position
from support.logs.log_builder import LogBuilder
from support.logs.mutations import mutated_packet
from support.servers.fake_server import Conversation, fake_server
from support.servers.fake_source import NAME, source, whole

CASES = int(os.environ.get("BINLAKE_FUZZ_CASES", "0")) // 10 or 40
TEXTS = ("", "-1", "0", "x", "9" * 5000, "18446744073709551616", "1e999", "nan", "٣", "²", "\0", "\x1b[2J",
         "../../x", "binlog.000001", "NULL", "a" * 250, "1-2-3", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9")  # fmt: skip


class Mutating:
    """A socket that changes what is sent."""

    def __init__(self, sock: Any, rng: random.Random, rate: float) -> None:
        self._sock = sock
        self._rng = rng
        self._rate = rate

    def sendall(self, data: bytes) -> None:
        if self._rng.random() < self._rate:
            data = mutated_packet(bytes(data), self._rng)
        self._sock.sendall(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Lying(Conversation):
    """Answers of queries have other values and shapes."""

    rng = random.Random(0)

    def result(self, *rows: tuple[str, ...]) -> None:
        rng = self.rng
        changed = [
            tuple(rng.choice(TEXTS) if rng.random() < 0.3 else v for v in row) for row in rows
        ]
        match rng.randrange(8):
            case 0:
                changed = [row[:-1] or row for row in changed]
            case 1:
                changed = [(*row, "more") for row in changed]
            case 2:
                changed = changed * 3
        super().result(*(tuple(v[:250] for v in row) for row in changed))


def log() -> LogBuilder:
    made = LogBuilder()
    for number in range(4):
        made.transaction(bytes([number]) * 300, gtid=None)
    return made


def follow(url: ServerUrl) -> int:
    options = FollowOptions.of(url, until_current=True, attempts=1, backoff_s=0.001)
    with Follower(url, Position("", NAME, 4), options) as follower:
        return sum(len(item.data) for item in follower if isinstance(item, Block))


def look(url: ServerUrl) -> int:
    """All that commands ask a server beside its events."""
    with connect(url) as server:
        found = [server.logs(), server.position(), server.identity, server.purged(), server.uid]
        found += [server.gtids_before(NAME, 4), list(examine(server, FollowOptions.of(url)))]
        return len(found) + len(Who.of(server).identity)


def url_of(port: int) -> ServerUrl:
    """A server that waits for us, as we wait for it, is given up soon."""
    return ServerUrl.parse(
        f"mysql://ada:not-for-everybody@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none"
        "&connect-timeout=0.3&read-timeout=0.3"
    )


def tried(
    talk: Callable[[Conversation], None], ask: Callable[[ServerUrl], int]
) -> BinlogError | None:
    """The error of a client; any other exception fails the test."""
    with fake_server(talk) as (port, _):
        try:
            ask(url_of(port))
        except BinlogError as error:
            assert "not-for-everybody" not in str(error)
            assert len(str(error)) < 5000
            return error
    return None


@pytest.mark.parametrize("ask", [follow, look])
@pytest.mark.parametrize("part", range(3))
def test_bytes_that_are_changed(part: int, ask: Callable[[ServerUrl], int]) -> None:
    made = log()
    for seed in range(part, CASES, 3):
        rng = random.Random(f"{ask.__name__} {seed}")

        def talk(talk: Conversation, rng: random.Random = rng) -> None:
            talk.sock = Mutating(talk.sock, rng, 0.15)  # type: ignore[assignment]
            asked: list[BinlogDump] = []
            source(made, [whole] * 9, asked)(talk)

        try:
            tried(talk, ask)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.parametrize("ask", [follow, look])
@pytest.mark.parametrize("version", ["8.0.36", "11.8.6-MariaDB", "5.6.24", "9" * 60, "x"])
def test_answers_that_are_changed(
    ask: Callable[[ServerUrl], int], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from support.servers.fake_server import greeting

    made = log()
    monkeypatch.setattr("support.servers.fake_server.greeting", lambda: greeting(version))
    for seed in range(CASES // 4):
        rng = random.Random(f"{ask.__name__} {version} {seed}")

        def talk(talk: Conversation, rng: random.Random = rng) -> None:
            lying = Lying(talk.sock)
            lying.rng = rng
            source(made, [whole] * 9, [])(lying)

        try:
            tried(talk, ask)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
def test_compressed_packets_that_hold_nothing(algorithm: str) -> None:
    """They cost the server little; the client's deadline ends them."""
    from support.servers.fake_server import OK, greeting

    offered = 0xC1FFF7FF & ~0x0800 & ~0x01000000 | 0x20 | 1 << 26

    def talk(talk: Conversation) -> None:
        talk.send(greeting("8.0.36", capabilities=offered))
        talk.hear()
        talk.send(OK, 2)
        while True:
            talk.sock.sendall(bytes(7) * 5000)

    with (
        fake_server(talk) as (port, _),
        pytest.raises(BinlogError, match=r"took too long|nothing"),
    ):
        connect(url_of(port).with_options(compress=algorithm, connect_timeout="1"))
