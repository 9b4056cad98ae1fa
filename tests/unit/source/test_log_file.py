"""Windows: whole, verified events of one format; every ending and every damage told apart."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from pathlib import Path

import pytest

from binlake.background import running
from binlake.errors import (
    ChecksumError,
    FormatError,
    MalformedError,
    SourceError,
    TruncatedError,
    UnsupportedError,
)
from binlake.source.log_file import Damage, LogFile
from binlake.values.frame import EventFormat
from binlake.values.ledger import Ledger
from support.logs.log_builder import (
    ARTIFICIAL,
    GTID,
    IN_USE,
    MAGIC,
    MARIADB_GTID,
    QUERY,
    RELAY,
    ROTATE,
    ROWS,
    LogBuilder,
    header,
)
from support.logs.memory_reader import MemoryReader
from support.logs.opened_logs import offsets_of, open_bytes, read, relay_log, shop_log, stream_of


@pytest.mark.parametrize("window_bytes", [1, 19, 23, 64, 127, 300, 1000, 1 << 20])
@pytest.mark.parametrize(("alg", "version"), [(1, "8.0.36"), (0, "8.0.36"), (None, "5.1.73")])
def test_every_window_size_gives_the_same_events(
    alg: int | None, version: str, window_bytes: int
) -> None:
    built = shop_log(alg, version=version)
    data = built.bytes()
    for log in (open_bytes(data), stream_of(data)):
        with log:
            assert log.format is not None
            assert log.format.checksum_bytes == (4 if alg else 0)
            seen = []
            for window in log.windows(window_bytes=window_bytes):
                assert window.format == log.format
                for i in range(len(window)):
                    frame = window.frame(i)
                    assert bytes(window.raw(i)) == data[frame.offset : frame.end]
                    seen.append(frame.offset)
            assert seen == built.offsets
            assert log.tail is None


@pytest.mark.parametrize("gtid", [GTID, MARIADB_GTID])
@pytest.mark.parametrize("size", [40, 400, 4000])
def test_a_window_ends_before_a_transaction_that_begins_near_its_end(gtid: int, size: int) -> None:
    built = LogBuilder("8.0.36", 1)
    starts = [built.transaction(bytes(size + n % 7), gtid=gtid) for n in range(60)]
    *whole, last = open_bytes(built.bytes()).windows(window_bytes=5000)
    assert len(whole) > 2
    assert last.end == len(built.data)
    gtid_bytes = 19 + 42 + 4
    for window in whole:
        end = window.start + 5000
        near = [at for at in starts if end - 1250 <= at <= end - gtid_bytes]
        events = [at for at in (*built.offsets, len(built.data)) if at <= end]
        assert window.end == (near or events)[-1]


def test_bodies_have_neither_header_nor_checksum() -> None:
    built = LogBuilder(header_length=25)
    built.add(QUERY, b"abc")
    built.add(ROTATE, b"12345678next")
    (window,) = open_bytes(built.bytes()).windows()
    assert bytes(window.body(1)) == b"abc"
    assert bytes(window.body(2)) == b"12345678next"
    assert bytes(window.body(0)[:2]) == b"\x04\x00"


def test_an_event_shorter_than_its_header_is_malformed() -> None:
    built = LogBuilder(header_length=40)
    start = len(built.data)
    built.data += header(QUERY, 30, start + 30) + bytes(7)
    built.data += struct.pack("<I", __import__("zlib").crc32(built.data[start:]))
    (window,) = open_bytes(built.bytes()).windows()
    with pytest.raises(MalformedError, match="room") as caught:
        window.body(1)
    assert caught.value.event_pos == start


def test_stop_and_start_select_the_events_that_start_between() -> None:
    built = shop_log()
    log = open_bytes(built.bytes())
    for stop in range(0, len(built.data) + 2, 7):
        expected = [offset for offset in built.offsets if offset < stop]
        assert offsets_of(log.windows(stop=stop)) == expected
    for index, start in enumerate(built.offsets):
        assert offsets_of(log.windows(start, window_bytes=100)) == built.offsets[index:]


def test_every_cut_is_a_torn_tail_behind_all_whole_events() -> None:
    built = shop_log()
    data = built.bytes()
    ends = [*built.offsets[1:], len(data)]
    for cut in range(len(data)):
        whole = [start for start, end in zip(built.offsets, ends, strict=True) if end <= cut]
        log = (stream_of if cut % 2 else open_bytes)(data[:cut])
        with log:
            offsets, error = read(log, window_bytes=5000 if cut % 5 else 500)
            assert offsets == whole
            if whole and cut == ends[len(whole) - 1]:
                assert error is None
                assert log.tail is None
            else:
                assert isinstance(error, TruncatedError)
                assert error.kind == "torn tail"
                assert log.tail is not None
                assert not log.tail.in_use
                assert log.tail.offset + log.tail.size == cut


def test_every_cut_of_a_file_in_use_is_normal() -> None:
    built = shop_log(flags=IN_USE)
    data = built.bytes()
    ends = [*built.offsets[1:], len(data)]
    for cut in range(ends[0], len(data)):
        log = open_bytes(data[:cut])
        assert log.in_use
        ledger = Ledger()
        offsets, error = read(log, ledger=ledger)
        assert error is None
        assert offsets == [s for s, e in zip(built.offsets, ends, strict=True) if e <= cut]
        assert (log.tail is None) == (cut in ends)
        assert log.tail is None or (log.tail.in_use and log.tail.offset in built.offsets)
        assert ledger.skipped == []


@pytest.mark.parametrize("data", [b"", MAGIC[:3], MAGIC, MAGIC + bytes(10)])
def test_a_file_without_a_format_is_nothing_but_a_tail(data: bytes) -> None:
    log = open_bytes(data)
    assert log.format is None
    with pytest.raises(TruncatedError):
        list(log.windows())
    assert log.tail is not None
    assert log.tail.size == len(data)
    assert list(log.windows(on_damage=Damage.SKIP)) == []


def test_reserved_space_that_was_never_written_is_a_torn_tail() -> None:
    built = shop_log()
    data = built.bytes() + bytes(100_000)
    log = open_bytes(data)
    offsets, error = read(log)
    assert offsets == built.offsets
    assert isinstance(error, TruncatedError)
    assert log.tail is not None
    assert log.tail.size == 100_000
    offsets, error = read(open_bytes(data + b"x"))
    assert offsets == built.offsets
    assert isinstance(error, MalformedError), "something follows the zero bytes"


@pytest.mark.parametrize(
    "garbage",
    [b"garbage, and not a header " * 9, b"\xff" * 200, b"\x01" * 19],
    ids=["text", "ff", "01"],
)
def test_bytes_that_are_no_header_are_no_torn_tail(garbage: bytes) -> None:
    built = shop_log()
    log = open_bytes(built.bytes() + garbage)
    offsets, error = read(log)
    assert offsets == built.offsets
    assert isinstance(error, MalformedError)
    assert error.event_pos == len(built.data)
    assert log.tail is None


def test_a_claimed_length_takes_no_memory_before_the_bytes_are_there() -> None:
    built = shop_log()
    at = len(built.data)
    claim = 1 << 30
    for log_pos in (at + claim, 77):
        data = built.bytes() + header(ROWS, claim, log_pos) + bytes(50)
        for log in (open_bytes(data), stream_of(data)):
            tracemalloc.start()
            _, error = read(log)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert isinstance(error, FormatError)
            assert peak < 4 << 20


def test_an_event_longer_than_the_window_is_read_whole_and_once() -> None:
    built = LogBuilder()
    built.transaction(b"x", bytes(300_000), b"y")
    log = open_bytes(built.bytes())
    assert offsets_of(log.windows(window_bytes=1000)) == built.offsets
    assert isinstance(log.reader, MemoryReader)
    assert log.reader.largest == 300_023


@pytest.mark.parametrize("window_bytes", [1, 100, 1 << 20])
def test_a_relay_log_changes_format_inside(window_bytes: int) -> None:
    built = relay_log()
    log = open_bytes(built.bytes())
    assert log.is_relay
    seen: list[tuple[int, EventFormat]] = [
        (window.frame(i).offset, window.format)
        for window in log.windows(window_bytes=window_bytes)
        for i in range(len(window))
    ]
    assert [offset for offset, _ in seen] == built.offsets
    versions = [fmt.server_version for _, fmt in seen]
    assert versions == ["8.0.36"] * 2 + ["5.5.62"] * 3 + ["8.0.36"] * (len(seen) - 5)
    for offset, fmt in seen:
        assert log.format_at(offset) == fmt
        assert next(log.windows(offset)).format == fmt


def test_a_format_with_a_wrong_checksum_is_not_followed() -> None:
    """The damage may be in its description of the events after it."""
    built = LogBuilder("8.0.36", 1, RELAY)
    built.add(ROTATE, struct.pack("<Q", 4) + b"source.000001", log_pos=0, flags=ARTIFICIAL)
    built.transaction(b"abc")
    damaged = built.add_format("8.0.36", 1, log_pos=126)
    built.transaction(b"def")
    data = built.data
    end = built.offsets[built.offsets.index(damaged) + 1]
    data[end - 5] = 0  # no checksums, it says
    with pytest.raises(ChecksumError) as caught:
        list(open_bytes(bytes(data)).windows())
    assert caught.value.event_pos == damaged
    ledger = Ledger()
    log = open_bytes(bytes(data))
    windows = list(log.windows(ledger=ledger, on_damage=Damage.SKIP))
    assert {window.format.checksum_bytes for window in windows} == {4}
    assert [(lost.start, lost.end) for lost in ledger.skipped] == [(damaged, end)]
    assert windows[-1].end == len(data)


def test_old_relay_logs_are_known_by_their_rotate() -> None:
    built = LogBuilder("5.0.58", None)
    built.add(ROTATE, struct.pack("<Q", 4) + b"master-bin.000001", log_pos=0)
    assert open_bytes(built.bytes()).is_relay
    built = LogBuilder("5.0.58", None)
    built.add(ROTATE, struct.pack("<Q", 4) + b"master-bin.000002")
    assert not open_bytes(built.bytes()).is_relay


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (b"\xfdbin" + bytes(600), UnsupportedError, "encryption"),
        (b"PK\x03\x04 and more", SourceError, "not a binary log"),
        (
            MAGIC + header(1, 75, 79) + b"\x02" + bytes(55),
            UnsupportedError,
            "version 2, of the alphas",
        ),
        (MAGIC + header(1, 75, 79) + b"\x05" + bytes(55), UnsupportedError, "version 5"),
        (MAGIC + header(1, 75, 79) + b"\x01" + bytes(55), MalformedError, "of version 1"),
        (MAGIC + header(1, 69, 0)[:13] + b"\x03" + bytes(55), MalformedError, "of version 3"),
        (MAGIC + header(1, 1 << 30, 79) + bytes(56), MalformedError, "START_EVENT_V3"),
        (MAGIC + header(4, 43, 47) + bytes(24), MalformedError, "FORMAT_DESCRIPTION"),
        (MAGIC + header(15, 1 << 30, 0) + bytes(99), MalformedError, "FORMAT_DESCRIPTION"),
    ],
)
def test_unsupported_files_raise_an_error(data: bytes, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        open_bytes(data)


def test_an_encrypted_rest_is_refused_after_unencrypted_events() -> None:
    built = LogBuilder("10.11.6-MariaDB")
    built.add(164, bytes(17))
    built.data += b"\x99" * 300
    offsets, error = read(open_bytes(built.bytes()))
    assert offsets == built.offsets[:1]
    assert isinstance(error, UnsupportedError)
    assert error.event_pos == built.offsets[1]


def test_the_ledger_counts_delivered_events() -> None:
    built = shop_log()
    ledger = Ledger()
    list(open_bytes(built.bytes()).windows(ledger=ledger, window_bytes=333))
    counts = ledger.file("binlog.000001")
    assert counts.bytes == len(built.data)  # the magic, too
    assert counts.events == counts.verified == len(built.offsets)
    assert counts.events_by_type == {t: built.types.count(t) for t in set(built.types)}
    ledger = Ledger()
    list(open_bytes(built.bytes()).windows(ledger=ledger, verify=False))
    assert ledger.file("binlog.000001").unchecked == len(built.offsets)


def test_windows_read_unverified_can_be_verified_later() -> None:
    built = shop_log()
    damaged = bytearray(built.bytes())
    damaged[built.offsets[5] + 20] ^= 1
    (window,) = open_bytes(bytes(damaged)).windows(verify=False)
    window.verify(0, 5)
    window.verify(6, len(window))
    with pytest.raises(ChecksumError) as caught:
        window.verify(0, len(window))
    assert caught.value.event_pos == built.offsets[5]


def scan_threads() -> list[str]:
    return [name for name in running() if name == "binlake-scan"]


def test_no_thread_is_left_when_the_reader_stops_early_or_fails() -> None:
    built = shop_log()
    data = built.bytes()
    windows = open_bytes(data).windows(window_bytes=200)
    next(windows)
    assert scan_threads()
    windows.close()  # type: ignore[attr-defined]
    assert scan_threads() == []

    def fail_inside() -> None:
        for _ in open_bytes(data).windows(window_bytes=200):
            raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError):
        fail_inside()
    assert scan_threads() == []
    assert isinstance(read(open_bytes(data[:-3]), window_bytes=200)[1], TruncatedError)
    assert scan_threads() == []
    list(open_bytes(data).windows(window_bytes=200))
    assert scan_threads() == []


def test_a_pipe_is_not_read_ahead() -> None:
    windows = stream_of(shop_log().bytes()).windows(window_bytes=200)
    next(windows)
    assert scan_threads() == []


def test_a_cut_compressed_log_gives_its_whole_events_first(tmp_path: Path) -> None:
    built = shop_log()
    packed = gzip.compress(built.bytes())
    path = tmp_path / "binlog.000001.gz"
    path.write_bytes(packed)
    with LogFile.open(str(path)) as log:
        assert log.name == "binlog.000001"
        assert offsets_of(log.windows()) == built.offsets
        assert offsets_of(log.windows()) == built.offsets, "a file can be read twice"
    path.write_bytes(packed[:-30])
    with LogFile.open(str(path)) as log:
        offsets, error = read(log)
        assert offsets == built.offsets[: len(offsets)]
        assert isinstance(error, TruncatedError)
        assert "gzip" in str(error)
        assert log.tail is None


def test_a_stream_can_be_read_again_where_it_was_retained() -> None:
    built = LogBuilder("10.6.5-MariaDB")
    for _n in range(50):
        built.transaction(bytes(300), gtid=MARIADB_GTID)
    log = stream_of(built.bytes())
    windows = log.windows(window_bytes=1000)
    first = next(windows)
    log.reader.retain(first.start)
    for _ in range(5):
        last = next(windows)
    again = offsets_of(log.windows(first.start, last.end))
    assert again == [o for o in built.offsets if o < last.end]
    log.reader.retain(None)
    assert last.end < offsets_of(windows)[-1]
    with pytest.raises(SourceError, match="already passed"):
        list(log.windows(first.start, last.end))
