"""The index of a log with many transactions is written and read part by part."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from binlake.stream.filters import TransactionFilter
from binlake.stream.index.index_columns import COLUMNS, Stamp
from binlake.stream.index.log_index import LogIndex
from binlake.stream.index.passages import IndexQuery, Passage, passages_between
from binlake.values.options import ReadOptions

COUNT = 600_000
BYTES = 300  # of each transaction
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def transactions() -> Iterator[pa.Table]:
    """Plain transactions one after the other, in tables as large as no row group."""
    for first in range(0, COUNT, 100_000):
        numbers = range(first, first + 100_000)
        pos = [4 + number * BYTES for number in numbers]
        one = pa.array([1] * len(pos))
        yield pa.table(
            [
                pa.array(pos), pa.array([at + BYTES for at in pos]), one, pa.array(numbers), one, one, one,
                pa.array([f"{UUID}:{number + 1}" for number in numbers]), one, one, one,
                pa.array([["shop.orders"]] * len(pos)), pa.array([True] * len(pos)),
            ],
            schema=COLUMNS,
        )  # fmt: skip


@pytest.fixture(scope="module")
def index() -> LogIndex:
    stamp = Stamp("binlog.000001", 4 + COUNT * BYTES, "0" * 64, "0" * 64)
    made = LogIndex.of_rows(transactions(), stamp)
    found = LogIndex.of_file(memoryview(made.to_bytes()), stamp)
    assert found is not None
    return found


def test_parts_have_all_rows_in_their_order(index: LogIndex) -> None:
    assert index.rows == COUNT
    parts = list(index.parts())
    assert max(part.num_rows for part in parts) <= 1 << 18
    assert pa.concat_tables(parts).equals(pa.concat_tables(transactions()))
    assert index.check() == COUNT


def asked(index: LogIndex, **options: object) -> list[Passage]:
    wanted = TransactionFilter.of(ReadOptions(**options), ["binlog.000001"])  # type: ignore[arg-type]
    return list(IndexQuery(wanted, 0).passages(index))


def test_a_range_that_is_not_read_has_any_number_of_parts(index: LogIndex) -> None:
    """Also the counts of transactions that pass go over the borders of parts."""
    gtid = f"{UUID}:{COUNT - 1}"
    end = 4 + COUNT * BYTES
    assert asked(index, gtid=gtid) == [Passage(end - 2 * BYTES, None, 0)]
    assert asked(index, since=300_000) == [Passage(4 + 300_000 * BYTES, None, 0)]
    assert asked(index, until=300_000) == [
        Passage(4, 4 + 300_000 * BYTES, 0), Passage(end, None, 0)
    ]  # fmt: skip


def test_a_transaction_in_the_last_part_is_found(index: LogIndex) -> None:
    row = index.find(f"{UUID}:{COUNT}")
    assert row is not None
    assert row["pos"] == 4 + (COUNT - 1) * BYTES
    assert index.find(f"{UUID}:{COUNT + 1}") is None


def test_a_range_that_begins_before_the_one_before_it_ends_is_read() -> None:
    """An index whose rows are in another order would lead to bytes that are read twice."""
    mega = 1 << 20
    ranges = [(4, 2 * mega, 5), (mega, 3 * mega, 7), (4 * mega, 5 * mega, 1)]
    assert list(passages_between(ranges, None, None)) == [
        Passage(2 * mega, 4 * mega, 5), Passage(5 * mega, None, 1)
    ]  # fmt: skip
