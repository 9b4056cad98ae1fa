"""MariaDB's InnoDB binlog, torn, damaged, or with contents that cannot be."""

from __future__ import annotations

import random
import struct
import tracemalloc
from pathlib import Path

import pytest

from binlake.errors import (
    BinlogError,
    ChecksumError,
    FormatError,
    MalformedError,
    TruncatedError,
    UnsupportedError,
)
from binlake.source.log_file import Damage, LogFile
from binlake.values.ledger import Ledger
from support.logs.ibb_log import (
    COMMIT,
    IbbWriter,
    name,
    numbers,
    page_sums,
)
from support.logs.ibb_parts import (
    PAGE,
    annotate,
    chain_bytes,
    gtid,
    log_bytes,
    small,
    transaction,
    xid,
)


def interleaved() -> IbbWriter:
    """Four files: two large transactions among small ones, one of them over all files."""
    writer = small(4)
    long = writer.begin()
    for seq_no in range(1, 9):
        long.out_of_band(annotate(b"long" * 40))
        writer.commit(b"".join(transaction(seq_no, 150)))
    long.out_of_band(xid(9))
    long.commit(gtid(9))
    writer.commit(b"".join(transaction(10, 900)))
    return writer


def test_every_prefix(tmp_path: Path) -> None:
    """The last file yields the same whole events, then the end or a torn tail."""
    images = interleaved().images(allocated=True)
    last = sorted(images)[-2]
    for file, image in images.items():
        if file < last:
            (tmp_path / file).write_bytes(image)
    whole = images[last]
    (tmp_path / last).write_bytes(whole)
    expected = log_bytes(tmp_path / last)
    for cut in range(0, len(whole), 3):
        (tmp_path / last).write_bytes(whole[:cut])
        try:
            found = log_bytes(tmp_path / last)
        except TruncatedError:
            assert cut < 512
        else:
            assert expected.startswith(found)
            assert cut < 512 or found or cut < 3 * PAGE


def test_a_torn_file_that_another_follows(tmp_path: Path) -> None:
    images = interleaved().images()
    for file, image in images.items():
        (tmp_path / file).write_bytes(image)
    (tmp_path / name(1)).write_bytes(images[name(1)][: 2 * PAGE + 100])
    with pytest.raises(TruncatedError, match=r"binlog-000001.ibb, byte 1024 \(page 2\)"):
        log_bytes(tmp_path / name(1))
    ledger = Ledger()
    log_bytes(tmp_path / name(1), Damage.SKIP, ledger)
    assert [(lost.file, lost.why) for lost in ledger.skipped]


def test_a_bad_page(tmp_path: Path) -> None:
    """Only the content of the page is lost, and the position is reported."""
    writer = small(64)
    groups = [b"".join(transaction(n, 300)) for n in range(1, 12)]
    places = [writer.commit(group)[1] for group in groups]
    image = bytearray(writer.images()[name(0)])
    image[4 * PAGE + 77] ^= 1
    path = tmp_path / name(0)
    path.write_bytes(image)
    with pytest.raises(ChecksumError, match=r"byte 2048 \(page 4\): bad checksum of the page"):
        log_bytes(path)
    ledger = Ledger()
    found = log_bytes(path, Damage.SKIP, ledger)
    ends = [*places[1:], len(image)]
    kept = [
        group
        for group, start, end in zip(groups, places, ends, strict=True)
        if end <= 4 * PAGE or start >= 5 * PAGE
    ]
    assert 0 < len(kept) < len(groups)
    # of a transaction that runs into the page, the events before it are there
    assert all(group in found for group in kept)
    assert len(found) < len(b"".join(groups))
    assert len(ledger.skipped) == 1
    assert ledger.files[name(0)].bad == 1


def test_a_bad_page_of_a_tree(tmp_path: Path) -> None:
    """The transaction is lost where it commits; those that are whole are not."""
    writer = small(64)
    big = writer.begin()
    places = [big.out_of_band(annotate(b"n" * 480)) for _ in range(6)]
    writer.commit(b"".join(transaction(1)))
    big.commit(gtid(2))
    writer.commit(b"".join(transaction(3)))
    image = bytearray(writer.images()[name(0)])
    image[places[3][1] + 40] ^= 1
    (tmp_path / name(0)).write_bytes(image)
    ledger = Ledger()
    found = log_bytes(tmp_path / name(0), Damage.SKIP, ledger)
    assert b"".join(transaction(1)) in found
    assert found.endswith(b"".join(transaction(3)))
    assert found.count(annotate(b"n" * 480)) < 6
    assert len(ledger.skipped) == 2, "the page, and the transaction that needs it"


