"""Indexes beside a log that an attacker made: they take no more memory than the log justifies."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlake.cli.main import main
from binlake.source.chain import LogPath
from binlake.stream.index.compact_protocol import StructReader, encoded
from binlake.stream.index.index_columns import COLUMNS
from binlake.stream.index.key_file import read_key_index
from binlake.stream.index.log_index import LogIndex
from binlake.table.counting.indexing import index_of
from support.logs.costly_logs import many_tables, rows, table_map
from support.logs.log_builder import QUERY, TABLE_MAP, XID, LogBuilder, query_body
from support.logs.table_log import INSERT, write_keyed_log

ROWS = ("rows", "--table", "shop.t1")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "binlog.000001"
    path.write_bytes(many_tables(3))
    assert main(["index", str(path)]) == 0
    return path


def printed(capfd: pytest.CaptureFixture[str], *argv: str) -> tuple[str, str]:
    capfd.readouterr()
    assert main(list(argv)) == 0
    return capfd.readouterr()


def replaced(log: Path, columns: dict[str, pa.Array], count: int) -> None:
    """Make the index one of so many copies of its transaction, with some other columns."""
    path = log.with_name(f"{log.name}.index.parquet")
    found = pq.read_table(path)
    nowhere = pa.repeat(pa.scalar(0, pa.int64()), count)
    made = {
        name: columns[name] if name in columns else found[name].combine_chunks().take(nowhere)
        for name in found.column_names
    }
    table = pa.table(list(made.values()), schema=found.schema)
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def is_ignored(capfd: pytest.CaptureFixture[str], log: Path, why: str, *asks: str) -> None:
    path = log.with_name(f"{log.name}.index.parquet")
    out, err = printed(capfd, *ROWS, *asks, str(log))
    assert f"ignored the index {path}: {why}" in err
    path.unlink()
    assert bool(out) is not bool(asks)
    assert printed(capfd, *ROWS, *asks, str(log))[0] == out


def test_files_of_gigabytes_are_not_read(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    """Sparse ones, of which a reader would take as much memory."""
    why = "it has 3,221,225,472 bytes, too many for an index of this log"
    os.truncate(log.with_name(f"{log.name}.index.parquet"), 3 << 30)
    keys = log.with_name(f"{log.name}.keys.arrow")
    keys.touch()
    os.truncate(keys, 3 << 30)
    found = read_key_index(LogPath(str(log), log.name, None, log.stat().st_size))
    assert found == f"ignored the key index {keys}: {why}"
    is_ignored(capfd, log, why)


POOLS: list[pa.MemoryPool] = []  # kept: values that outlive the test return their memory to them


@contextmanager
def arrow_memory() -> Iterator[pa.MemoryPool]:
    """A pool of its own, whose maximum does not depend on earlier tests."""
    usual = pa.default_memory_pool()
    POOLS.append(pa.proxy_memory_pool(usual))
    pa.set_memory_pool(POOLS[-1])
    try:
        yield POOLS[-1]
    finally:
        pa.set_memory_pool(usual)


def test_an_honest_one_is_used(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    replaced(log, {}, 1)
    assert "ignored" not in printed(capfd, *ROWS, str(log))[1]


def test_an_index_without_transactions_is_used(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(LogBuilder("8.0.36").data)
    assert main(["index", str(path)]) == 0
    assert "ignored" not in printed(capfd, *ROWS, str(path))[1]


def test_more_transactions_than_the_log_can_have(
    capfd: pytest.CaptureFixture[str], log: Path
) -> None:
    replaced(log, {}, log.stat().st_size)
    is_ignored(capfd, log, "it claims more than its log can contain")


def test_transactions_shorter_than_any_commit(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    replaced(log, {}, log.stat().st_size // 20)
    is_ignored(capfd, log, "it claims more than its log can contain")


@pytest.mark.parametrize("times", [2, 20])
def test_more_names_than_the_log_can_have(
    capfd: pytest.CaptureFixture[str], log: Path, times: int
) -> None:
    many = pa.array([["shop.t1"] * times * log.stat().st_size], pa.list_(pa.string()))
    replaced(log, {"tables": many}, 1)
    is_ignored(capfd, log, "it claims more than its log can contain")


@pytest.mark.parametrize("column", ["commit_us", "server_id", "plain"])
def test_a_column_with_more_values_than_rows(
    capfd: pytest.CaptureFixture[str], log: Path, column: str
) -> None:
    """A few bytes stand for all of them, and Arrow reserves 8 bytes for each."""
    path = log.with_name(f"{log.name}.index.parquet")
    honest, footer = footer_of(path.read_bytes())
    place = pq.read_schema(path).names.index(column)
    replaced(log, {}, 12 * log.stat().st_size)
    pages, other = footer_of(path.read_bytes())
    chunks = footer[4][1][1][0][1][1][1]
    chunks[place] = other[4][1][1][0][1][1][1][place]
    for field in {9, 11} & set(chunks[place][3][1]):  # where its pages lie
        kind, start = chunks[place][3][1][field]
        chunks[place][3][1][field] = kind, start + len(honest)
    path.write_bytes(with_footer(honest + pages, footer))
    is_ignored(capfd, log, "its columns differ in their number of rows")


@pytest.mark.parametrize("column", ["gtid", "tables"])
def test_a_name_that_no_server_allows(
    capfd: pytest.CaptureFixture[str], log: Path, column: str
) -> None:
    """It would be as long in each of the rows, of which the file has but one copy."""
    long = "x" * 100_000
    values = pa.array([long] * 4) if column == "gtid" else pa.array([[f"shop.{long}"] * 4] * 4)
    replaced(log, {column: values}, 4)
    gtid = "--gtid=00000000-0000-0000-0000-000000000001:1"
    asks = [gtid] if column == "gtid" else []  # else the column is not read
    is_ignored(capfd, log, "it contains a name that is too long", *asks)


def footer_of(data: bytes) -> tuple[bytes, dict[int, Any]]:
    """The pages of a Parquet file, and its footer as a struct of Thrift."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:start], StructReader(data[start:-8]).struct()


