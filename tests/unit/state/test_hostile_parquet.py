"""Parquet files for `state --from` whose footer or pages claim too much, or inflate to much more than their size."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlake.errors import SourceError
from binlake.state.parquet_rows import ParquetRows
from binlake.stream.index.compact_protocol import Struct, StructReader, encoded, number, structs
from binlake.values.options import ReadOptions

MB = 1 << 20
I32, I64 = 5, 6
TWO_BILLION = 2_000_000_000
SMALL = pa.table({"id": pa.array(range(1000), pa.int64()), "v": [f"abc{n}" for n in range(1000)]})
LONG = pa.table({"id": pa.array(range(100), pa.int64()), "v": [f"{'x' * MB}{n}" for n in range(100)]})  # fmt: skip
DATA_PAGE, DICTIONARY_PAGE = 0, 2
Change = Callable[[Struct], None]


def opened(folder: Path, data: bytes, max_memory: int = 256 * MB) -> ParquetRows:
    path, schema = folder / "rows.parquet", folder / "schema.sql"
    path.write_bytes(data)
    schema.write_text("CREATE TABLE t (id BIGINT, v LONGTEXT) CHARSET=utf8mb4")
    options = ReadOptions(schema=str(schema), max_memory=max_memory)
    return ParquetRows(str(path), "db", "t", "mysql", options)


def refused(folder: Path, data: bytes, words: str) -> None:
    with pytest.raises(SourceError, match=words) as error, opened(folder, data) as rows:
        list(rows.batches())
    assert str(folder) in str(error.value)


def written(table: pa.Table, **options: object) -> bytes:
    target = pa.BufferOutputStream()
    pq.write_table(table, target, **options)
    return bytes(target.getvalue().to_pybytes())


def footer_of(data: bytes) -> tuple[Struct, int]:
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return StructReader(data[start:-8]).struct(), start


def end_of(footer: Struct) -> bytes:
    text = encoded(footer)
    return text + len(text).to_bytes(4, "little") + b"PAR1"


def with_pages(data: bytes, change: Change) -> bytes:
    """Return a file after `change` of the header of each page; the footer describes where the pages are then."""
    footer, _ = footer_of(data)
    out = bytearray(b"PAR1")
    for group in structs(footer, 4):
        for chunk in structs(group, 1):
            column, begin = chunk[3][1], len(out)
            at = min(number(column, key) for key in (9, 11) if key in column)
            end = at + number(column, 7)
            for key in (9, 11, 13, 14, 15, 16):
                column.pop(key, None)
            while at < end:
                reader = StructReader(data[at:end])
                page = reader.struct()
                body = data[at + reader.at :][: number(page, 3)]
                at += reader.at + len(body)
                change(page)
                column.setdefault(9 if number(page, 1) == DATA_PAGE else 11, (I64, len(out)))
                out += encoded(page) + body
            column[7] = (I64, len(out) - begin)
            for key in (4, 5, 6, 7):
                chunk.pop(key, None)
    return bytes(out) + end_of(footer)


def with_footer(data: bytes, change: Change) -> bytes:
    footer, start = footer_of(data)
    change(footer)
    return data[:start] + end_of(footer)


def claim_inflated(page: Struct) -> None:
    page[2] = (I32, TWO_BILLION)


def claim_values(page: Struct) -> None:
    if number(page, 1) == DATA_PAGE:
        page[5][1][1] = (I32, TWO_BILLION)


def claim_dictionary(page: Struct) -> None:
    if number(page, 1) == DICTIONARY_PAGE:
        page[7][1][1] = (I32, TWO_BILLION)


def claim_stored(page: Struct) -> None:
    page[3] = (I32, TWO_BILLION)


def claim_rows(footer: Struct) -> None:
    footer[3] = (I64, TWO_BILLION)
    for group in structs(footer, 4):
        group[3] = (I64, TWO_BILLION)
        for chunk in structs(group, 1):
            chunk[3][1][5] = (I64, TWO_BILLION)


def share_pages(footer: Struct) -> None:
    """1,000 row groups with the same pages."""
    kind, (of, groups) = footer[4]
    footer[4] = (kind, (of, groups * 1000))


@pytest.mark.parametrize("compression", ["none", "zstd", "snappy", "gzip", "lz4", "brotli"])
def test_a_page_that_claims_gigabytes_is_refused(compression: str, tmp_path: Path) -> None:
    data = with_pages(written(SMALL, compression=compression), claim_inflated)
    refused(tmp_path, data, r"a page of column id takes 2,000,000,000 bytes, but option max_memory allows only 67,\d+")  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (claim_values, "do not match num_values"),
        (claim_dictionary, "Unexpected end of stream"),
        (claim_stored, "its footer or a page is damaged"),
    ],
)
def test_other_claims_of_a_page_are_refused(change: Change, words: str, tmp_path: Path) -> None:
    refused(tmp_path, with_pages(written(SMALL, compression="none"), change), words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (claim_rows, "the footer claims 2,000,000,000 rows, but the file contains 1,000"),
        (share_pages, "its footer or a page is damaged"),
    ],
)
def test_claims_of_the_footer_are_refused(change: Change, words: str, tmp_path: Path) -> None:
    """Before, rows that the footer claims and the file lacks were missing without an error."""
    refused(tmp_path, with_footer(written(SMALL, compression="none"), change), words)


def test_texts_that_claim_gigabytes_are_refused(tmp_path: Path) -> None:
    data = written(SMALL, compression="none", use_dictionary=False)
    long = data.replace(b"\x04\0\0\0abc", b"\xff\xff\xff\x7fabc")
    refused(tmp_path, long, "PLAIN-encoded BYTE_ARRAY")


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": False, "data_page_size": 1 << 30},
        {"dictionary_pagesize_limit": 1 << 30},
    ],
    ids=["data", "dictionary"],
)
def test_a_page_that_inflates_to_gigabytes_is_refused(
    options: dict[str, object], tmp_path: Path
) -> None:
    data = written(LONG, compression="zstd", **options)
    assert len(data) < MB // 8
    refused(tmp_path, data, r"a page of column v takes 104,\d+,\d+ bytes")
    with opened(tmp_path, data, 512 * MB) as rows:
        assert sum(batch.num_rows for batch in rows.batches()) == 100


def test_many_pages_that_inflate_are_refused(tmp_path: Path) -> None:
    table = pa.concat_tables([LONG.slice(0, 50)] * 8)
    data = written(table, compression="zstd", use_dictionary=False, row_group_size=50)
    refused(tmp_path, data, r"the file takes 3\d\d,\d+,\d+ bytes, but option max_memory allows only 2\d\d,")  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": False, "data_page_size": 1024, "write_batch_size": 1},
        {"use_dictionary": False, "column_encoding": {"v": "DELTA_BYTE_ARRAY"}},
        {"dictionary_pagesize_limit": 1 << 30},
    ],
    ids=["pages", "delta", "dictionary"],
)
@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
def test_long_values_come_in_small_batches(
    options: dict[str, object], text: pa.DataType, tmp_path: Path
) -> None:
    table = LONG.slice(0, 50).set_column(1, "v", LONG["v"].slice(0, 50).cast(text))
    with opened(tmp_path, written(table, compression="zstd", **options)) as rows:
        found = list(rows.batches())
    assert max(batch.nbytes for batch in found) <= 20 * MB
    assert pa.Table.from_batches(found).to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": False},
        {"use_dictionary": False, "column_encoding": {"v": "DELTA_BYTE_ARRAY"}},
        {"dictionary_pagesize_limit": 1 << 30},
    ],
    ids=["plain", "delta", "dictionary"],
)
def test_long_values_of_one_length_come_in_small_batches(
    options: dict[str, object], tmp_path: Path
) -> None:
    """Arrow has as many bytes for NULL."""
    values = pa.array([b"x" * MB, *[None] * 99], pa.binary(MB))
    data = written(LONG.set_column(1, "v", values), compression="zstd", **options)
    with opened(tmp_path, data) as rows:
        found = [batch.num_rows for batch in rows.batches()]
    assert (max(found), sum(found)) == (15, 100)


def _read_mutations(folder: Path, seed: int) -> None:
    data = written(SMALL)
    start = footer_of(data)[1]
    chance = random.Random(seed)
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            changed[chance.randrange(start, len(data) - 8)] = chance.randrange(256)
        try:
            with opened(folder, bytes(changed)) as rows:
                list(rows.batches())
        except SourceError:
            pass


def test_no_footer_ends_the_process(tmp_path: Path) -> None:
    """Arrow's Python binding ends it for some, if it is asked for the chunk of a column."""
    for seed in range(4):
        process = multiprocessing.get_context("spawn").Process(
            target=_read_mutations, args=(tmp_path, seed)
        )
        process.start()
        process.join(120)
        assert process.exitcode == 0, seed
