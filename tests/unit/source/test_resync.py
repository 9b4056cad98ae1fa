"""From any byte to the next transaction: the same answer as reading from the beginning.

The reference reads the whole log in order. The search must agree with it for every byte, also
where it may look only a little around the byte, and where BLOBs hold pieces of logs: of other
logs, of this one, and pieces made to fit the very place where they lie.
"""

from __future__ import annotations

import os
import random
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from binlake.core.events.frames import first_unanchored
from binlake.errors import BinlogError
from binlake.events.body.reader import BodyReader
from binlake.events.common.format_description import effective_type
from binlake.events.common.query import QueryEvent
from binlake.format.magic import FIRST_EVENT
from binlake.source.log_file import LogFile
from binlake.source.reader import ByteReader
from binlake.source.resync import END, SearchLimits, first_frame, first_sync, first_sync_before
from support.logs.log_builder import (
    GTID,
    MAGIC,
    MARIADB_GTID,
    QUERY,
    RELAY,
    ROTATE,
    ROWS,
    TABLE_MAP,
    XID,
    LogBuilder,
    event,
    query_body,
)
from support.logs.mutations import every_or_some, frames

# Small enough that the beginning of the log is out of reach almost everywhere.
SOME_BYTES = 100
SOME_BYTES_OF_HOSTILE = 400  # its forged events have bounds of their own
NEAR = SearchLimits(before_bytes=2000, after_bytes=500)
DEFAULT = SearchLimits()


class MemoryReader(ByteReader):
    """Bytes that lie at `base` of a larger file; what is before them is zero bytes."""

    def __init__(self, data: bytes, base: int = 0) -> None:
        self.name = "binlog.000001"
        self.data = data
        self.base = base
        self.size: int = base + len(data)
        self.bytes_read = 0

    def read_at(self, offset: int, size: int) -> bytes:
        size = max(0, min(size, self.size - offset))
        self.bytes_read += size
        before = max(0, min(size, self.base - offset))
        start = max(offset - self.base, 0)
        return bytes(before) + self.data[start : start + size - before]

    def close(self) -> None:
        pass


def open_log(data: bytes) -> LogFile:
    return LogFile(MemoryReader(data), "binlog.000001")


def reference(log: LogFile) -> tuple[list[int], list[int]]:
    """Read in order: the offsets of all events, and where transactions start."""
    assert log.format is not None
    opens_with_gtid = log.format.version >= (
        (10, 0, 2) if log.format.flavour == "mariadb" else (5, 7, 6)
    )
    events, starts = [], []
    for window in log.windows():
        for i in range(len(window)):
            frame = window.frame(i)
            events.append(frame.offset)
            if opens_with_gtid:
                if frame.type_code in (33, 34, 42, 162):
                    starts.append(frame.offset)
            elif effective_type(frame.type_code, window.format) == XID:
                starts.append(frame.end)
            elif frame.type_code == QUERY:
                query = QueryEvent.decode(frame, BodyReader(window.body(i)), window.format)
                if query.sql_raw.upper() in (b"COMMIT", b"ROLLBACK"):
                    starts.append(frame.end)
    return events, starts


def expected_sync(log: LogFile, at: int, events: list[int], starts: list[int]) -> int:
    """By the rule: the first start at or after `at`; without GTIDs an end that was *seen* counts,
    so only events at or after `at` do."""
    assert log.size is not None
    assert log.format is not None
    if at <= FIRST_EVENT:
        return FIRST_EVENT
    if log.format.version >= ((10, 0, 2) if log.format.flavour == "mariadb" else (5, 7, 6)):
        return next((s for s in starts if s >= at), log.size)
    first = next((e for e in events if e >= at), log.size)
    return next((s for s in starts if s > first), log.size)


def bounds(data: bytes) -> list[int]:
    """Where the events of a log begin."""
    return [at for at, _, _ in frames(data)]


def check(data: bytes, places: Sequence[int], limits: SearchLimits) -> None:
    log = open_log(data)
    events, starts = reference(log)
    assert log.size is not None
    assert log.format is not None
    # An event without a position (MariaDB since 11.7) is found only by the chain from before it.
    exact = limits is DEFAULT or all(p for w in log.windows() for p in w.block.log_pos[: len(w)])
    for at in places:
        frame = next((e for e in events if e >= at), log.size)
        if exact:
            assert first_frame(log.reader, log.format, at, log.size, limits) == frame, at
        assert first_sync(log, at, limits) == expected_sync(log, at, events, starts), at