def with_footer(pages: bytes, footer: dict[int, Any]) -> bytes:
    text = encoded(footer)
    return pages + text + len(text).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize("dictionary", [False, True])
def test_pages_that_are_larger_than_the_footer_claims(
    capfd: pytest.CaptureFixture[str], log: Path, dictionary: bool
) -> None:
    """64 MB in a file of a few kB. Arrow takes the size of a page from the header of the page."""
    path = log.with_name(f"{log.name}.index.parquet")
    table = pq.read_table(path)
    gtids = pa.array(["x" * (64 << 20)] * table.num_rows)
    made = table.set_column(table.column_names.index("gtid"), "gtid", gtids)
    pq.write_table(
        made, path, compression="zstd", write_page_checksum=True, use_dictionary=dictionary
    )
    pages, footer = footer_of(path.read_bytes())
    for group in footer[4][1][1]:
        group[2] = group[2][0], 1000  # total_byte_size
        for chunk in group[1][1][1]:
            chunk[3][1][6] = chunk[3][1][6][0], 100  # total_uncompressed_size
    path.write_bytes(with_footer(pages, footer))
    with arrow_memory() as pool:
        is_ignored(capfd, log, "it claims more than its log can contain")
    assert pool.max_memory() < 32 << 20


def test_a_short_name_that_represents_much_text(
    capfd: pytest.CaptureFixture[str], log: Path
) -> None:
    """A name of 1 kB, of which the file has one copy, in each place of long lists."""
    log.write_bytes(many_tables(100))
    assert main(["index", str(log)]) == 0
    names = [["shop." + "x" * 1000] * log.stat().st_size]
    replaced(log, {"tables": pa.array(names, pa.list_(pa.string()))}, 1)
    is_ignored(capfd, log, "it claims more than its log can contain")


def numbers_in(value: Any) -> Iterator[tuple[dict[int, Any], int]]:
    """Each field of a struct of Thrift, and of those in it, that is a number."""
    if isinstance(value, dict):
        for field, (kind, inner) in value.items():
            if kind in (4, 5, 6):
                yield value, field
            yield from numbers_in(inner)
    elif isinstance(value, tuple) and len(value) == 2:
        for item in value[1]:
            yield from numbers_in(item)


