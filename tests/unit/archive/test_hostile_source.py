"""A source that attacks its followers: a BinlogError of one line, and no file outside the archive."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

pytest.importorskip("pymysql")

from binlake.cli.common.lines import print_message
from binlake.errors import BinlogError
from binlake.source.replica.follower import Block, Follower, FollowOptions
from binlake.source.replica.packets import event_packet, framed
from binlake.source.replica.url import ServerUrl
from binlake.values.position import Position
from support.logs.log_builder import ARTIFICIAL, ROTATE, LogBuilder, event
from support.servers.fake_server import Conversation, fake_server
from support.servers.fake_source import EOF, NAME, UUID, Stream, archive, source

HEARTBEAT, HEARTBEAT_V2 = 27, 41
SECOND = "binlog.000002"


def log() -> LogBuilder:
    made = LogBuilder(created=1)
    for number in range(3):
        made.transaction(bytes([number]) * 300, gtid=None)
    return made


LOG = log()
EVENTS = [
    bytes(LOG.data[start:end])
    for start, end in zip(LOG.offsets, [*LOG.offsets[1:], len(LOG.data)], strict=True)
]


def announced(name: str | bytes, position: int = 4) -> bytes:
    raw = name.encode() if isinstance(name, str) else name
    body = struct.pack("<Q", position) + raw
    return event(ROTATE, body, 0, flags=ARTIFICIAL, log_pos=0, timestamp=0)


def heartbeat(name: str, position: int = 4) -> bytes:
    return event(HEARTBEAT, name.encode(), 0, log_pos=position, timestamp=0)


def long_as(raw: bytes, length: int) -> bytes:
    """An event whose header declares another length."""
    return raw[:9] + struct.pack("<I", length) + raw[13:]


def sent(events: Iterable[bytes], end: bytes = b"".join(framed(EOF))) -> bytes:
    return b"".join(event_packet(raw, at + 1) for at, raw in enumerate(events)) + end


def after(*events: bytes) -> bytes:
    """The whole log, and then these."""
    return sent([announced(NAME), *EVENTS, *events])


def failure(text: bytes) -> bytes:
    return b"".join(framed(b"\xff\xd4\x04#HY000" + text))


ESCAPES = "\x1b]0;owned\x07\x1b[2J\x85\u202e"
#: What is sent instead of the log. First names and positions, of which an archive makes files.
PLACES: dict[str, bytes] = {
    "another directory": sent([announced("../../../../tmp/evil.000001"), *EVENTS]),
    "then another directory": after(announced("../../evil.000002"), *EVENTS),
    "root": after(announced("/etc/cron.d/evil.000002"), *EVENTS),
    "a directory of Windows": after(announced("..\\evil.000002"), *EVENTS),
    "two dots": after(announced(".."), *EVENTS),
    "no name": after(announced(""), *EVENTS),
    "a long name": after(announced("x" * 100_000 + ".000002"), *EVENTS),
    "a zero byte": after(announced("binlog.000002\0.x"), *EVENTS),
    "escapes": after(announced(f"{ESCAPES}.000002"), *EVENTS),
    "the state": after(announced("archive.json"), *EVENTS),
    "the lock": after(announced("archive.lock"), *EVENTS),
    "the index": after(announced("binlog.index"), *EVENTS),
    "hundreds of digits": after(announced("binlog." + "9" * 240), *EVENTS),
    "back again": after(announced(SECOND), *EVENTS, announced(NAME), *EVENTS),
    "a position of 64 bits": after(announced(SECOND, (1 << 64) - 1), *EVENTS),
    "a position of 63 bits": after(announced(SECOND, (1 << 63) - 1), *EVENTS),
    "a far position": after(announced(SECOND, 1 << 40), *EVENTS),
}
ATTACKS = PLACES | {
    "not announced": sent(EVENTS),
    "a length of 4 GB": sent([announced(NAME), EVENTS[0], long_as(EVENTS[1], 0xFFFFFFFF)]),
    "a length of nothing": sent([announced(NAME), EVENTS[0], long_as(EVENTS[1], 0)]),
    "a longer length": sent([announced(NAME), EVENTS[0], long_as(EVENTS[1], 1000)]),
    "a short description": sent([announced(NAME), EVENTS[0][:25]]),
    "an empty packet": after()[: -len(EOF) - 4] + b"\0\0\0\1",
    "an unknown packet": sent([announced(NAME)], b"\2\0\0\1\x55x"),
    "semi-synchronous unasked": sent([announced(NAME)], b"")
    + event_packet(EVENTS[0], 1, semi_sync=True, wants_ack=True),
    "a heartbeat of elsewhere": after(heartbeat("../../evil.000001")),
    "a heartbeat of a long name": after(heartbeat("x" * 100_000)),
    "a heartbeat of another place": after(heartbeat(NAME, 77)),
    "an error with escapes": sent([announced(NAME)], failure(f"{ESCAPES}\nall is well".encode())),
    "an error of 60 kB": sent([announced(NAME)], failure(b"A" * 60_000)),
    "an error of 1 MB": sent([announced(NAME)], failure(b"A" * 1_000_000)),
}


def saying(attack: bytes) -> Stream:
    def say(conversation: Conversation, _packets: bytes) -> None:
        conversation.sock.sendall(attack)

    return say


def follow(streams: list[Stream]) -> BinlogError | None:
    with fake_server(source(LOG, streams, [])) as (port, _):
        url = ServerUrl.parse(
            f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none&read-timeout=20"
        )
        options = FollowOptions.of(url, until_current=True, attempts=1, backoff_s=0.001)
        try:
            with Follower(url, Position(UUID, NAME, 4), options) as follower:
                assert sum(len(item.data) for item in follower if isinstance(item, Block)) < 10_000
        except BinlogError as error:
            return error
    return None


@pytest.mark.parametrize("what", ATTACKS)
def test_an_attack_is_an_error(
    what: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "a" / "b" / "archive"
    attack = saying(ATTACKS[what])
    errors = [follow([attack] * 9)]
    if what in ("the state", "the lock", "the index", "hundreds of digits"):
        assert errors.pop() is None, "a name that only an archive refuses"
    if what in PLACES:
        errors.append(archive(root, LOG, [attack] * 9, attempts=1)[0])
    for error in errors:
        assert error is not None
        capfd.readouterr()
        print_message(str(error))
        shown = capfd.readouterr().err
        assert shown[:-1].isprintable()
        assert len(shown) < 5000
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    # a server that goes back may be one whose logs were reset: that is another history
    assert {path.parent for path in files} <= {root / UUID, root / f"{UUID}.2"}
    logs = {path for path in files if path.suffix not in (".json", ".lock", ".parquet")}
    assert {path.name for path in logs} <= {NAME, SECOND, "binlog.index"}
    for path in logs:
        if path.suffix != ".index":
            assert LOG.bytes().startswith(path.read_bytes())
