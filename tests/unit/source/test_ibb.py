"""MariaDB's InnoDB binlog as a log: chunks, trees, what is torn, damaged or not there.

The writer is the tests' own (`tests/support/logs/ibb_log.py`). Most files have pages of 512 bytes, the smallest
that the format can say, so that a few transactions cross many pages and files.

Long: every rule of the format, and every way to break it, once.
"""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from binlake.errors import (
    BinlogError,
    ChecksumError,
    FormatError,
    MalformedError,
    TruncatedError,
    UnsupportedError,
)
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.source.chain import resolve
from binlake.source.ibb_records import read_compressed
from binlake.source.log_file import Damage, LogFile
from binlake.stream.log_reader import LogReader
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.ibb_log import (
    COMMIT,
    DUMMY,
    GTID_STATE,
    IbbWriter,
    compressed,
    crc32c,
    name,
    numbers,
    page_sums,
)

PAGE = 512


def gtid(seq_no: int, domain: int = 0, server: int = 1) -> bytes:
    """A GTID event of a transaction (flags2: transactional)."""
    return event(162, struct.pack("<QIB6x", seq_no, domain, 4), server)


def event(kind: int, body: bytes, server: int = 1) -> bytes:
    return struct.pack("<IBIIIH", 1_700_000_000, kind, server, 19 + len(body), 0, 0) + body


def annotate(text: bytes) -> bytes:
    return event(160, text)


def xid(number: int) -> bytes:
    return event(16, struct.pack("<Q", number))


def transaction(seq_no: int, size: int = 10) -> list[bytes]:
    """GTID, a statement of `size` bytes, COMMIT."""
    return [gtid(seq_no), annotate(bytes([65 + seq_no % 26]) * size), xid(seq_no)]


def small(pages_per_file: int = 4, **options: int) -> IbbWriter:
    return IbbWriter(pages_per_file, PAGE, **options)


def log_bytes(path: Path, on_damage: Damage = Damage.STOP, ledger: Ledger | None = None) -> bytes:
    """All events of the log that a file is, behind those that are made up."""
    with LogFile.open(str(path)) as log:
        windows = log.windows(on_damage=on_damage, ledger=ledger)
        events = [bytes(w.raw(i)) for w in windows for i in range(len(w))]
    return b"".join(raw for raw in events if raw[4] not in (15, 163))


def chain_bytes(directory: Path, on_damage: Damage = Damage.STOP) -> bytes:
    return b"".join(log_bytes(path, on_damage) for path in sorted(directory.glob("*.ibb*")))


# --- numbers, chunks, trees ---


@given(st.integers(0, 2**64 - 1))
def test_compressed_numbers(value: int) -> None:
    data = compressed(value)
    assert read_compressed(b"x" + data + b"y", 1) == (value, 1 + len(data))
    for cut in range(len(data)):
        with pytest.raises(TruncatedError):
            read_compressed(data[:cut], 0)


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"\x00", 0), (b"\xf8", 31), (b"\x01\x01", 32), (b"\x07" + b"\xff" * 8, 2**69 - 32)],
)
def test_compressed_numbers_as_documented(data: bytes, value: int) -> None:
    """The low three bits count the bytes that follow, 7 stands for eight of them."""
    assert read_compressed(data, 0) == (value, len(data))


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(0, 1400), min_size=1, max_size=12), pages=st.integers(2, 6))
def test_chunks_over_pages_and_files(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], pages: int
) -> None:
    directory = tmp_path_factory.mktemp("ibb")
    writer = small(pages)
    expected = b""
    for seq_no, size in enumerate(sizes, 1):
        group = b"".join(transaction(seq_no, size))
        expected += group
        writer.commit(group)
        if size % 7 == 0:
            writer.flush()
    writer.save(directory, allocated=bool(sizes[0] % 2))
    assert chain_bytes(directory) == expected


