"""A follower whose source stalls, is cut off in the middle of a packet, and comes back."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest

from binlake.errors import ChecksumError, ConnectionLostError, PositionLostError, ServerError
from binlake.format.event_types import HEARTBEAT_LOG_EVENT
from binlake.source.replica.commands import BinlogDump
from binlake.source.replica.connection import ServerConnection, connect
from binlake.source.replica.follower import Block, Follower, FollowOptions
from binlake.source.replica.packets import event_packet
from binlake.source.replica.url import ServerUrl
from binlake.values.position import Position
from support.logs.log_builder import LogBuilder, event
from support.servers.fake_server import Conversation, fake_server
from support.servers.fake_source import NAME, UUID, Stream, cut, damaged, dump_of, source, whole


def log() -> LogBuilder:
    made = LogBuilder()
    for number in range(4):
        made.transaction(b"row" * number, gtid=None)
    return made


def stall(conversation: Conversation, packets: bytes) -> None:
    conversation.sock.sendall(packets[: len(packets) // 3])
    conversation.hear()  # until the replica has gone


def follow(
    port: int, start: int = 4, said: list[str] | None = None, **options: object
) -> tuple[Follower, bytes]:
    lines: list[str] = [] if said is None else said
    url = ServerUrl.parse(f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none")
    given = {
        "until_current": True, "dead_after_s": 120, "backoff_s": 0.01, "attempts": 3, **options
    }  # fmt: skip
    given_options = FollowOptions.of(url, **given)
    with Follower(url, Position("", NAME, start), given_options, lines.append) as follower:
        return follower, b"".join(item.data for item in follower if isinstance(item, Block))


def test_stalls_and_cuts_cost_nothing() -> None:
    made, asked, said = log(), list[BinlogDump](), list[str]()
    with fake_server(source(made, [stall, cut, cut, whole], asked)) as (port, _):
        follower, got = follow(port, said=said, dead_after_s=5)  # a slower one is not visible
    assert said
    assert all(line.endswith(": trying again") and "pw" not in line for line in said)
    assert b"\xfebin" + got == made.bytes()
    assert follower.position == Position(UUID, NAME, len(made.data))
    assert [dump.file for dump in asked] == [NAME] * 4
    offsets = [dump.offset for dump in asked]
    assert offsets == sorted(offsets)
    assert offsets[0] == 4 < offsets[-1]
    assert set(offsets) <= set(made.offsets)
    assert len({dump.server_id for dump in asked}) == 1


def test_a_checksum_that_was_wrong_once_was_the_networks() -> None:
    made, asked = log(), list[BinlogDump]()
    with fake_server(source(made, [damaged, whole], asked)) as (port, _):
        _, got = follow(port)
    assert b"\xfebin" + got == made.bytes()
    assert [dump.offset for dump in asked] == [4, made.offsets[-1]]
    with (
        fake_server(source(made, [damaged, damaged], [])) as (port, _),
        pytest.raises(ChecksumError, match="wrong checksum"),
    ):
        follow(port)


def test_a_dump_that_ends_early_is_continued() -> None:
    """A source that shuts down ends the dump as one that has no more does."""
    made, asked = log(), list[BinlogDump]()
    shorter = log()
    last = made.transaction(b"more", gtid=None)
    size = len(made.data)

    def early(conversation: Conversation, packets: bytes) -> None:
        whole(conversation, dump_of(shorter, 4))

    with fake_server(source(made, [early, whole], asked, end=size)) as (port, _):
        _, got = follow(port)
    assert b"\xfebin" + got == made.bytes()
    assert [dump.offset for dump in asked] == [4, last]


def test_a_place_that_cannot_be_named_is_reached_from_the_start() -> None:
    """Beyond 4 GB the file comes again from its start, as often as the connection is lost
    meanwhile; nothing of that is given twice.
    """
    made, asked = log(), list[BinlogDump]()
    assert made.offsets[4] > 200

    def early(conversation: Conversation, packets: bytes) -> None:
        conversation.sock.sendall(packets[: len(packets) // 4])

    with fake_server(source(made, [cut, early, stall, early, whole], asked)) as (port, _):
        follower, got = follow(port, dead_after_s=5, attempts=4, most_offset=200)
    assert b"\xfebin" + got == made.bytes()
    assert [dump.offset for dump in asked] == [4] * 5
    with fake_server(source(made, [early, whole], asked)) as (port, _):
        follower, got = follow(port, start=made.offsets[-3], most_offset=200)
    assert got == made.bytes()[made.offsets[-3] :]
    assert follower.position == Position(UUID, NAME, len(made.data))


def test_a_reconnect_must_begin_at_the_position() -> None:
    made = log()
    with (
        fake_server(source(made, [whole], [])) as (port, _),
        pytest.raises(ServerError, match=f"begins at {made.offsets[-2] + 1}"),
    ):
        follow(port, start=made.offsets[-2] + 1, most_offset=200)


def test_tries_come_to_an_end() -> None:
    nothing: Stream = lambda conversation, packets: None  # noqa: E731
    with (
        fake_server(source(log(), [nothing] * 9, [])) as (port, heard),
        pytest.raises(ConnectionLostError),
    ):
        follow(port, attempts=2)
    assert len(heard) == 3


def test_a_source_that_stays_silent_is_asked_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Silence is no progress, although a consumer hears of it; pauses grow until the tries are used up."""
    pauses: list[float] = []

    def uniform(_least: float, longest: float) -> float:
        pauses.append(longest)
        return 0.0

    monkeypatch.setattr("binlake.source.replica.pauses.random.uniform", uniform)

    def silence(conversation: Conversation, _packets: bytes) -> None:
        conversation.hear()

    said: list[str] = []
    with (
        fake_server(source(log(), [silence] * 9, [])) as (port, heard),
        pytest.raises(ConnectionLostError, match=r"nothing arrived for 0\.5 seconds"),
    ):
        follow(port, said=said, attempts=3, dead_after_s=0.5, backoff_s=1.0)
    assert len(heard) == 4
    assert pauses == [1.0, 2.0, 4.0]
    assert [line.partition(": ")[2] for line in said] == [
        "nothing arrived for 0.5 seconds: trying again"
    ]


