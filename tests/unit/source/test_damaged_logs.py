"""Damaged logs: where reading stops, what is skipped, and what is said to be lost."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable

import pytest
import zstandard

from binlake.errors import (
    BinlogError,
    ChecksumError,
    ConnectionLostError,
    FormatError,
)
from binlake.format.magic import BINLOG_MAGIC, FIRST_EVENT
from binlake.source.log_file import Damage, LogFile
from binlake.source.streams import StreamReader
from binlake.values.ledger import Ledger
from support.logs.log_builder import (
    ROWS,
    LogBuilder,
)
from support.logs.opened_logs import offsets_of, open_bytes, read, relay_log, shop_log, stream_of


def test_every_damaged_byte_stops_at_its_event() -> None:
    built = shop_log()
    data = built.bytes()
    first = built.offsets[1]
    for at in range(first, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x5A
        index = max(i for i, offset in enumerate(built.offsets) if offset <= at)
        offsets, error = read(open_bytes(bytes(damaged)), window_bytes=5000 if at % 5 else 700)
        assert offsets == built.offsets[:index]
        assert isinstance(error, FormatError)
        assert error.file == "binlog.000001"
        assert error.event_pos == built.offsets[index]


@pytest.mark.parametrize("time_byte", [0, 2, 15, 164, 255])
@pytest.mark.parametrize("server_id", [1, 100, 1000, 0x6E6962FE])
def test_a_log_behind_a_log_is_named(server_id: int, time_byte: int) -> None:
    """The input is that of `cat binlog.000001 binlog.000002 | binlake rows -`. Which check fails depends on the server's
    id, which is read as a length, and on the last byte of the time, which is read as a type.
    """
    first = shop_log().bytes()
    second = bytearray(first)
    second[FIRST_EVENT] = time_byte
    second[FIRST_EVENT + 5 : FIRST_EVENT + 9] = server_id.to_bytes(4, "little")
    offsets, error = read(open_bytes(first + second))
    assert offsets == shop_log().offsets
    assert isinstance(error, FormatError)
    assert error.event_pos == len(first)
    assert "another log begins here" in str(error)


@pytest.mark.parametrize("server_id", [0x0102_0304, 0x0F02_0304])
@pytest.mark.parametrize("length", [3, 19 + 4, 31])
def test_an_event_with_the_magic_as_its_timestamp_is_no_log(server_id: int, length: int) -> None:
    """Unless the highest byte of the server's id is the type of a format description."""
    built = shop_log()
    data = bytearray(built.bytes())
    start = built.offsets[3]
    data[start : start + 13] = (
        BINLOG_MAGIC + b"\x02" + server_id.to_bytes(4, "little") + length.to_bytes(4, "little")
    )
    _, error = read(open_bytes(bytes(data)))
    assert isinstance(error, FormatError)
    assert error.event_pos == start
    assert ("another log begins here" in str(error)) == (server_id >> 24 == 15)


def test_damage_in_the_format_description_is_found() -> None:
    data = shop_log().bytes()
    version = range(
        FIRST_EVENT + 21, FIRST_EVENT + 28
    )  # decides whether there is a checksum at all
    for at in set(range(FIRST_EVENT, shop_log().offsets[1])) - set(version):
        damaged = bytearray(data)
        damaged[at] ^= 0x80
        with pytest.raises(BinlogError):
            list(open_bytes(bytes(damaged)).windows())


def test_a_checksum_error_contains_both_checksums() -> None:
    built = shop_log()
    damaged = bytearray(built.bytes())
    damaged[built.offsets[3] + 25] ^= 1
    ledger = Ledger()
    _, error = read(open_bytes(bytes(damaged)), ledger=ledger)
    assert isinstance(error, ChecksumError)
    assert error.expected != error.actual
    assert error.event_type == "TABLE_MAP_EVENT"
    counts = ledger.file("binlog.000001")
    assert (counts.verified, counts.bad, counts.events) == (3, 1, 3)


@pytest.mark.parametrize("alg", [1, 0])
def test_skip_continues_at_the_next_transaction_and_reports_the_loss(alg: int) -> None:
    built = shop_log(alg)
    data = built.bytes()
    starts = [o for o, t in zip(built.offsets, built.types, strict=True) if t == 33]
    for index in range(1, len(built.offsets)):
        start = built.offsets[index]
        damaged = bytearray(data)
        damaged[start + 9 : start + 13] = b"\x05\0\0\0"  # no length that an event can have
        ledger = Ledger()
        log = open_bytes(bytes(damaged))
        windows = list(log.windows(ledger=ledger, on_damage=Damage.SKIP))
        resumed = next((s for s in starts if s > start), len(data))
        kept = [o for o in built.offsets if o < start or o >= resumed]
        assert offsets_of(iter(windows)) == kept
        (lost,) = ledger.skipped
        assert (lost.file, lost.start, lost.end) == ("binlog.000001", start, resumed)
        assert ledger.file("binlog.000001").bytes + (resumed - start) == len(data)


