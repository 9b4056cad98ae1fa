"""How far a batch reaches: every boundary of a growing log, limits, GTIDs and times on the way."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.errors import TruncatedError
from binlake.events.common.query import QueryEvent
from binlake.events.common.rows import RowsEvent
from binlake.events.common.status_variables import encode_status
from binlake.events.mysql.transaction_payload import TransactionPayloadEvent
from binlake.format.event_header import HEADER_BYTES
from binlake.source.log_file import LogFile
from binlake.source.resolve import resolve
from binlake.stream.positions.boundary import UNLIMITED, BoundaryScan, Limits, seek
from binlake.stream.positions.compressed_events import CompressedEvents
from binlake.stream.positions.gtid_progress import GtidProgress, shown_before
from binlake.stream.positions.gtid_search import executed
from binlake.values.gtid import GtidSet, MariaGtidIntervals
from support.logs.stream_log import SID, StreamLog, transactions

GOLDEN = Path(__file__).parents[2] / "golden"
LOGS = sorted(GOLDEN.glob("*/transactions/binlog.0*")) + sorted(GOLDEN.glob("*/gtid/binlog.0*"))


def scanned(path: Path, start: int = 4, limits: Limits = UNLIMITED, **more: int) -> BoundaryScan:
    scan = BoundaryScan(limits, GtidProgress())
    with LogFile.open(str(path)) as log:
        scan.as_far_as(log, start, **more)
    return scan


def boundaries(path: Path) -> set[int]:
    """Offsets between two transactions, told by a reader of the whole log."""
    found = set()
    for transaction in transactions(path, uncommitted=True):
        found |= {transaction.start.offset, transaction.end.offset}
    return found


@pytest.mark.parametrize("path", LOGS, ids=lambda path: "/".join(path.parts[-3:]))
def test_one_transaction_at_a_time(path: Path) -> None:
    """Starting anew at every boundary gives the boundaries, times and GTIDs of one walk."""
    whole = scanned(path)
    places, gtids, offset, count = [4], GtidProgress(), 4, 0
    while True:
        scan = BoundaryScan(Limits(transactions=1), gtids)
        with LogFile.open(str(path)) as log:
            scan.as_far_as(log, offset)
        if scan.offset == offset:
            break
        count += scan.transactions
        offset = scan.offset
        places.append(offset)
    assert offset == whole.offset == path.stat().st_size
    assert count == whole.transactions
    assert gtids.text == whole.gtids.text
    known = boundaries(path)
    assert all(place in known for place in places[2:-1])


@pytest.mark.parametrize("path", LOGS, ids=lambda path: "/".join(path.parts[-3:]))
def test_the_gtids_at_the_end_are_those_executed(path: Path) -> None:
    chain = resolve([str(path)])[0]
    held = executed(chain)
    text = scanned(path).gtids.text
    if isinstance(held, GtidSet):
        assert text == str(held)
    else:  # of every server the last: what is missing below is not told
        assert held <= MariaGtidIntervals.parse(shown_before(text))
        assert set(GtidProgress(text).text.split(",")) == set(text.split(","))


def test_the_newest_log_cut_at_every_byte(tmp_path: Path) -> None:
    log = StreamLog().plain(1).plain(2).gtid(3).query(b"CREATE TABLE t (i INT)").plain(4)
    data = log.bytes()
    ends = {start for start, code in zip(log.offsets, log.types, strict=True) if code == 33}
    ends |= {log.offsets[0], log.offsets[1], len(data)}
    path, reached = tmp_path / "binlog.000001", 4
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        scan = scanned(path)
        assert scan.offset in ends
        assert reached <= scan.offset <= max(size, 4)
        reached = scan.offset
    assert reached == len(data)


def test_a_finished_log_ends_at_its_end(tmp_path: Path) -> None:
    """It is followed by another, so that its last transaction will never be whole."""
    path = StreamLog().plain(1).gtid(2).query(b"BEGIN").rows().write(tmp_path)
    scan = BoundaryScan(UNLIMITED, GtidProgress())
    with LogFile.open(str(path)) as log:
        scan.through(log, 4)
    assert scan.offset == path.stat().st_size
    assert scan.gtids.text == f"{SID}:1"
    assert scan.fingerprint is not None
    assert scan.fingerprint.end == scan.offset, "the trail is what is before the place"
    path.write_bytes(path.read_bytes()[:-3])
    with LogFile.open(str(path)) as log, pytest.raises(TruncatedError):
        BoundaryScan(UNLIMITED, GtidProgress()).through(log, 4)


@pytest.mark.parametrize("size", [1, 200, 333, 1000, 5000, 1 << 30])
def test_bytes(size: int, tmp_path: Path) -> None:
    log = StreamLog()
    for gno in range(1, 40):
        log.plain(gno)
    log.gtid(40).query(b"BEGIN").rows(5000).xid().plain(41)
    path = log.write(tmp_path)
    with LogFile.open(str(path)) as opened:
        offset, steps = 4, []
        while offset < len(log.data):
            scan = BoundaryScan(Limits(bytes=size), GtidProgress())
            scan.as_far_as(opened, offset)
            assert scan.offset > offset
            assert scan.bytes == scan.offset - offset
            assert scan.bytes <= size or scan.transactions == 1
            offset = scan.offset
            steps.append(offset)
    assert len(steps) == 1 if size == 1 << 30 else len(steps) > 2
    longer = [b - a for a, b in pairwise(steps)]
    assert max(longer, default=0) > size or size >= 5000


def saved_bytes(one: Any) -> int:
    """How many bytes longer an event is when it is inflated."""
    event: object = one.event
    if isinstance(event, TransactionPayloadEvent):
        return (event.uncompressed_size or 0) - int(one.end_pos - one.pos)
    if isinstance(event, RowsEvent):
        return len(event.inflate()) - len(event.rows)
    if isinstance(event, QueryEvent) and one.type == "QUERY_COMPRESSED_EVENT":
        status = encode_status(event.status_items, event.status_unknown)
        others = HEADER_BYTES + 13 + len(status) + len(event.database) + 1 + 4
        return len(event.sql_raw) - int(one.end_pos - one.pos - others)
    return 0


@pytest.mark.parametrize("server", ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_what_is_compressed_counts_as_much_as_it_inflates_to(server: str) -> None:
    """A batch of small compressed transactions, or of compressed events, does not need more memory than one of others."""
    path = GOLDEN / server / "types-compressed" / "binlog.000001"
    inflated = {
        one.end_pos: saved
        for one in binlake.open(str(path)).events()
        if (saved := saved_bytes(one)) > 0
    }
    assert len(inflated) > 20
    assert sum(inflated.values()) > path.stat().st_size // 2
    limit = 4000
    steps: list[BoundaryScan] = []
    with LogFile.open(str(path)) as opened:
        while not steps or steps[-1].offset < path.stat().st_size:
            scan = BoundaryScan(Limits.of_memory(limit), GtidProgress())
            scan.as_far_as(opened, steps[-1].offset if steps else 4)
            steps.append(scan)
    begins = [4, *(scan.offset for scan in steps)]
    for begin, scan in zip(begins, steps, strict=False):
        saved = sum(size for end, size in inflated.items() if begin < end <= scan.offset)
        assert scan.bytes == scan.offset - begin
        assert scan.transactions == 1 or scan.bytes + saved <= limit
    assert max(scan.transactions for scan in steps) > 1


@pytest.mark.parametrize("window_bytes", [1, 3000, 1 << 20])
def test_compressed_events_in_windows(window_bytes: int) -> None:
    path = GOLDEN / "mariadb-11.8" / "types-compressed" / "binlog.000001"
    sizes = {one.pos: saved_bytes(one) for one in binlake.open(str(path)).events()}
    events = CompressedEvents()
    ends = []
    with LogFile.open(str(path)) as log:
        for window in log.windows(verify=False, window_bytes=window_bytes):
            events.enter(window)
            for end in (window.start, (window.start + window.end) // 2, window.end):
                expected = sum(max(0, size) for pos, size in sizes.items() if pos < end)
                assert events.saved_bytes(end) == expected
                ends.append(end)
    assert ends[-1] == path.stat().st_size


def test_limits_apply_across_files(tmp_path: Path) -> None:
    first = StreamLog().plain(1).plain(2).write(tmp_path, "binlog.000001")
    second = StreamLog().plain(3).plain(4).write(tmp_path, "binlog.000002")
    scan = BoundaryScan(Limits(transactions=3), GtidProgress())
    with LogFile.open(str(first)) as log:
        scan.through(log, 4)
        full_after_one = scan.full
        assert not full_after_one
    with LogFile.open(str(second)) as log:
        scan.as_far_as(log, 4)
    assert scan.full
    assert scan.transactions == 3
    assert scan.gtids.text == f"{SID}:1-3"


def test_a_stop(tmp_path: Path) -> None:
    log = StreamLog().plain(1).plain(2).plain(3)
    path = log.write(tmp_path)
    third = log.offsets[log.types.index(33, log.types.index(33, log.types.index(33) + 1) + 1)]
    scan = scanned(path, stop=third)
    assert (scan.offset, scan.transactions, scan.gtids.text) == (third, 2, f"{SID}:1-2")


def test_a_stop_inside_of_a_transaction_of_a_finished_log(tmp_path: Path) -> None:
    """The boundary is before the transaction; after one that is torn there, it is the stop."""
    torn = StreamLog().plain(1).gtid(2).query(b"BEGIN").rows().plain(3)
    for log in (StreamLog().plain(1).gtid(2).query(b"CREATE TABLE t (i INT)").plain(3), torn):
        path = log.write(tmp_path)
        _, second, third = (
            at for at, code in zip(log.offsets, log.types, strict=True) if code == 33
        )
        for stop in (at for at in log.offsets if second <= at <= third):
            scan = BoundaryScan(UNLIMITED, GtidProgress())
            with LogFile.open(str(path)) as opened:
                scan.through(opened, 4, stop)
            assert scan.offset == (third if stop == third else second), stop


def test_commit_times(tmp_path: Path) -> None:
    log = StreamLog()
    for gno in range(1, 6):
        log.plain(gno, commit_us=1_700_000_000_000_000 + gno)
    path = log.write(tmp_path)
    assert scanned(path).commit_us == 1_700_000_000_000_005
    assert scanned(path, limits=Limits(transactions=2)).commit_us == 1_700_000_000_000_002


def test_rows_need_a_counter() -> None:
    with pytest.raises(ValueError, match="needs a counter"):
        BoundaryScan(Limits(rows=1), GtidProgress())


@pytest.mark.parametrize("wanted", [1, 3, 5, 6])
def test_seek(wanted: int, tmp_path: Path) -> None:
    log = StreamLog()
    for gno in range(1, 6):
        log.plain(gno, commit_us=1_700_000_000_000_000 + gno)
    path, gtids = log.write(tmp_path), GtidProgress()
    since = 1_700_000_000_000_000 + wanted
    with LogFile.open(str(path)) as opened:
        found = seek(
            opened,
            gtids,
            lambda mask: mask.keep_times(since, 1 << 62),
            lambda group: group.commit_us >= since,
        )
    starts = [start for start, code in zip(log.offsets, log.types, strict=True) if code == 33]
    assert found == (None if wanted == 6 else starts[wanted - 1])
    assert gtids.text == ("" if wanted == 1 else f"{SID}:1-{wanted - 1}".replace(":1-1", ":1"))


def test_progress_of_both_flavours() -> None:
    text = "0-1-5,1-2-7,0-3-6"
    assert GtidProgress(text).text == text
    assert shown_before(text) == "0-1:1-5,0-3:1-6,1-2:1-7"
    assert GtidProgress(text).has_all(GtidProgress("0-1-4"))
    assert GtidProgress("0-1-4").lacks(GtidProgress(text)) == "0-1-5,1-2-7,0-3-6"
    mysql = f"{SID}:1-5:8"
    assert GtidProgress(mysql).lacks(GtidProgress(f"{SID}:4-9")) == f"{SID}:6-7:9"
    assert shown_before(mysql) == mysql
    assert GtidProgress("").text == ""


@pytest.mark.parametrize("path", LOGS, ids=lambda path: "/".join(path.parts[-3:]))
def test_the_fingerprint_covers_the_last_events(path: Path, tmp_path: Path) -> None:
    """At every boundary behind the head; and one other byte in it is another log."""
    data = path.read_bytes()
    with LogFile.open(str(path)) as log:
        ends = {w.block.end(i) for w in log.windows() for i in range(len(w))}
        offset, trails = 4, []
        while True:
            scan = BoundaryScan(Limits(transactions=1), GtidProgress())
            scan.as_far_as(log, offset)
            if scan.offset == offset:
                break
            offset = scan.offset
            assert scan.fingerprint is not None
            assert scan.fingerprint.end == offset
            assert scan.fingerprint.start in ends
            assert scan.fingerprint.is_in(log)
            trails.append(scan.fingerprint)
    for fingerprint in trails:
        for place in (fingerprint.start, fingerprint.end - 1):
            other = tmp_path / path.name
            other.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            with LogFile.open(str(other)) as log:
                assert not fingerprint.is_in(log)
            other.write_bytes(data[:place])
            with LogFile.open(str(other)) as log:
                assert not fingerprint.is_in(log)


def test_a_uuid_that_begins_like_a_gtid_of_mariadb() -> None:
    text = "01234567-1111-2222-3333-0123456789ab:1-3:7"
    assert GtidProgress(text).text == text
    assert shown_before(text) == text
    assert GtidProgress("0-1-5,1-1-7").text == "0-1-5,1-1-7"
