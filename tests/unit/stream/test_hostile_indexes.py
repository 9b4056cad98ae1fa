"""Indexes beside a log that somebody else made: they take no more memory than the log justifies."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlake.cli.main import main
from binlake.stream.index.log_index import LogIndex, Stamp
from binlake.stream.index.parquet_footer import _encoded, _Reader
from support.logs.costly_logs import many_tables
from support.logs.log_builder import LogBuilder
from support.logs.table_log import write_keyed_log

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


def is_ignored(capfd: pytest.CaptureFixture[str], log: Path, why: str) -> None:
    path = log.with_name(f"{log.name}.index.parquet")
    out, err = printed(capfd, *ROWS, str(log))
    assert f"ignored the index {path}: {why}" in err
    path.unlink()
    assert out
    assert printed(capfd, *ROWS, str(log))[0] == out


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


def test_more_names_than_the_log_can_have(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    many = pa.array([["shop.t1"] * 20 * log.stat().st_size], pa.list_(pa.string()))
    replaced(log, {"tables": many}, 1)
    is_ignored(capfd, log, "it claims more than its log can contain")


@pytest.mark.parametrize("column", ["gtid", "tables"])
def test_a_name_that_no_server_allows(
    capfd: pytest.CaptureFixture[str], log: Path, column: str
) -> None:
    """It would be as long in each of the rows, of which the file has but one copy."""
    long = "x" * 100_000
    values = pa.array([long] * 4) if column == "gtid" else pa.array([[f"shop.{long}"] * 4] * 4)
    replaced(log, {column: values}, 4)
    is_ignored(capfd, log, "it contains a name that is too long")


def footer_of(data: bytes) -> tuple[bytes, dict[int, Any]]:
    """The pages of a Parquet file, and its footer as a struct of Thrift."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:start], _Reader(data[start:-8]).struct()


def with_footer(pages: bytes, footer: dict[int, Any]) -> bytes:
    text = _encoded(footer)
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
    before = pa.default_memory_pool().max_memory()
    is_ignored(capfd, log, "it claims more than its log can contain")
    assert pa.default_memory_pool().max_memory() - before < 32 << 20


def test_a_short_name_that_stands_for_much_text(
    capfd: pytest.CaptureFixture[str], log: Path
) -> None:
    """A name of 1 kB, of which the file has one copy, in each place of long lists."""
    names = [["shop." + "x" * 1000] * (8 * log.stat().st_size)]
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


def test_footers_with_other_numbers(log: Path) -> None:
    """Arrow's Python binding ends the process where the levels of the schema and of the statistics differ."""
    data = log.with_name(f"{log.name}.index.parquet").read_bytes()
    about = json.loads(pq.read_schema(pa.BufferReader(data)).metadata[b"binlake.log_index"])
    stamp = Stamp(about["log"], about["bytes"], about["head"], about["tail"])
    assert LogIndex.of_file(memoryview(data), stamp) is not None
    places = len(list(numbers_in(footer_of(data)[1])))
    chance = random.Random(4711)
    for place in range(places):
        pages, footer = footer_of(data)
        struct, field = list(numbers_in(footer))[place]
        number = chance.choice((-1, 0, 1, 2, 3, 1 << 20, (1 << 31) - 1))
        struct[field] = struct[field][0], number
        changed = with_footer(pages, footer)
        try:
            LogIndex.of_file(memoryview(changed), stamp)
            with pa.BufferReader(changed) as file:
                LogIndex.committed_between(file, stamp, 1, 0, 1)
        except ValueError:
            pass


def test_an_index_of_another_log_is_not_read(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    """What it claims does not matter then."""
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