def test_skip_over_a_wrong_checksum_does_not_look_inside_the_event() -> None:
    """A damaged event whose header is sound ends where it says; its BLOB may hold a log."""
    inner = LogBuilder()
    built = LogBuilder()
    built.transaction(b"a")
    place = len(built.data) + 4 + 500  # roughly where the row's bytes will lie
    inner.data += bytes(place)
    start = built.transaction(b"head" + bytes(50) + shop_log().bytes())
    after = built.transaction(b"b")
    damaged = bytearray(built.bytes())
    rows = max(
        o for o, t in zip(built.offsets, built.types, strict=True) if t == ROWS and o < after
    )
    damaged[rows + 20] ^= 1
    ledger = Ledger()
    list(open_bytes(bytes(damaged)).windows(ledger=ledger, on_damage=Damage.SKIP))
    (lost,) = ledger.skipped
    assert start < lost.start == rows
    assert lost.end == after


def test_skip_survives_damage_everywhere() -> None:
    """Damage in many events: what verifies between is delivered, all bytes are accounted for."""
    built = LogBuilder()
    for n in range(40):
        built.transaction(bytes([n]) * 50)
    starts = [o for o, t in zip(built.offsets, built.types, strict=True) if t == 33]
    damaged = bytearray(built.bytes())
    hurt = starts[3::4]
    for start in hurt:
        damaged[start + 30] ^= 1
    ledger = Ledger()
    log = open_bytes(bytes(damaged))
    offsets = offsets_of(log.windows(ledger=ledger, on_damage=Damage.SKIP, window_bytes=1000))
    assert [r.start for r in ledger.skipped] == hurt
    assert [r.end for r in ledger.skipped] == [
        min((s for s in starts if s > h), default=len(damaged)) for h in hurt
    ]
    assert [o for o in offsets if o in starts] == [s for s in starts if s not in hurt]
    assert ledger.file("binlog.000001").bad == len(hurt)


def test_skip_of_a_torn_tail_is_a_lost_range() -> None:
    built = shop_log()
    data = built.bytes()[:-5]
    ledger = Ledger()
    offsets, error = read(open_bytes(data), ledger=ledger, on_damage=Damage.SKIP)
    assert error is None
    assert offsets == built.offsets[:-1]
    (lost,) = ledger.skipped
    assert (lost.start, lost.end) == (built.offsets[-1], len(data))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_skip_comes_to_an_end_in_damaged_compressed_data(pack: Callable[[bytes], bytes]) -> None:
    built = shop_log()
    packed = pack(built.bytes())
    for at in range(4, len(packed)):
        for damaged in (packed[:at], packed[:at] + bytes((packed[at] ^ 0x55,)) + packed[at + 1 :]):
            ledger, found = Ledger(), 0
            try:
                log = stream_of(damaged)
                for window in log.windows(ledger=ledger, on_damage=Damage.SKIP):
                    found += len(window)
                    assert found <= len(built.offsets)
            except BinlogError:
                continue
            starts = [lost.start for lost in ledger.skipped]
            assert starts == sorted(set(starts))  # each loss is said once
            assert found == len(built.offsets) or ledger.skipped or log.tail


@pytest.mark.parametrize("seed", range(20))
def test_after_any_damage_every_byte_is_delivered_or_reported_lost(seed: int) -> None:
    rng = random.Random(seed)
    for built in (shop_log(), shop_log(0), relay_log()):
        data = bytearray(built.bytes())
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(built.offsets[1], len(data))
            match rng.randrange(4):
                case 0:
                    data[at] ^= rng.randrange(1, 256)
                case 1:
                    del data[at : at + rng.randrange(60)]
                case 2:
                    data[at:at] = rng.randbytes(rng.randrange(60))
                case 3:
                    data[at : at + 4] = rng.choice([b"\xff" * 4, bytes(4), b"\x13\0\0\0"])
        log = open_bytes(bytes(data))
        ledger = Ledger()
        reached = FIRST_EVENT
        for window in log.windows(ledger=ledger, on_damage=Damage.SKIP, window_bytes=300):
            begin, lost_before = window.start, {r.end: r.start for r in ledger.skipped}
            while begin in lost_before:
                begin = lost_before[begin]
            assert begin == reached
            reached = window.end
        lost = sum(r.end - r.start for r in ledger.skipped)
        assert ledger.file("binlog.000001").bytes + lost == len(data)


class LostConnection:
    """A source that sends bytes, and then loses its server."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def read(self, size: int) -> bytes:
        """Return the next bytes. Raises ConnectionLostError after them."""
        if not self._rest:
            raise ConnectionLostError("lost connection to db1")
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def close(self) -> None:
        """Have nothing to close."""


@pytest.mark.parametrize("damaged", [None, 3, -3], ids=["intact", "early", "late"])
def test_a_lost_connection_is_not_skipped_as_damage(damaged: int | None) -> None:
    built = shop_log()
    data = bytearray(built.bytes()[: built.offsets[-2]])
    if (
        damaged is not None
    ):  # after the late one, the search for another transaction reaches the loss
        data[built.offsets[damaged] + 25] ^= 1
    reader = StreamReader("db1", lambda: LostConnection(bytes(data)), reopenable=True)
    ledger = Ledger()
    with LogFile(reader, "binlog.000001") as log, pytest.raises(ConnectionLostError):
        list(log.windows(on_damage=Damage.SKIP, ledger=ledger))
