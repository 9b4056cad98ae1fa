"""A source that dies inside of a transaction, and another one that is asked by GTID."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from uuid import UUID

import pytest

from binlake.errors import ConnectionLostError, PositionLostError
from binlake.source.replica.commands import (
    COM_BINLOG_DUMP,
    COM_BINLOG_DUMP_GTID,
    COM_REGISTER_SLAVE,
    BinlogDump,
    BinlogDumpGtid,
)
from binlake.source.replica.follower import Block, Follower, FollowOptions, Item
from binlake.source.replica.packets import event_packet
from binlake.source.replica.url import ServerUrl
from binlake.stream.live import LiveReader
from binlake.stream.runs import Outcome, PlainRun
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import Position
from support.logs.log_builder import (
    ARTIFICIAL,
    FORMAT,
    GTID,
    QUERY,
    ROTATE,
    ROWS,
    TABLE_MAP,
    XID,
    LogBuilder,
    event,
    query_body,
)
from support.servers.fake_server import OK, Conversation, fake_server

NAME = "binlog.000001"
HEARTBEAT = 27
FIRST, SECOND, WRITER = (UUID(int=number) for number in (1, 2, 3))
ASKED_FOR = "00000000-0000-0000-0000-000000000003"  # GTIDs of WRITER
OTHERS = "00000000-0000-0000-0000-000000000002"
#: What a source does at a dump from an offset or, with a GTID set, from where it likes.
Answer = Callable[[Conversation, int], None]


def add(log: LogBuilder, writer: UUID, gno: int, row: bytes) -> int:
    """A transaction; returns where its rows event begins."""
    log.add(GTID, b"\1" + writer.bytes + struct.pack("<Q", gno) + bytes(17))
    log.add(QUERY, query_body(b"BEGIN"))
    log.add(TABLE_MAP, b"\1" * 40)
    at = log.add(ROWS, row)
    log.add(XID, struct.pack("<Q", gno))
    return at


def packets(log: LogBuilder, start: int, end: int) -> bytes:
    """The events that a source sends for [start, end) of a log; after a position inside it, the format comes first."""
    head = [rotate(start)]
    if start > 4:
        head.append(event(FORMAT, bytes(log.data[23 : log.offsets[1] - 4]), 4, log_pos=0))
    ends = [*log.offsets[1:], len(log.data)]
    body = [
        bytes(log.data[a:b]) for a, b in zip(log.offsets, ends, strict=True) if start <= a < end
    ]
    return b"".join(event_packet(raw, n % 256) for n, raw in enumerate([*head, *body], 1))


def rotate(position: int) -> bytes:
    body = struct.pack("<Q", position) + NAME.encode()
    return event(ROTATE, body, 0, flags=ARTIFICIAL, log_pos=0, timestamp=0)


def heartbeat(position: int) -> bytes:
    return event_packet(event(HEARTBEAT, NAME.encode(), 0, log_pos=position, timestamp=0), 1)


def sends(log: LogBuilder, start: int | None, end: int, *, beats: bool = False) -> Answer:
    """Sends [start, end) of a log (None: from where it was asked), and closes the connection."""

    def answer(conversation: Conversation, asked: int) -> None:
        data = packets(log, asked if start is None else start, end)
        conversation.sock.sendall(data + (heartbeat(end) if beats else b""))

    return answer


def is_silent(conversation: Conversation, asked: int) -> None:
    """Closes the connection before it has sent anything."""


@contextmanager
def source(
    uuid: UUID,
    log: LogBuilder,
    answers: list[Answer | None],
    asked: list[str],
    executed: str,
    purged: str = "",
) -> Iterator[int]:
    """A source that answers dumps by the next of `answers`; None: it is not there. Its port.

    `asked` gets the places and the GTID sets that it was asked for.
    """
    told = {
        "SHOW BINARY LOGS": (NAME, str(len(log.data))),
        "SELECT @@GLOBAL.server_uuid": (str(uuid),),
        "SELECT @@GLOBAL.server_id": ("7",),
        "SELECT @@GLOBAL.gtid_executed": (executed,),
        "SELECT @@GLOBAL.gtid_purged": (purged,),
    }

    def talk(conversation: Conversation) -> None:
        if not answers or answers[0] is None:
            del answers[:1]
            return
        conversation.login()
        while True:
            command = conversation.hear()
            if command[0] in (COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID):
                break
            sql = command[1:].decode("utf-8", "replace")
            if command[0] != COM_REGISTER_SLAVE and sql in told:
                conversation.result(told[sql])
            else:
                conversation.send(OK, 1)
        answer, offset = answers.pop(0), 0
        if command[0] == COM_BINLOG_DUMP:
            offset = BinlogDump.decode(command[1:]).offset
            asked.append(str(offset))
        else:
            asked.append(str(BinlogDumpGtid.decode(command[1:]).gtids))
        assert answer is not None
        answer(conversation, offset)

    with fake_server(talk) as (port, _):
        yield port


def follower_of(
    ports: Sequence[int],
    start: Position = Position("", NAME, 4),  # noqa: B008 - is frozen
) -> Follower:
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    urls = ServerUrl.parse_all(f"mysql://ada:pw@{servers}/?ssl-mode=disabled&option-file=none")
    options = FollowOptions.of(urls[0], dead_after_s=120, backoff_s=0.01, attempts=6)
    return Follower(urls, start, options)


def read_until(items: Iterator[Item], source: str, end: int) -> list[Block]:
    """The blocks up to offset `end` of the log of a server."""
    blocks = []
    while True:
        item = next(items)
        if isinstance(item, Block):
            blocks.append(item)
            if (item.source, item.end) == (source, end):
                return blocks


@pytest.fixture
def first() -> LogBuilder:
    """WRITER:1 and 2; the source dies behind the rows of 2 (`inside`)."""
    log = LogBuilder()
    add(log, WRITER, 1, b"one")
    add(log, WRITER, 2, b"two")
    return log


def inside(log: LogBuilder) -> int:
    """Where the last transaction's XID event begins."""
    return log.offsets[-1]