def plain_log(version: str, alg: int | None, gtid: int | None) -> LogBuilder:
    rng = random.Random(7)
    log = LogBuilder(version, alg)
    for _ in range(12):
        log.transaction(
            *(rng.randbytes(rng.randrange(300)) for _ in range(rng.randrange(1, 4))), gtid=gtid
        )
    log.add(ROTATE, struct.pack("<Q", 4) + b"binlog.000002")
    return log


@pytest.mark.fuzz
@pytest.mark.parametrize("limits", [NEAR, DEFAULT], ids=["near", "default"])
@pytest.mark.parametrize(
    ("version", "gtid", "alg"),
    [
        *(
            (version, gtid, alg)
            for version, gtid in (("8.0.36", GTID), ("10.6.5-MariaDB", MARIADB_GTID), ("5.6.40", GTID))
            for alg in (1, 0)
        ),
        ("5.5.62", None, None),  # it has no algorithm, the others always have one
    ],
)  # fmt: skip
def test_every_byte(version: str, gtid: int | None, alg: int | None, limits: SearchLimits) -> None:
    data = plain_log(version, alg, gtid).bytes()
    check(data, every_or_some(range(len(data) + 2), SOME_BYTES, bounds(data)), limits)


@pytest.mark.parametrize(
    ("version", "gtid", "positions"),
    [("8.0.36", GTID, True), ("5.5.62", None, True), ("11.8.2-MariaDB", MARIADB_GTID, False)],
)
def test_a_search_between_two_bytes_does_not_read_a_long_transaction(
    version: str, gtid: int | None, positions: bool
) -> None:
    """MariaDB since 11.7 writes no position into the events inside of a transaction."""
    log = LogBuilder(version, 1)
    log.transaction(b"x", gtid=gtid)
    start = len(log.data)
    if gtid is not None:
        log.add(gtid, bytes(42))
    log.add(QUERY, query_body(b"BEGIN"))
    position = {} if positions else {"log_pos": 0}
    for _ in range(1000):
        log.add(TABLE_MAP, b"\x01" * 40, **position)
        log.add(ROWS, bytes(8000), **position)
    log.add(XID, struct.pack("<Q", start))
    log.transaction(b"y", gtid=gtid)
    data = log.bytes()
    size = len(data)
    reader = MemoryReader(data)
    file = LogFile(reader, "binlog.000001")
    for at in range(size // 8, size - size // 4, size // 8):
        reader.bytes_read = 0
        assert first_sync_before(file, at, at + 10_000, NEAR) is None
        assert reader.bytes_read < size // 2
        assert first_sync(file, at, NEAR) == first_sync(file, at + 10_000, NEAR)
    for at in range(0, size, size // 50):
        border = first_sync(file, at, NEAR)
        assert first_sync_before(file, at, END, NEAR) == border
        assert first_sync_before(file, at, at + 10_000, NEAR) in (
            {None, border} if border > at + 10_000 else {border}
        )


def test_statements_end_transactions_where_there_is_no_xid() -> None:
    log = LogBuilder("5.5.62", None)
    for sql in (
        b"BEGIN",
        b"COMMIT",
        b"BEGIN",
        b"rollback",
        b"BEGIN",
        b"ROLLBACK TO a",
        b"x\0COMMIT",
    ):
        log.add(QUERY, query_body(sql))
    data = log.bytes()
    check(data, range(len(data)), NEAR)


def pieces_at(place: int, length: int, alg: int = 1) -> bytes:
    """Whole transactions, with positions and checksums right for events that lie at `place`."""
    made = bytearray()
    while len(made) < length:
        for type_code, body in (
            (GTID, bytes(42)),
            (QUERY, query_body(b"BEGIN")),
            (ROWS, b"forged"),
            (XID, bytes(8)),
        ):
            made += event(type_code, body, place + len(made), crc=alg == 1)
    return bytes(made)


def forge_crc(prefix: bytes) -> bytes:
    """Four bytes after which the CRC32 of `prefix` is that of nothing: 0."""
    table = []
    for n in range(256):
        c = n
        for _ in range(8):
            c = (c >> 1) ^ (0xEDB88320 if c & 1 else 0)
        table.append(c)
    by_high = {entry >> 24: index for index, entry in enumerate(table)}
    state = zlib.crc32(prefix) ^ 0xFFFFFFFF
    wanted = 0xFFFFFFFF
    for _ in range(4):
        index = by_high[wanted >> 24]
        wanted = ((wanted ^ table[index]) << 8 | index) & 0xFFFFFFFF
    patch = struct.pack("<I", wanted ^ state)
    assert zlib.crc32(prefix + patch) == 0
    return patch


def test_forging_works() -> None:
    for text in (b"", b"abc", bytes(1000)):
        assert zlib.crc32(text + forge_crc(text) + b"xyz") == zlib.crc32(b"xyz")


def hostile_log(alg: int = 1) -> LogBuilder:
    """Rows that hold: another log, this log so far, and events made for the place they lie at.

    The last of those even lead on into the real events behind their row: the forged chain ends
    in an event that shares its last byte, and its checksum, with the row's own event.
    """
    rng = random.Random(11)
    log = LogBuilder("8.0.36", alg)
    log.transaction(b"start")
    for round_ in range(3):
        log.transaction(plain_log("8.0.36", alg, GTID).bytes()[: 900 + 100 * round_])
        log.transaction(b"before" + log.bytes()[-700:])
        # a row at a known place: GTID, BEGIN, TABLE_MAP come first
        place = _row_place(log)
        log.transaction(b"x" * 9 + pieces_at(place + 9, 600, alg) + rng.randbytes(50))
        place = _row_place(log)
        log.transaction(pieces_at(place, 500, alg))  # ends with the row
        log.transaction(b"small")
        if alg:
            _add_merging(log)
    return log


def _row_place(log: LogBuilder) -> int:
    """Where the body of the first rows event of the next transaction will lie."""
    trial = LogBuilder(log.version, log.alg)
    trial.data = bytearray(log.data)
    trial.transaction(b"")
    return trial.offsets[-2] + 19


def _add_merging(log: LogBuilder) -> None:
    """A row whose forged events end in one that ends exactly where the row's event does."""
    place = _row_place(log)
    forged = pieces_at(place + 4, 300)
    tail_at = place + 4 + len(forged) + 4
    tail_length = 19 + 40 + 4
    outer_length = 19 + 4 + len(forged) + 4 + tail_length
    outer = struct.pack(
        "<IBIIIH", 1_700_000_000, ROWS, 1, outer_length, place - 19 + outer_length, 0
    )
    tail = event(GTID, bytes(40), tail_at)
    prefix = outer + b"head" + forged
    body = b"head" + forged + forge_crc(prefix) + tail[:-4]
    start = log.transaction(body)
    rows = next(o for o, t in zip(log.offsets, log.types, strict=True) if t == ROWS and o > start)
    assert log.data[rows + outer_length - 4 : rows + outer_length] == tail[-4:], (
        "they share the CRC"
    )


@pytest.mark.fuzz
@pytest.mark.parametrize("limits", [NEAR, DEFAULT], ids=["near", "default"])
@pytest.mark.parametrize("alg", [1, 0])
def test_every_byte_of_a_log_that_holds_logs(alg: int, limits: SearchLimits) -> None:
    data = hostile_log(alg).bytes()
    check(data, every_or_some(range(len(data) + 1), SOME_BYTES_OF_HOSTILE, bounds(data)), limits)


def test_forged_events_fool_a_search_without_context_and_that_is_seen() -> None:
    """Beyond the limits a forged chain can win. The reader of the range before it notices."""
    log_data = LogBuilder()
    log_data.transaction(b"start")
    _add_merging(log_data)
    log_data.transaction(b"end")
    log = open_log(log_data.bytes())
    events, _ = reference(log)
    rows = max(
        o
        for o, t in zip(log_data.offsets, log_data.types, strict=True)
        if t == ROWS and o < events[-4]
    )
    blind = SearchLimits(before_bytes=0, after_bytes=0)
    border = first_sync(log, rows + 19, blind)
    assert border not in events, "this test needs a search that is fooled"
    *_, last = log.windows(stop=border)
    assert last.end > border, "the event before the border reaches over it"


def test_positions_beyond_4_gib_wrap() -> None:
    base = (1 << 32) - 3000
    log = LogBuilder()
    shifted = bytearray()
    offsets = []
    for n in range(60):
        offsets.append(base + len(shifted))
        shifted += event(GTID if n % 4 == 0 else ROWS, bytes(100), base + len(shifted))
    reader = MemoryReader(bytes(shifted), base)
    fmt = open_log(log.bytes()).format
    assert fmt is not None
    for at in range(base, reader.size, 7):
        expected = next((o for o in offsets if o >= at), reader.size)
        assert first_frame(reader, fmt, at, reader.size, NEAR) == expected


def test_relay_logs_and_streams_are_one_split() -> None:
    log = LogBuilder(flags=RELAY)
    log.transaction(b"abc")
    relay = open_log(log.bytes())
    assert relay.is_relay
    assert [first_sync(relay, at) for at in (0, 4, 5, 999)] == [4, 4, relay.size, relay.size]
    import io

    from binlake.source.streams import StreamReader

    data = plain_log("8.0.36", 1, GTID).bytes()
    stream = LogFile(StreamReader("-", lambda: io.BytesIO(data), reopenable=False), "-")
    assert [first_sync(stream, at) for at in (0, 4, 5)] == [4, 4, END]
    assert list(stream.windows(END)) == []


def test_files_without_events_and_places_behind_the_end() -> None:
    for data in (b"", MAGIC, MAGIC + bytes(5)):
        log = open_log(data)
        assert first_sync(log, 0) == FIRST_EVENT
        assert first_sync(log, 5) == len(data)
    data = plain_log("8.0.36", 1, GTID).bytes()
    assert first_sync(open_log(data), len(data) + 100) == len(data)


def test_the_search_reads_around_the_place_not_the_whole_log() -> None:
    log = LogBuilder()
    for _n in range(3000):
        log.transaction(bytes(5000))
    reader = MemoryReader(log.bytes())
    file = LogFile(reader, "binlog.000001")
    reader.bytes_read = 0
    at = len(log.data) * 2 // 3
    assert first_sync(file, at) == next(
        o for o, t in zip(log.offsets, log.types, strict=True) if t == GTID and o >= at
    )
    assert reader.bytes_read < 6 << 20 < len(log.data)


def test_a_torn_tail_does_not_hide_the_transactions_before_it() -> None:
    built = plain_log("8.0.36", 1, GTID)
    data = built.bytes()
    starts = [o for o, t in zip(built.offsets, built.types, strict=True) if t == GTID]
    for cut in range(starts[-1], len(data), 3):
        log = open_log(data[:cut])
        whole = [s for s in starts if next(e for e in [*built.offsets, len(data)] if e > s) <= cut]
        for at in (starts[-2] - 1, starts[-2] + 1, starts[-1]):
            assert first_sync(log, at, NEAR) == next((s for s in whole if s >= at), cut)


def corpus_files() -> list[Path]:
    root = os.environ.get("BINLAKE_CORPUS")
    if not root:
        return []
    names = [p for p in Path(root).rglob("*") if p.is_file() and p.suffix not in (".gz", ".csv")]
    return sorted(p for p in names if p.read_bytes()[:4] == MAGIC)


def _ends_within(data: bytes, at: int) -> None:
    """A search finds a place of the file, from `at` on, or raises an error of ours."""
    try:
        log = open_log(data)
        found = first_sync(log, at)
    except BinlogError:
        return
    assert max(at, FIRST_EVENT) <= found <= max(at, len(data))


@pytest.mark.parametrize("path", corpus_files(), ids=lambda p: "/".join(p.parts[-3:]))
def test_every_corpus_file(path: Path) -> None:
    """Every byte of small files, random ones of larger: with the default limits, and near ones."""
    data = path.read_bytes()
    rng = random.Random(zlib.crc32(path.name.encode()))
    small = len(data) <= 3000
    places = range(len(data) + 1) if small else sorted(rng.randrange(len(data)) for _ in range(60))
    try:
        log = open_log(data)
        list(log.windows())
        events, _ = reference(log)
    except BinlogError:  # damaged, encrypted, of an unknown version: nothing to compare with
        for at in places:
            _ends_within(data, at)
        return
    if log.is_relay:
        for at in places:
            assert first_sync(log, at) == (FIRST_EVENT if at <= FIRST_EVENT else log.size), at
        return
    check(data, places, DEFAULT)
    if any(first_unanchored(w.block, 0, len(w)) >= 0 for w in log.windows()):
        return  # made by hand, or by 5.1's cache: only reading from the beginning helps
    longest = max(b - a for a, b in zip(events, [*events[1:], len(data)], strict=True))
    before = 2 * longest + 4000
    check(data, places, SearchLimits(before_bytes=before, after_bytes=1000))
