"""The rows of a commit, cut into data files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlake.mirror.iceberg.parts import parts_of, write_parts
from binlake.mirror.tables.data_files import DataFileWriter
from binlake.mirror.tables.keys import keys_of_rows
from binlake.mirror.tables.partitions import NOT_PARTITIONED, Partition, Partitioning
from binlake.mirror.tables.schema import FIELD_ID

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), metadata={FIELD_ID: b"1"}),
        pa.field("region", pa.int32(), metadata={FIELD_ID: b"2"}),
        pa.field("note", pa.string(), metadata={FIELD_ID: b"3"}),
    ]
)


def rows_of(count: int) -> pa.Table:
    """Rows of about 1 kB each, with keys in no order."""
    ids = np.random.default_rng(1).permutation(count)
    return pa.table([ids, ids % 3, pa.array([f"{i:1000d}" for i in ids])], schema=SCHEMA)


@pytest.mark.parametrize(
    ("rows", "files"), [(0, 0), (1, 1), (1000, 1), (100_000, 3)], ids=["none", "one", "few", "many"]
)
def test_the_files_of_a_commit_hold_all_rows_with_their_keys(
    tmp_path: Path, rows: int, files: int
) -> None:
    table = rows_of(rows)
    keys = keys_of_rows(table, SCHEMA, ["id"])
    parts = parts_of(NOT_PARTITIONED, table, keys, files=3)
    assert len(parts) == files
    written = write_parts(parts, DataFileWriter(SCHEMA, f"{tmp_path}/data-"))
    stored = [pq.read_table(file["file-path"]) for file in written]
    assert [file["record-count"] for file in written] == [one.num_rows for one in stored]
    for part, one in zip(parts, stored, strict=True):
        assert one["id"].to_pylist() == part.rows["id"].to_pylist()
        assert part.keys is not None
        assert part.keys.high.tolist() == one["id"].to_pylist()
    assert [id for one in stored for id in one["id"].to_pylist()] == table["id"].to_pylist()


def test_a_row_is_in_one_file_however_large_it_is(tmp_path: Path) -> None:
    row = pa.table([[1], [2], ["x" * (200 << 20)]], schema=SCHEMA)
    parts = parts_of(NOT_PARTITIONED, row, keys_of_rows(row, SCHEMA, ["id"]), files=3)
    written = write_parts(parts, DataFileWriter(SCHEMA, f"{tmp_path}/data-"))
    assert [file["record-count"] for file in written] == [1]


def test_each_partition_is_a_file_and_its_keys_are_computed_later(tmp_path: Path) -> None:
    table = rows_of(1000)
    by_region = Partitioning(spec=1, fields=((2, "identity", 0),))
    parts = parts_of(by_region, table, keys_of_rows(table, SCHEMA, ["id"]))
    written = write_parts(parts, DataFileWriter(SCHEMA, f"{tmp_path}/data-"))
    regions = [set(pq.read_table(file["file-path"])["region"].to_pylist()) for file in written]
    assert sorted(map(sorted, regions)) == [[0], [1], [2]]
    assert [part.keys for part in parts] == [None, None, None]
    assert sum(file["record-count"] for file in written) == 1000


def test_files_of_a_table_without_partitions_any_more_have_its_newest_spec(tmp_path: Path) -> None:
    """Spec 0 still has the dropped fields, and Iceberg refuses a file of that spec without their values."""
    table = rows_of(10)
    none_left = Partitioning.of({"spec-id": 1, "fields": []}, SCHEMA)
    assert [part.partition for part in parts_of(none_left, table, None)] == [Partition(1)]
    assert [partition for partition, _ in none_left.split(table)] == [Partition(1)]
    [file] = DataFileWriter(SCHEMA, f"{tmp_path}/data-", partitioning=none_left).write([table])
    assert (file["spec-id"], file["partition"]) == (1, [])