@settings(max_examples=60, deadline=None)
@given(
    nodes=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    cut=st.integers(1, 700),
    seed=st.integers(0, 2**16),
)
def test_trees_of_interleaved_transactions(
    tmp_path_factory: pytest.TempPathFactory, nodes: list[int], cut: int, seed: int
) -> None:
    """Every number of nodes, cut anywhere in the events, those of others between them."""
    directory = tmp_path_factory.mktemp("ibb")
    chance = random.Random(seed)
    writer = small(5)
    running = []
    for seq_no, count in enumerate(nodes, 1):
        events = b"".join(transaction(seq_no, cut * count)[1:])
        step = max(1, -(-len(events) // max(1, count)))
        pieces = [events[i : i + step] for i in range(0, len(events), step)]
        running.append((gtid(seq_no), events, pieces, writer.begin()))
    expected = b""
    while running:
        this = chance.choice(running)
        head, events, pieces, open_one = this
        if pieces:
            open_one.out_of_band(pieces.pop(0))
            continue
        open_one.commit(head)
        expected += head + events
        running.remove(this)
    writer.save(directory)
    assert chain_bytes(directory) == expected


def test_a_second_set_of_records_follows_the_first(tmp_path: Path) -> None:
    """Changes of tables without transactions come first."""
    writer = small()
    one, other = writer.begin(), writer.begin()
    other.out_of_band(annotate(b"c" * 600))
    one.out_of_band(annotate(b"a" * 100))
    other.out_of_band(xid(1))
    one.out_of_band(annotate(b"b" * 900))
    one.commit(gtid(1), others=other)
    writer.save(tmp_path)
    assert chain_bytes(tmp_path) == (
        gtid(1) + annotate(b"a" * 100) + annotate(b"b" * 900) + annotate(b"c" * 600) + xid(1)
    )


def test_what_was_never_committed_is_not_there(tmp_path: Path) -> None:
    writer = small(3)
    lost = writer.begin()
    lost.out_of_band(annotate(b"lost" * 300))
    prepared = writer.begin()
    prepared.out_of_band(annotate(b"prepared" * 200))
    prepared.prepare(b"x")
    writer.commit(b"".join(transaction(1)))
    rolled_back = writer.begin()
    rolled_back.out_of_band(annotate(b"r"))
    rolled_back.prepare(b"y")
    writer.record(6, b"\x01" + struct.pack("<IBB", 1, 1, 0) + b"y")
    prepared.commit(gtid(2), xa=b"x")
    writer.save(tmp_path)
    assert chain_bytes(tmp_path) == b"".join(transaction(1)) + gtid(2) + annotate(b"prepared" * 200)


def test_states_and_padding_inside_of_records(tmp_path: Path) -> None:
    """Both may lie between the chunks of another record."""
    writer = small(64)
    for seq_no in range(1, 40):  # a state that is longer than a page
        writer.state[seq_no, 2**32 - 1] = 2**64 - 1
    group = b"".join(transaction(1, 3000))
    writer.commit(group)
    image = bytearray(writer.images()[name(0)])
    kinds = {image[at] & 0x3F for at in range(PAGE, len(image), PAGE)}
    assert {GTID_STATE, COMMIT} <= kinds
    (tmp_path / name(0)).write_bytes(image)
    assert chain_bytes(tmp_path) == group


def test_a_file_alone_gives_the_records_that_begin_in_it(tmp_path: Path) -> None:
    writer = small(3)
    groups = [b"".join(transaction(n, 700)) for n in range(1, 6)]
    places = [writer.commit(group) for group in groups]
    paths = writer.save(tmp_path)
    for number, path in enumerate(paths):
        mine = [group for group, (n, _) in zip(groups, places, strict=True) if n == number]
        assert log_bytes(path) == b"".join(mine)


# --- what the made-up events say ---


def open_list(path: Path) -> str:
    with LogFile.open(str(path)) as log:
        reader = LogReader.of_chains(resolve([str(path)]), ReadOptions(), Ledger())
        found = [e.event for r in reader for e in r.events() if isinstance(e.event, GtidListEvent)]
        assert log.format is not None
        assert (log.format.flavour, log.format.checksum_bytes) == ("mariadb", 0)
    return ";".join(",".join(map(str, event.gtids)) for event in found)


def test_the_state_of_a_file_is_its_list_of_gtids(tmp_path: Path) -> None:
    writer = small(8)
    writer.commit(b"".join(transaction(1)))
    writer.commit(gtid(7, 3, 9) + xid(1))
    writer.flush()
    writer.commit(b"".join(transaction(2)))
    writer.commit(b"".join(transaction(3)))
    first, second = writer.save(tmp_path)
    assert open_list(first) == "", "the server's state counts the group that begins with the file"
    assert open_list(second) == "0-1-1,3-9-7"


def test_a_file_that_is_only_allocated(tmp_path: Path) -> None:
    writer = small(8)
    writer.commit(b"".join(transaction(1)))
    writer.save(tmp_path, allocated=True)
    with LogFile.open(str(tmp_path / name(1))) as log:
        assert log.in_use
        assert [window.block.types(0, len(window))[15] for window in log.windows()] == [1]
    with LogFile.open(str(tmp_path / name(0))) as log:
        assert log.in_use, "nothing follows that has data"
    writer.flush()
    writer.commit(b"".join(transaction(2)))
    writer.save(tmp_path)
    with LogFile.open(str(tmp_path / name(0))) as log:
        assert not log.in_use


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_compressed_files(tmp_path: Path, suffix: str) -> None:
    """Pages are fetched from anywhere, of files beside it too."""
    writer = small(4)
    big = writer.begin()
    events = b"".join(transaction(1, 5000)[1:])
    for at in range(0, len(events), 400):
        big.out_of_band(events[at : at + 400])
    big.commit(gtid(1))
    for file, image in writer.images().items():
        data = zlib.compress(image, wbits=31) if suffix == "gz" else zstandard.compress(image)
        (tmp_path / f"{file}.{suffix}").write_bytes(data)
    assert chain_bytes(tmp_path) == gtid(1) + events


# --- torn, damaged, missing ---


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
    """Of the last file: whole events, the same ones, then the end or a torn tail."""
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
    """What is on it is lost, and no more; it is said where."""
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


def test_a_record_that_goes_on_in_a_missing_file_is_torn(tmp_path: Path) -> None:
    writer = small(3)
    writer.commit(b"".join(transaction(1, 2000)))
    (tmp_path / name(0)).write_bytes(writer.images()[name(0)])
    with LogFile.open(str(tmp_path / name(0))) as log:
        assert sum(len(window) for window in log.windows()) == 3, "format, list and GTID"
        assert log.tail is not None
        assert log.tail.in_use
        assert "binlog-000001.ibb, which does not exist" in log.tail.message


# --- what cannot be ---


def commit_of(writer: IbbWriter, *head: int) -> None:
    writer.record(COMMIT, numbers(*head) + gtid(1) + xid(1))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ((1, 0, 0, 0, 9 * PAGE, 0), "lies after the record"),
        ((1, 0, 0, 5, 512, 0), "lies after the record"),
        ((1, 0, 0, 0, 100, 0), "the whole record of type 3 is not there"),
        ((1, 0, 0, 0, PAGE, 0), "the whole record of type 3 is not there"),
        ((2, 0, 0, 0, PAGE + 5, 0), "1 out-of-band records, not 2"),
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


def test_padding_fills_a_page(tmp_path: Path) -> None:
    """FLUSH BINARY LOGS pads with a record of its own; a page may also end in 1 to 3 bytes 0xFF."""
    for size in range(PAGE - 40, PAGE + 8):
        writer = small(8)
        writer.commit(b"".join(transaction(1, size % 97)))
        writer.record(DUMMY, b"\xff" * (size % 300 + 1))
        writer.commit(b"".join(transaction(2, size)))
        writer.flush()
        writer.commit(b"".join(transaction(3)))
        directory = tmp_path / str(size)
        directory.mkdir()
        writer.save(directory)
        assert chain_bytes(directory) == b"".join(
            transaction(1, size % 97) + transaction(2, size) + transaction(3)
        )


def test_the_writer_has_the_published_checksum() -> None:
    assert crc32c(b"123456789") == 0xE3069283