def test_a_dictionary_of_more_values_than_its_page_can_have(
    capfd: pytest.CaptureFixture[str], log: Path
) -> None:
    """Arrow reserves memory for as many values as the header of the page claims."""
    path = log.with_name(f"{log.name}.index.parquet")
    pages, footer = footer_of(path.read_bytes())
    place = pq.read_schema(path).names.index("server_id")
    column = footer[4][1][1][0][1][1][1][place][3][1]
    start = column[11][1]  # dictionary_page_offset
    reader = StructReader(pages[start : start + column[7][1]])
    page = reader.struct()
    body = pages[start + reader.at : start + column[7][1]]
    page[7][1][1] = page[7][1][1][0], 64 << 20  # num_values
    head = encoded(page)
    moved = len(pages) + len(head) - start - reader.at
    column[11] = column[11][0], len(pages)
    column[9] = column[9][0], column[9][1] + moved  # data_page_offset
    column[7] = column[7][0], len(head + body)  # total_compressed_size
    path.write_bytes(with_footer(pages + head + body, footer))
    with arrow_memory() as pool:
        is_ignored(capfd, log, "it is damaged or not an index")
    assert pool.max_memory() < 32 << 20


class Counted:
    """A file that counts the bytes read from it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.read = 0

    def size(self) -> int:
        return len(self._data)

    def read_at(self, count: int, start: int) -> bytes:
        self.read += count
        return self._data[start : start + count]


@pytest.fixture
def index(tmp_path: Path) -> tuple[bytes, LogIndex]:
    """An index in two row groups, and what it contains."""
    path = tmp_path / "binlog.000001"
    builder = LogBuilder("8.0.36")
    for second in range(1, 21):
        when = 1_700_000_000 + second
        builder.add(QUERY, query_body(b"BEGIN"), timestamp=when)
        builder.add(TABLE_MAP, table_map(f"t{second % 3}", bytes([3])), timestamp=when)
        builder.add(INSERT, rows(1, 1, bytes([0, 1, 0, 0, 0])), timestamp=when)
        builder.add(XID, bytes(8), timestamp=when)
    path.write_bytes(builder.bytes())
    honest = index_of(LogPath(str(path), path.name, 1))
    assert honest.rows == 20
    sink = io.BytesIO()
    schema = pq.read_schema(pa.BufferReader(honest.to_bytes()))
    table = content(honest).replace_schema_metadata(schema.metadata)
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True, row_group_size=10)
    return sink.getvalue(), honest


def content(index: LogIndex) -> pa.Table:
    return pa.concat_tables(index.parts())


def ranges(honest: LogIndex) -> list[tuple[int, int]]:
    """Times that the least and the greatest one of the index decide, and times that its column decides."""
    times = content(honest)["commit_us"].to_pylist()
    return [(0, 1), (times[0], times[-1] + 1), (times[3], times[15]), (times[12], times[13])]


def test_footers_with_other_numbers(index: tuple[bytes, LogIndex]) -> None:
    """Arrow's Python binding ends the process where the levels of the schema and of the statistics differ."""
    _, honest = index
    data = honest.to_bytes()
    times = content(honest)["commit_us"].to_pylist()
    expected = [sum(least <= t < most for t in times) for least, most in ranges(honest)]
    assert expected == [0, 20, 12, 1]
    for (least, most), count in zip(ranges(honest), expected, strict=True):
        file = Counted(data)
        assert LogIndex.committed_between(file, honest.stamp, 20, least, most) == count
    pages, footer = footer_of(data)
    chance = random.Random(4711)
    for place, (struct, field) in enumerate(list(numbers_in(footer))):
        was = struct[field]
        least, most = ranges(honest)[place % 4]
        for number in 0, chance.choice((-1, 1, 2, 3, 1 << 20, (1 << 31) - 1)):
            struct[field] = was[0], number
            changed = with_footer(pages, footer)
            with suppress(ValueError):
                found = LogIndex.of_file(memoryview(changed), honest.stamp)
                assert found is not None
                assert content(found).equals(content(honest))
            with suppress(ValueError):
                answer = LogIndex.committed_between(Counted(changed), honest.stamp, 20, least, most)
                assert answer in (None, expected[place % 4])
        struct[field] = was