def test_data_behind_an_unused_page(tmp_path: Path) -> None:
    writer = small(64)
    for n in range(1, 9):
        writer.commit(b"".join(transaction(n, 400)))
    image = bytearray(writer.images()[name(0)])
    image[3 * PAGE : 5 * PAGE] = bytes(2 * PAGE)
    (tmp_path / name(0)).write_bytes(image)
    with pytest.raises(FormatError):
        log_bytes(tmp_path / name(0))
    found = log_bytes(tmp_path / name(0), Damage.SKIP)
    assert found.endswith(b"".join(transaction(8, 400)))


def test_a_part_in_a_file_that_is_not_there(tmp_path: Path) -> None:
    images = interleaved().images()
    for file in sorted(images)[1:]:
        (tmp_path / file).write_bytes(images[file])
    last = tmp_path / max(images)
    with pytest.raises(TruncatedError, match=r"binlog-000000\.ibb, which does not exist"):
        chain_bytes(tmp_path)
    ledger = Ledger()
    for path in sorted(tmp_path.iterdir()):
        log_bytes(path, Damage.SKIP, ledger)
    assert len(ledger.skipped) == 1
    assert log_bytes(last, Damage.SKIP).endswith(b"".join(transaction(10, 900)))


def test_a_record_that_continues_in_a_missing_file_is_torn(tmp_path: Path) -> None:
    writer = small(3)
    writer.commit(b"".join(transaction(1, 2000)))
    (tmp_path / name(0)).write_bytes(writer.images()[name(0)])
    with LogFile.open(str(tmp_path / name(0))) as log:
        assert sum(len(window) for window in log.windows()) == 3, "format, list and GTID"
        assert log.tail is not None
        assert log.tail.in_use
        assert "binlog-000001.ibb, which does not exist" in log.tail.message


def commit_of(writer: IbbWriter, *head: int) -> None:
    writer.record(COMMIT, numbers(*head) + gtid(1) + xid(1))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ((1, 0, 0, 0, 9 * PAGE, 0), "lies after the record"),
        ((1, 0, 0, 5, 512, 0), "lies after the record"),
        ((1, 0, 0, 0, 100, 0), "the whole record of type 3 is not there"),
        ((1, 0, 0, 0, PAGE, 0), "the whole record of type 3 is not there"),
        ((2, 0, 0, 0, PAGE + 5, 0), "1 out-of-band records, but the commit record counts 2"),
    ],
)
def test_references_that_lead_nowhere(tmp_path: Path, head: tuple[int, ...], message: str) -> None:
    writer = small(8)
    writer.begin().out_of_band(annotate(b"one"))
    commit_of(writer, *head)
    writer.save(tmp_path)
    with pytest.raises(MalformedError, match=message):
        log_bytes(tmp_path / name(0))


def test_a_tree_that_is_a_circle(tmp_path: Path) -> None:
    """Nodes that name themselves, or two that are one, end with an error, at once."""
    for left, right in (((0, PAGE + 5), (0, PAGE + 5)), ((0, PAGE + 20), (0, PAGE + 5))):
        writer = small(8)
        writer.record(3, numbers(0, 0, 0, 0, 0) + b"leaf")
        node = writer.record(3, numbers(1, *left, *right) + b"node")
        commit_of(writer, 3, 0, PAGE + 5, *node, 0)
        writer.save(tmp_path)
        with pytest.raises(MalformedError, match=r"out-of-band record|the whole record"):
            log_bytes(tmp_path / name(0))


def test_a_long_chain_of_trees(tmp_path: Path) -> None:
    """No forest has so many: the way to the first leaf is not followed to its end."""
    writer = IbbWriter(64, 16384)
    place = (0, 0)
    for index in range(5000):
        place = writer.record(3, numbers(index, 0, 0, *place) + b"x")
    commit_of(writer, 5000, 0, 16384, *place, 0)
    writer.save(tmp_path)
    with pytest.raises(MalformedError, match="out-of-band record"):
        log_bytes(tmp_path / name(0))


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (gtid(1) + xid(1)[:-3], "the group ends inside an event"),
        (gtid(1) + bytes(40), "not an event"),
        (gtid(1) + struct.pack("<IBIIIH", 0, 99, 1, 2**31, 0, 0), "not an event"),
    ],
)
def test_groups_that_are_no_events(tmp_path: Path, events: bytes, message: str) -> None:
    writer = small(8)
    writer.commit(events)
    writer.commit(b"".join(transaction(2)))
    writer.save(tmp_path)
    with pytest.raises(MalformedError, match=message):
        log_bytes(tmp_path / name(0))
    assert log_bytes(tmp_path / name(0), Damage.SKIP).endswith(b"".join(transaction(2)))


