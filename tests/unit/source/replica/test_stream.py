"""The events that a source may send in a stream, and those that are errors."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from binlake.errors import (
    BinlogError,
    ChecksumError,
    MalformedError,
    PositionLostError,
    ServerError,
)
from binlake.format.protocol import MAX_PACKET_BYTES
from binlake.source.replica.commands import Ack, BinlogDump, BinlogDumpGtid, Registration, error_of
from binlake.source.replica.packets import PacketReader, event_packet, framed
from binlake.source.replica.progress import Progress
from binlake.source.replica.receiver import (
    COMPRESSED_HEADER,
    CompressedReceiver,
    PlainReceiver,
)
from binlake.source.replica.stream import PLAIN_TYPES, Block, DumpStream, Idle, Item
from binlake.values.gtid import GtidSet
from support.logs.log_builder import ARTIFICIAL, FORMAT, QUERY, ROTATE, LogBuilder, event

HEARTBEAT, HEARTBEAT_V2, XID, GTID_LIST = 27, 41, 16, 163
EOF = b"\xfe\0\0\2\0"
NAME = "binlog.000001"


def fake_rotate(name: str = NAME, position: int = 4, *, crc: bool = True) -> bytes:
    body = struct.pack("<Q", position) + name.encode()
    return event(ROTATE, body, 0, crc=crc, flags=ARTIFICIAL, log_pos=0, timestamp=0)


def heartbeat(position: int, name: str = NAME) -> bytes:
    return event(HEARTBEAT, name.encode(), 0, log_pos=position, timestamp=0)


def heartbeat_v2(position: int, name: str = NAME) -> bytes:
    raw = position.to_bytes(8, "little")
    body = bytes([1, len(name)]) + name.encode() + b"\2\x09\xfe" + raw + b"\0"
    return event(HEARTBEAT_V2, body, 0, log_pos=0, timestamp=0)


def events_of(log: LogBuilder, first: int = 0) -> list[bytes]:
    ends = [*log.offsets[1:], len(log.data)]
    return [bytes(log.data[a:b]) for a, b in zip(log.offsets, ends, strict=True)][first:]


def small_log(created: int = 0) -> LogBuilder:
    log = LogBuilder(created=created)
    for number in range(3):
        log.transaction(b"row" * number, gtid=None)
    return log


@contextmanager
def sent(packets: Iterable[bytes]) -> Iterator[socket.socket]:
    """A socket on which these bytes come, then nothing more."""
    ours, theirs = socket.socketpair()

    def send() -> None:
        try:
            for packet in packets:
                theirs.sendall(packet)
            theirs.shutdown(socket.SHUT_WR)
        except OSError:
            return

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield ours
    finally:
        ours.close()
        thread.join(120)
        theirs.close()


def read(
    packets: Iterable[bytes], *, start: int = 4, file: str = NAME, **options: object
) -> list[Item]:
    given: dict[str, Any] = {
        "source": "me", "by_gtid": False, "verify": True, "drops": False, "gaps": False,
        "block_bytes": 1 << 16, **options,
    }  # fmt: skip
    compression, freely_bytes = given.pop("compression", ""), given.pop("freely_bytes", 64 << 20)
    with sent(packets) as sock:
        receiver = (
            CompressedReceiver(sock, compression, freely_bytes)
            if compression
            else PlainReceiver(sock)
        )
        receiver.timeout = 120
        reader = PacketReader(receiver, PLAIN_TYPES, 1 << 26, semi_sync=False)
        stream = DumpStream(reader, file, start, Progress("mysql", ""), **given)
        return list(stream)


def packets(*events: bytes, end: bytes = EOF) -> list[bytes]:
    sequence = iter(range(1 << 20))
    return [*(event_packet(raw, next(sequence)) for raw in events), b"".join(framed(end))]


def compressed_packets(plain: bytes, algorithm: str) -> Iterator[bytes]:
    """The limit on a compressed connection, with as much in a packet as it can have."""
    pack = zlib.compress if algorithm == "zlib" else zstandard.ZstdCompressor().compress
    for at in range(0, len(plain), MAX_PACKET_BYTES):
        piece = plain[at : at + MAX_PACKET_BYTES]
        small = pack(piece)
        yield (
            COMPRESSED_HEADER.pack(
                len(small) & 0xFFFF, len(small) >> 16, 0, len(piece) & 0xFFFF, len(piece) >> 16
            )
            + small
        )


def blocks_of(items: list[Item]) -> list[Block]:
    """The blocks; between them a follower may idle, and a slow sender makes more of them."""
    return [item for item in items if isinstance(item, Block)]


def data_of(items: list[Item]) -> bytes:
    return b"".join(item.data for item in items if isinstance(item, Block))


@given(cuts=st.lists(st.integers(1, 400), max_size=6))
@settings(max_examples=25, deadline=None)
def test_a_log_arrives_unchanged_in_pieces_of_any_size(cuts: list[int]) -> None:
    log = small_log()
    whole = b"".join(packets(fake_rotate(), *events_of(log), heartbeat(len(log.data))))
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(whole[at : at + cut])
        at += cut
    items = read([*pieces, whole[at:]])
    assert b"\xfebin" + data_of(items) == log.bytes()
    assert items[-1] == Idle(NAME, len(log.data), items[-1].read_at, True, "me")
    first = blocks_of(items)[0]
    assert (first.start, first.file, first.source) == (4, NAME, "me")


def test_inside_a_file_its_beginning_is_left_out() -> None:
    log = small_log()
    first = log.offsets[4]
    format_again = event(FORMAT, bytes(log.data[23 : log.offsets[1] - 4]), 4, log_pos=0)
    items = read(
        packets(fake_rotate(position=first), format_again, *events_of(log, 4)), start=first
    )
    assert data_of(items) == log.bytes()[first:]
    assert blocks_of(items)[0].start == first


def test_rotation_is_announced_twice() -> None:
    log = small_log()
    log.add(ROTATE, struct.pack("<Q", 4) + b"binlog.000002")
    second = small_log()
    items = read(
        packets(
            fake_rotate(crc=False), *events_of(log), fake_rotate("binlog.000002"),
            fake_rotate("binlog.000002"), *events_of(second),
        )
    )  # fmt: skip
    files = dict.fromkeys((NAME, "binlog.000002"), b"\xfebin")
    for item in items:
        if isinstance(item, Block):
            files[item.file] += item.data
    assert files == {NAME: log.bytes(), "binlog.000002": second.bytes()}


@pytest.mark.parametrize("beat", [heartbeat, heartbeat_v2])
@pytest.mark.parametrize(("off", "name"), [(-1, NAME), (1, NAME), (0, "binlog.000002")])
def test_a_heartbeat_with_another_position_is_an_error(beat: object, off: int, name: str) -> None:
    log = small_log()
    assert callable(beat)
    said = beat(len(log.data) + off, name)
    with pytest.raises(ServerError, match=f"heartbeat is at {name}:"):
        read(packets(fake_rotate(), *events_of(log), said))
    items = read(packets(fake_rotate(), *events_of(log), beat(len(log.data))))
    assert sum(item.confirmed for item in items if isinstance(item, Idle)) == 2


@pytest.mark.parametrize(
    "name", ["../../etc/cron.d/x", "/etc/passwd", "a\\b", "", "x" * 300, "a\0"]
)
def test_a_rotate_to_another_place(name: str) -> None:
    with pytest.raises(ServerError, match="names a log"):
        read(packets(fake_rotate(name)))
    with pytest.raises(ServerError, match="names a log"):
        read(packets(fake_rotate(), *events_of(small_log()), fake_rotate(name)))


def test_another_file_or_place_than_asked_for() -> None:
    with pytest.raises(ServerError, match=r"begins with binlog\.000007"):
        read(packets(fake_rotate("binlog.000007")))
    with pytest.raises(ServerError, match=r"begins at binlog\.000001:500"):
        read(packets(fake_rotate(position=500)))


@pytest.mark.parametrize("by_gtid", [False, True])
@pytest.mark.parametrize("repeated", ["rotate", "format", "gtid list", "new files"])
def test_artificial_events_without_an_end(repeated: str, by_gtid: bool) -> None:
    """They are no part of a file: nothing would ever arrive, nor be an end."""
    first = events_of(small_log())[0]
    kinds: dict[str, Callable[[int], bytes]] = {
        "rotate": lambda _: fake_rotate(),
        "format": lambda _: first,
        "gtid list": lambda _: event(GTID_LIST, bytes(4), 0, flags=ARTIFICIAL, log_pos=0),
        "new files": lambda n: fake_rotate(f"binlog.{n + 2:06}" if by_gtid else NAME),
    }
    sent = (event_packet(kinds[repeated](n), n) for n in range(1 << 20))
    start = [event_packet(fake_rotate(), 0), event_packet(first, 1)]
    with pytest.raises(ServerError, match="artificial events in a row and no event of its log"):
        read(itertools.chain(start, sent), by_gtid=by_gtid)


def test_many_events_of_the_log_that_come_one_by_one() -> None:
    """Events without an end position, as old logs have them, are no artificial ones, however many."""
    first = events_of(small_log())[0]
    body = event(QUERY, b"x" * 13, 0, log_pos=0)
    found = read(packets(fake_rotate(), first, *([body] * 3000)), block_bytes=1 << 20)
    assert sum(len(item.data) for item in found if isinstance(item, Block)) == len(
        first
    ) + 3000 * len(body)


def test_an_event_that_is_left_out_or_comes_twice() -> None:
    events = events_of(small_log())
    for wrong in ([*events[:3], *events[4:]], [*events[:3], events[2], *events[3:]]):
        with pytest.raises(ServerError, match="should follow"):
            read(packets(fake_rotate(), *wrong))


def test_known_transactions_may_be_skipped_by_gtid() -> None:
    log = small_log()
    events = events_of(log)
    items = read(
        packets(fake_rotate(), events[0], heartbeat(log.offsets[5]), *events[5:]),
        by_gtid=True, file="",
    )  # fmt: skip
    first, *rest = blocks_of(items)
    assert (first.start, first.end) == (4, log.offsets[1])
    assert rest[0].start == log.offsets[5]
    assert b"".join(block.data for block in rest) == log.bytes()[log.offsets[5] :]


def test_events_before_a_wrong_checksum_are_delivered() -> None:
    log = small_log()
    events = events_of(log)
    bad = bytearray(events[4])
    bad[25] ^= 1
    got: list[Item] = []
    with sent(packets(fake_rotate(), *events[:4], bytes(bad))) as sock:
        receiver = PlainReceiver(sock)
        reader = PacketReader(receiver, PLAIN_TYPES, 1 << 26, semi_sync=False)
        stream = DumpStream(
            reader, NAME, 4, Progress("mysql", ""), source="", by_gtid=False, verify=True,
            drops=False, gaps=False, block_bytes=1 << 16,
        )  # fmt: skip
        with pytest.raises(ChecksumError) as raised:
            got.extend(stream)
        assert stream.offset == log.offsets[4]
    assert raised.value.event_pos == log.offsets[4]
    assert data_of(got) == log.bytes()[4 : log.offsets[4]]


def test_events_that_are_to_be_skipped_can_be_dropped() -> None:
    log = LogBuilder()
    log.transaction(b"one", gtid=None)
    log.add(QUERY, bytes(30), flags=0x8000)
    log.add(QUERY, bytes(40), flags=0x8000)
    last = log.transaction(b"two", gtid=None)
    kept = log.bytes()[4 : log.offsets[5]] + log.bytes()[last:]
    assert data_of(read(packets(fake_rotate(), *events_of(log)), drops=True)) == kept
    assert data_of(read(packets(fake_rotate(), *events_of(log)))) == log.bytes()[4:]


@pytest.mark.parametrize("size", [MAX_PACKET_BYTES - 1, MAX_PACKET_BYTES, MAX_PACKET_BYTES + 5])
def test_events_of_many_packets(size: int) -> None:
    log = LogBuilder()
    log.add(QUERY, bytes(size - 1 - 19 - 4))
    log.transaction(b"more", gtid=None)
    items = read(packets(fake_rotate(), *events_of(log)), block_bytes=1 << 12)
    assert b"\xfebin" + data_of(items) == log.bytes()


def claims(length: int) -> bytes:
    """An event whose header says that it has so many bytes."""
    raw = bytearray(event(QUERY, bytes(100), 4))
    raw[9:13] = length.to_bytes(4, "little")
    return bytes(raw)


@pytest.mark.parametrize(
    "hostile",
    [
        b"\0\0\0\1",  # an empty packet
        b"\1\0\0\1\x07",  # an unknown status
        b"\3\0\0\1\0xx",  # an event of two bytes
        event_packet(claims(4_000_000_000), 1),
        event_packet(claims(50), 1),
        event_packet(claims(500), 1),
        b"\xff\xff\xff\1\0" + claims(1 << 25) + bytes(MAX_PACKET_BYTES) * 3,
        b"\xff\xff\xff\1\0" + claims(200) + bytes(MAX_PACKET_BYTES),
        event_packet(event(QUERY, b"", 4), 1),  # before any file was named
        b"\xff\xff\xff\1\xff" + bytes(1 << 20),  # an error of 16 megabytes
    ],
    ids=range(10),
)
def test_sizes_that_cannot_be(hostile: bytes) -> None:
    with pytest.raises((BinlogError, EOFError)):
        read([hostile])
    with pytest.raises((BinlogError, EOFError)):
        read([*packets(fake_rotate(), *events_of(small_log()))[:-1], hostile])


@given(noise=st.binary(max_size=400))
@settings(max_examples=60, deadline=None)
def test_any_bytes_give_a_binlog_error_or_an_end(noise: bytes) -> None:
    before = packets(fake_rotate(), *events_of(small_log()))[:-1]
    for head in ([], before):
        try:
            read([*head, noise])
        except (BinlogError, EOFError):
            continue


def test_errors_of_the_source() -> None:
    error = b"\xff\xd4\x04#HY000Could not find first log file name in binary log index file"
    with pytest.raises(ServerError, match="Could not find first log") as raised:
        read(packets(fake_rotate(), *events_of(small_log()), end=error))
    assert (raised.value.code, raised.value.sqlstate) == (1236, "HY000")
    assert str(error_of(b"\xff\xd4\x04")) == "error 1236"


@given(
    number=st.integers(0, 2**32 - 1), host=st.text(max_size=40), user=st.text(max_size=40),
    port=st.integers(0, 65535),
)  # fmt: skip
def test_registrations_round_trip(number: int, host: str, user: str, port: int) -> None:
    given = Registration(number, host, user, "", port)
    assert Registration.decode(given.encode()) == given


@given(
    number=st.integers(0, 2**32 - 1), file=st.from_regex(r"[a-z]{0,9}\.[0-9]{6}", fullmatch=True),
    offset=st.integers(0, 2**32 - 1), flags=st.integers(0, 65535),
)  # fmt: skip
def test_dumps_round_trip(number: int, file: str, offset: int, flags: int) -> None:
    dump = BinlogDump(number, file, offset, flags)
    assert BinlogDump.decode(dump.encode()) == dump
    assert Ack.decode(Ack(file, offset << 20).encode()) == Ack(file, offset << 20)
    gtids = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:tag_a:7")
    by_gtid = BinlogDumpGtid(number, gtids, file, offset << 30, flags)
    assert BinlogDumpGtid.decode(by_gtid.encode()) == by_gtid


@given(raw=st.binary(max_size=80))
def test_commands_of_any_bytes(raw: bytes) -> None:
    for kind in (Registration, BinlogDump, BinlogDumpGtid, Ack):
        try:
            kind.decode(raw)
        except BinlogError:
            continue
    with pytest.raises(MalformedError):
        Registration.decode(b"\1\0\0")


POSITIONS = (1 << 62) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("by_gtid", [False, True])
def test_positions_that_no_file_has(position: int, by_gtid: bool) -> None:
    """They ended in an OverflowError of the kernel, which is not an error of ours."""
    log = events_of(small_log())
    announced = packets(fake_rotate(), *log, fake_rotate("binlog.000002", position), *log)
    with pytest.raises(ServerError, match=f"position binlog.000002:{position}: refused"):
        read(announced, by_gtid=by_gtid)
    with pytest.raises(ServerError, match=f"position {NAME}:{position}: refused"):
        read(packets(fake_rotate(), *log, heartbeat_v2(position), *log), by_gtid=by_gtid)


def test_a_dump_does_not_pass_over_logs_of_a_reset() -> None:
    """MySQL 5.6 continues with the second log after a RESET MASTER; a start after a crash has its time."""
    second = fake_rotate("binlog.000002")
    first = [fake_rotate(), *events_of(small_log())]
    with pytest.raises(
        PositionLostError, match=r"continues with binlog.000002, but binlog.000001 "
    ):
        read(packets(*first, second, *events_of(small_log())))
    crashed = read(packets(*first, second, *events_of(small_log(created=1))))
    assert {item.file for item in blocks_of(crashed)} == {NAME, "binlog.000002"}


def test_a_dump_does_not_go_back_to_an_earlier_log() -> None:
    """Else its rows would be shown twice."""
    log = events_of(small_log(created=1))
    back = packets(fake_rotate(), *log, fake_rotate("binlog.000002"), *log, fake_rotate(), *log)
    with pytest.raises(ServerError, match=r"goes back from binlog.000002 to binlog.000001"):
        read(back)
    renamed = packets(fake_rotate("old.000002"), *log, fake_rotate("new.000001"), *log)
    files = [item.file for item in blocks_of(read(renamed, file="old.000002"))]
    assert list(dict.fromkeys(files)) == ["old.000002", "new.000001"]


@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
def test_an_event_may_not_inflate_without_bound(algorithm: str) -> None:
    """One of a gigabyte took a megabyte to send, and two gigabytes here."""
    log = small_log()
    log.transaction(bytes(40 << 20), gtid=None)
    plain = b"".join(packets(fake_rotate(), *events_of(log)))
    with pytest.raises(ServerError, match="out of proportion") as caught:
        read(compressed_packets(plain, algorithm), compression=algorithm, freely_bytes=1 << 20)
    assert "without the option compress" in (caught.value.hint or "")


@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
def test_an_event_that_is_compressed_well_comes_whole(algorithm: str) -> None:
    log = small_log()
    log.transaction(bytes(20 << 20), gtid=None)
    plain = b"".join(packets(fake_rotate(), *events_of(log)))
    items = read(compressed_packets(plain, algorithm), compression=algorithm)
    assert data_of(items) == bytes(log.data[4:])
