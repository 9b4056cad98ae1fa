"""Parquet files of many wide tables: what is held and open is limited by columns, too."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs as pafs

from binlake.lake import parquet
from binlake.lake.parquet import (
    DataFile,
    ParquetFiles,
    TableKey,
    files_from_json,
    files_to_json,
)
from binlake.lake.unite import unite

WIDE = pa.schema([pa.field(f"c{n}", pa.int8()) for n in range(500)])
BATCH = pa.RecordBatch.from_arrays([pa.array([1], pa.int8())] * 500, schema=WIDE)


def test_columns_limit_what_is_held_and_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "HELD_BYTES", 8 << 20)  # of about 4 such tables
    monkeypatch.setattr(parquet, "OPEN_COLUMNS", 2000)
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 20)
    finished = []
    for number in range(40):
        files.write(TableKey("shop", f"t{number}"), BATCH)
        finished.append(len(files._files))
    assert finished[-1] > 20  # tables are written long before the end
    written = files.close()
    assert sorted(file.key.table for file in written) == sorted(f"t{n}" for n in range(40))
    assert all(pq.read_table(tmp_path / file.name).equals(pa.table(BATCH)) for file in written)


def test_a_table_wider_than_the_limit_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "OPEN_COLUMNS", 100)
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 20)
    for number in range(3):
        files.write(TableKey("shop", f"t{number}"), BATCH)
    assert [file.rows for file in files.close()] == [1, 1, 1]


def test_a_file_ends_with_many_row_groups_of_many_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "HELD_BYTES", 1)  # every write is a row group
    monkeypatch.setattr(parquet, "MOST_CHUNKS", 1000)  # two row groups
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 20)
    for _ in range(5):
        files.write(TableKey("shop", "t"), BATCH)
    written = files.close()
    assert [(file.rows, file.is_full) for file in written] == [(2, True), (2, True), (1, False)]
    (table,) = unite(written, 1 << 30)
    assert table.kept == tuple(written)  # a full file is not joined with others


def test_a_file_travels_with_its_schema() -> None:
    schema = WIDE.with_metadata({"binlake.table": "shop.t"})
    file = DataFile(TableKey("shop", "t"), "0.parquet", 1, 2, schema)
    other = DataFile(TableKey("shop", "u"), "1.parquet", 1, 2, WIDE)
    (told,) = files_to_json([file])["columns"]
    assert len(told) < len(WIDE.serialize()) // 4
    found = files_from_json(json.loads(json.dumps(files_to_json([file, other, file]))))
    assert found == [file, other, file]
    assert [one.schema.metadata or None for one in found] == [
        schema.metadata,
        None,
        schema.metadata,
    ]


def test_tables_with_the_same_columns_share_their_description() -> None:
    files = [
        DataFile(
            TableKey("shop", f"t{n}"), f"{n}.parquet", 1, 2, WIDE.with_metadata({"table": f"{n}"})
        )
        for n in range(20)
    ]
    told = files_to_json(files)
    assert len(told["columns"]) == 1
    assert files_from_json(told) == files


def test_a_file_of_few_rows_ends_before_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "HELD_BYTES", 1)  # every write is a row group
    files = ParquetFiles(pafs.LocalFileSystem(), str(tmp_path), "0", 1 << 20)
    for rows in (1, 1, 100, 1):
        files.write(TableKey("shop", "t"), pa.RecordBatch.from_pydict({"a": ["x" * 50] * rows}))
    written = files.close()
    assert [file.rows for file in written] == [2, 101]
    codecs = [
        pq.ParquetFile(tmp_path / file.name).metadata.row_group(0).column(0).compression
        for file in written
    ]
    assert codecs == ["SNAPPY", "ZSTD"]