@pytest.fixture
def second() -> LogBuilder:
    """WRITER:1, a transaction of its own, then WRITER:2, which came late."""
    log = LogBuilder()
    add(log, WRITER, 1, b"one")
    add(log, SECOND, 1, b"own")
    add(log, WRITER, 2, b"two")
    return log


@pytest.mark.parametrize("beats", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_a_half_transaction_is_not_counted_on_another_server(
    first: LogBuilder, second: LogBuilder, own: bool, beats: bool
) -> None:
    """It is asked for again, after whatever the other server has brought or said meanwhile."""
    begins, late = second.offsets[6], second.offsets[11]
    came = late if own else begins
    asked: list[str] = []
    with ExitStack() as stack:
        lost = [sends(first, 4, inside(first)), None]
        ports = [
            stack.enter_context(source(FIRST, first, lost, asked, f"{ASKED_FOR}:1-2")),
            stack.enter_context(
                source(
                    SECOND, second,
                    [
                        sends(second, begins, came, beats=beats or not own),
                        sends(second, came, len(second.data)),
                    ],
                    asked, f"{ASKED_FOR}:1-2,{OTHERS}:1",
                )
            ),
        ]  # fmt: skip
        with follower_of(ports) as follower:
            items = iter(follower)
            blocks = read_until(items, str(SECOND), len(second.data))
            position = follower.position
    known = f"{OTHERS}:1,{ASKED_FOR}:1" if own else f"{ASKED_FOR}:1"
    assert asked == ["4", f"{ASKED_FOR}:1", known]
    texts = b"".join(block.data for block in blocks if block.source == str(SECOND))
    assert texts == second.bytes()[begins:]
    assert position.gtid_set == f"{OTHERS}:1,{ASKED_FOR}:1-2"


def test_a_silent_server_does_not_take_over(first: LogBuilder, second: LogBuilder) -> None:
    """The first one comes back and goes on inside of the transaction, which then counts."""
    asked: list[str] = []
    back: list[Answer | None] = [
        sends(first, 4, inside(first)), None, sends(first, None, len(first.data)),
    ]  # fmt: skip
    with (
        source(FIRST, first, back, asked, "") as one,
        source(SECOND, second, [is_silent], asked, f"{ASKED_FOR}:1") as other,
        follower_of([one, other]) as follower,
    ):
        blocks = read_until(iter(follower), str(FIRST), len(first.data))
        position = follower.position
    assert asked == ["4", f"{ASKED_FOR}:1", str(inside(first))]
    assert b"\xfebin" + b"".join(block.data for block in blocks) == first.bytes()
    assert position == Position(str(FIRST), NAME, len(first.data), f"{ASKED_FOR}:1-2")


def test_a_heartbeat_among_repeated_transactions(second: LogBuilder) -> None:
    """Begun by GTID, and cut inside of a transaction: it ends with its last event, not before."""
    begins, own = second.offsets[1], second.offsets[6]
    cut_at = second.offsets[9]

    def passes_over(conversation: Conversation, asked: int) -> None:
        known = packets(second, begins, begins) + heartbeat(own)
        conversation.sock.sendall(known + packets(second, own, cut_at))

    asked: list[str] = []
    answers: list[Answer | None] = [
        sends(second, begins, cut_at), passes_over, sends(second, own, len(second.data)),
    ]  # fmt: skip
    with (
        source(SECOND, second, answers, asked, f"{ASKED_FOR}:1-2,{OTHERS}:1") as port,
        follower_of([port], Position("", "", 0, f"{ASKED_FOR}:2")) as follower,
    ):
        blocks = read_until(iter(follower), str(SECOND), len(second.data))
    known = f"{ASKED_FOR}:1-2"
    assert asked == [f"{ASKED_FOR}:2", known, known]
    assert b"".join(block.data for block in blocks) == second.bytes()[begins:]


def test_logs_of_one_name_of_two_servers_are_two(first: LogBuilder) -> None:
    """A reader of the followed log yields the transaction that arrived in halves once, and complete, as
    the second server has it: here without checksums.
    """
    second = LogBuilder(alg=0)
    add(second, SECOND, 1, b"own")
    begins = len(second.data)
    add(second, WRITER, 2, b"two")
    lost: list[Answer | None] = [sends(first, 4, inside(first)), None]
    there: list[Answer | None] = [sends(second, begins, len(second.data))]
    ledger, found = Ledger(), list[tuple[int, int]]()
    with (
        source(FIRST, first, lost, [], "") as one,
        source(SECOND, second, there, [], f"{ASKED_FOR}:1") as other,
        follower_of([one, other]) as follower,
    ):
        for run in LiveReader(follower, ReadOptions(), ledger, lambda: None).runs():
            assert isinstance(run, PlainRun)
            found.append((run.window.file.ordinal, run.window.frame(run.first).offset))
            if len(found) == 2:
                break
    assert found == [(0, first.offsets[1]), (1, begins)]
    assert ledger.transactions == {Outcome.COMMITTED: 2, Outcome.TORN: 1}


def test_failover_does_not_request_gtids_purged_before_the_oldest_log(
    first: LogBuilder, second: LogBuilder
) -> None:
    """It lies before the start."""
    asked: list[str] = []
    lost: list[Answer | None] = [sends(first, 4, first.offsets[6]), None]
    there: list[Answer | None] = [sends(second, second.offsets[11], len(second.data))]
    purged = f"{OTHERS}:1-9"
    with (
        source(FIRST, first, lost, asked, "", purged) as one,
        source(SECOND, second, there, asked, f"{OTHERS}:1-9,{ASKED_FOR}:1-2") as other,
        follower_of([one, other], Position("", "", 0)) as follower,
    ):
        read_until(iter(follower), str(SECOND), len(second.data))
    assert asked == ["4", f"{OTHERS}:1-9,{ASKED_FOR}:1"]


def test_a_start_whose_past_is_not_known_is_not_followed_on_another_server(
    first: LogBuilder, second: LogBuilder
) -> None:
    """It would send what lies before the start."""
    begins = first.offsets[6]
    asked: list[str] = []
    lost: list[Answer | None] = [sends(first, begins, len(first.data)), *[None] * 20]
    with (
        source(FIRST, first, lost, asked, "") as one,
        source(SECOND, second, [is_silent] * 20, asked, f"{ASKED_FOR}:1-2") as other,
        follower_of([one, other], Position("", NAME, begins)) as follower,
        pytest.raises((PositionLostError, ConnectionLostError), match="before the start"),
    ):
        list(follower)
    assert asked == [str(begins)]