def test_a_group_that_claims_to_be_empty(index: tuple[bytes, LogIndex]) -> None:
    """Its transactions would be missing from the answer."""
    data, honest = index
    pages, footer = footer_of(data)
    group = footer[4][1][1][1]
    group[3] = group[3][0], 0
    changed = with_footer(pages, footer)
    with pytest.raises(ValueError, match="damaged"):
        LogIndex.of_file(memoryview(changed), honest.stamp)
    for least, most in ranges(honest):
        with pytest.raises(ValueError, match="damaged"):
            LogIndex.committed_between(Counted(changed), honest.stamp, 20, least, most)


def test_times_are_read_without_the_other_columns(index: tuple[bytes, LogIndex]) -> None:
    data, honest = index
    pages, footer = footer_of(data)
    groups = footer[4][1][1]
    times = sum(group[1][1][1][3][3][1][7][1] for group in groups)  # total_compressed_size
    padded = pages + bytes(1 << 20)
    file = Counted(with_footer(padded, footer))
    least, most = ranges(honest)[2]
    assert LogIndex.committed_between(file, honest.stamp, 20, least, most) == 12
    assert file.read <= (64 << 10) + times


def test_an_index_that_is_larger_than_its_log_justifies(index: tuple[bytes, LogIndex]) -> None:
    data, honest = index
    pages, footer = footer_of(data)
    file = Counted(with_footer(pages + bytes(2 << 20), footer))
    least, most = ranges(honest)[2]
    with pytest.raises(ValueError, match="claims more than its log can contain"):
        LogIndex.committed_between(file, honest.stamp, 20, least, most)
    assert file.read <= 64 << 10


def test_columns_that_share_bytes(index: tuple[bytes, LogIndex]) -> None:
    """Each of many groups could claim the whole file, which would be read as often."""
    data, honest = index
    pages, footer = footer_of(data)
    padded = pages + bytes(1 << 20)
    column = footer[4][1][1][0][1][1][1][3][3][1]
    start = min(column[field][1] for field in (9, 11) if field in column)
    column[7] = column[7][0], len(padded) - start
    file = Counted(with_footer(padded, footer))
    least, most = ranges(honest)[2]
    with pytest.raises(ValueError, match="damaged"):
        LogIndex.committed_between(file, honest.stamp, 20, least, most)
    assert file.read <= 64 << 10


def test_an_index_of_another_log_is_not_read(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    """Its claims do not matter then."""
    replaced(log, {}, log.stat().st_size)
    log.write_bytes(many_tables(4))
    is_ignored(capfd, log, f"{log.name} has changed since it was indexed")


def test_a_compressed_key_index(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    write_keyed_log(path, range(1, 1001))
    assert main(["index", "--keys", str(path)]) == 0
    keys = path.with_name(f"{path.name}.keys.arrow")
    where = ("rows", "--where", "id = 1", str(path))
    good = printed(capfd, *where)
    assert "ignored" not in good[1]
    with pa.ipc.open_file(keys) as file:
        batch = file.get_batch(0)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(keys), "wb") as sink,
        pa.ipc.new_file(sink, batch.schema, options=options) as to,
    ):
        to.write_batch(batch)
    out, err = printed(capfd, *where)
    assert f"ignored the key index {keys}: it is compressed" in err
    assert out == good[0]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("tables", ["nodot"]),
        ("tables", [None]),
        ("tables", None),
        ("pos", None),
        ("pos", 3),
        ("end_pos", 4),
        ("end_pos", 1 << 40),
        ("plain", None),
    ],
)
def test_places_and_names_that_no_log_has(
    capfd: pytest.CaptureFixture[str], log: Path, column: str, value: Any
) -> None:
    """They ended a read with a traceback, or made a long list."""
    kind = COLUMNS.field(column).type
    replaced(log, {column: pa.array([value] * 4, kind)}, 4)
    is_ignored(capfd, log, "it is damaged or not an index")
