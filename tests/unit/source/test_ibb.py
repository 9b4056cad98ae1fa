"""MariaDB's InnoDB binlog as a log: chunks, trees, what is torn, damaged or not there.

The writer is the tests' own (`tests/support/logs/ibb_log.py`). Most files have pages of 512 bytes, the smallest
that the format can say, so that a few transactions cross many pages and files.
"""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from binlake.errors import (
    TruncatedError,
)
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.source.ibb_records import read_compressed
from binlake.source.log_file import LogFile
from binlake.source.resolve import resolve
from binlake.stream.log_reader import LogReader
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from support.logs.ibb_log import (
    COMMIT,
    DUMMY,
    GTID_STATE,
    compressed,
    crc32c,
    name,
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


def test_uncommitted_transactions_are_left_out(tmp_path: Path) -> None:
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


# --- what cannot be ---


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
