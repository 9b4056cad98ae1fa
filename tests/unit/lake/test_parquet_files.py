"""Parquet files of many wide tables: what is held and open is limited by columns, too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs as pafs

from binlake.lake import parquet
from binlake.lake.parquet import DataFile, ParquetFiles, TableKey

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


def test_a_file_travels_with_its_schema() -> None:
    file = DataFile(TableKey("shop", "t"), "0.parquet", 1, 2, WIDE)
    told = file.to_json()
    assert DataFile.from_json(told) == file
    assert len(told["schema"]) < len(WIDE.serialize()) // 4