def test_heartbeats_without_an_end() -> None:
    """A dump that does not wait ends at the end of the log, and has none."""
    made = log()

    def beat(conversation: Conversation, packets: bytes) -> None:
        conversation.sock.sendall(packets)
        sent = 1 + len(made.offsets)  # packets
        with suppress(OSError):  # the replica has gone
            for sequence in itertools.count(sent + 1):
                raw = event(
                    HEARTBEAT_LOG_EVENT, NAME.encode(), 0, log_pos=len(made.data), timestamp=0
                )
                conversation.sock.sendall(event_packet(raw, sequence % 256))

    with (
        fake_server(source(made, [beat], [])) as (port, heard),
        pytest.raises(
            ServerError, match="has sent heartbeats, but neither events nor the end"
        ) as error,
    ):
        follow(port, dead_after_s=2)
    assert len(heard) == 1
    assert "until-current" in str(error.value)


def test_a_file_that_has_become_shorter() -> None:
    with (
        fake_server(source(log(), [], [], end=100)) as (port, _),
        pytest.raises(PositionLostError, match="ends at 100, before the position 200"),
    ):
        follow(port, start=200)


def test_a_caller_that_tries_again_itself_reads_no_word_about_giving_up() -> None:
    with (
        fake_server(source(log(), [cut], list[BinlogDump]())) as (port, _),
        pytest.raises(ConnectionLostError) as error,
    ):
        follow(port, attempts=0)
    assert "gives up" not in str(error.value)


def test_a_close_while_it_connects_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no connection yet that `close` could end."""
    asked = list[BinlogDump]()
    with fake_server(source(log(), [whole], asked)) as (port, _):
        url = ServerUrl.parse(
            f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none"
        )
        follower = Follower(url, Position("", NAME, 4), FollowOptions.of(url))

        def closed_meanwhile(url: ServerUrl) -> ServerConnection:
            server = connect(url)
            follower.close()
            return server

        monkeypatch.setattr("binlake.source.replica.follower.connect", closed_meanwhile)
        assert list(follower) == []
        assert follower.server is None
    assert asked == []