def changed(path: Path, offset: int, data: bytes) -> None:
    """Overwrite bytes of a file, and make the checksums of its pages right again."""
    image = bytearray(path.read_bytes())
    image[offset : offset + len(data)] = data
    pages = [image[at : at + PAGE] for at in range(0, len(image), PAGE)]
    path.write_bytes(b"".join(page_sums(page, first=i == 0) for i, page in enumerate(pages)))


@pytest.mark.parametrize(
    ("offset", "data", "kind", "message"),
    [
        (8, b"\x02", UnsupportedError, "version 2 is unknown"),
        (4, b"\x1f", UnsupportedError, "pages of 2\\*\\*31"),
        (16, b"\x07", MalformedError, "has the number 7, which differs"),
        (PAGE, b"\x47", MalformedError, "an unknown type"),
        (PAGE, b"\xc1", MalformedError, None),
        (PAGE + 1, b"\xff\xff", MalformedError, "longer than its page"),
    ],
)
def test_headers_and_chunks_that_cannot_be(
    tmp_path: Path, offset: int, data: bytes, kind: type[BinlogError], message: str | None
) -> None:
    writer = small(8)
    writer.commit(b"".join(transaction(1)))
    (path,) = writer.save(tmp_path)
    changed(path, offset, data)
    if message is None:  # a continuation may come first: its record began in the file before
        assert log_bytes(path) == b"".join(transaction(1))
        return
    with pytest.raises(kind, match=message):
        log_bytes(path)


def test_a_higher_minor_version_may_have_other_records(tmp_path: Path) -> None:
    writer = small(8, minor=1)
    writer.commit(b"".join(transaction(1)))
    writer.record(9, b"something new" * 60)
    writer.commit(b"".join(transaction(2)))
    writer.save(tmp_path)
    assert chain_bytes(tmp_path) == b"".join(transaction(1) + transaction(2))


def test_a_bad_header(tmp_path: Path) -> None:
    writer = small(8)
    writer.commit(b"".join(transaction(1)))
    (path,) = writer.save(tmp_path)
    image = bytearray(path.read_bytes())
    image[30] ^= 1
    path.write_bytes(image)
    with pytest.raises(ChecksumError, match="header of the file has a bad checksum"):
        LogFile.open(str(path))


@pytest.mark.parametrize("seed", range(150))
def test_mutations_with_right_checksums(tmp_path: Path, seed: int) -> None:
    """Events or a BinlogError, whatever the bytes; with on_error=skip too."""
    chance = random.Random(seed)
    images = interleaved().images()
    for file, image in images.items():
        data = bytearray(image)
        for _ in range(chance.choice((0, 1, 2))):
            at = chance.randrange(64, len(data))
            change = chance.choice(
                (b"\x00", b"\xff", b"\x01", b"\x41", b"\xc3", bytes([chance.randrange(256)]))
            )
            data[at : at + 1] = change
        pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
        (tmp_path / file).write_bytes(
            b"".join(page_sums(page, first=i == 0) for i, page in enumerate(pages))
        )
    for damage in Damage:
        for path in sorted(tmp_path.iterdir()):
            try:
                log_bytes(path, damage)
            except BinlogError:
                assert damage is Damage.STOP


def test_memory_of_a_huge_transaction(tmp_path: Path) -> None:
    """A transaction of 24 MB out of band takes as much memory as its largest event."""
    writer = IbbWriter(4096)
    big = writer.begin()
    events = annotate(b"x" * 100_000)
    for _ in range(240):
        big.out_of_band(events)
    big.commit(gtid(1))
    (path,) = writer.save(tmp_path)
    del writer, big
    tracemalloc.start()
    try:
        with LogFile.open(str(path)) as log:
            windows = log.windows(window_bytes=1 << 20)
            count = sum(len(window) for window in windows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 243
    assert peak < 9 << 20
