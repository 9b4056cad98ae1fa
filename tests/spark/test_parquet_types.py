"""Files of ParquetFiles, read by Spark, have the very types and values of the data source."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs as pafs

from binlake.lake.data_file import DataFile, TableKey, files_from_json, files_to_json
from binlake.lake.parquet import ParquetFiles, ParquetLimits, read_batches
from binlake.spark.schema import spark_schema

UTC = dt.UTC

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tiny": (pa.int8(), [-128, 127, None]),
    "small": (pa.int16(), [-32768, 32767, None]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "big": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "unsigned": (pa.decimal128(20, 0), [Decimal(2**64 - 1), Decimal(0), None]),
    "money": (pa.decimal128(10, 2), [Decimal("-99999999.99"), Decimal("0.01"), None]),
    "wide": (pa.decimal128(38, 10), [Decimal("9" * 28 + "." + "9" * 10), Decimal(-1), None]),
    "real": (pa.float32(), [1.5, -0.0, None]),
    "double": (pa.float64(), [1e308, 5e-324, None]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "local": (pa.timestamp("us"), [dt.datetime(1000, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None]),
    "moment": (pa.timestamp("us", "UTC"), [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), dt.datetime(2038, 1, 19, 3, 14, 7, 999999, tzinfo=UTC), None]),
    "span": (pa.duration("us"), [dt.timedelta(hours=-838, minutes=-59, seconds=-59), dt.timedelta(microseconds=1), None]),
    "text": (pa.string(), ["", "日本\U0001f600", None]),
    "raw": (pa.binary(), [b"", b"\x00\xff", None]),
    "vector": (pa.list_(pa.float32()), [[1.0, -2.5], [], None]),
    "_absent": (pa.list_(pa.string()), [["a"], None, None]),
    "_seq": (pa.struct([("file", pa.int32()), ("pos", pa.int64())]), [{"file": 0, "pos": 4}, {"file": 1, "pos": 5}, None]),
}  # fmt: skip


@pytest.fixture(scope="module")
def batch() -> pa.RecordBatch:
    arrays = [pa.array(values, kind) for kind, values in COLUMNS.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def write(
    folder: Path,
    *batches: pa.RecordBatch,
    target: int = 1 << 30,
    row_group_bytes: int = 48 << 20,
) -> list[DataFile]:
    limits = ParquetLimits(row_group_bytes=row_group_bytes)
    files = ParquetFiles(pafs.LocalFileSystem(), str(folder), "00000", target, limits)
    for one in batches:
        files.write(TableKey("shop", "orders"), one)
    return files.close()


def test_schema_and_values(spark: Any, tmp_path: Path, batch: pa.RecordBatch) -> None:
    [file] = write(tmp_path, batch)
    frame = spark.read.parquet(str(tmp_path / file.name))
    assert frame.schema == spark_schema(batch.schema)
    assert "span: interval day to second" in frame._jdf.schema().treeString()
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    expected = [
        {**row, "moment": row["moment"] and row["moment"].astimezone().replace(tzinfo=None)}
        for row in batch.to_pylist()
    ]
    assert rows == expected


def test_statistics_let_spark_skip(spark: Any, tmp_path: Path, batch: pa.RecordBatch) -> None:
    [file] = write(tmp_path, batch)
    frame = spark.read.parquet(str(tmp_path / file.name))
    assert frame.where("day < date'0001-01-02'").count() == 1
    assert frame.where("local = timestamp_ntz'1000-01-01'").count() == 1
    assert frame.where("moment > timestamp'2038-01-19 03:14:07+00:00'").count() == 1
    assert frame.where("span < interval '0' second").count() == 1
    assert frame.where("unsigned = 18446744073709551615").count() == 1


def test_our_own_reading_gives_the_written_types(tmp_path: Path, batch: pa.RecordBatch) -> None:
    [file] = write(tmp_path, batch)
    [back] = read_batches(pafs.LocalFileSystem(), str(tmp_path / file.name))
    assert back.to_pylist() == batch.to_pylist()
    assert back.schema.field("span").type == pa.duration("us")
    assert files_from_json(files_to_json([file])) == [file]


def test_files_are_cut_at_the_target_size(tmp_path: Path) -> None:
    rows = pa.record_batch({"n": pa.array(range(200_000), pa.int64())})
    halves = rows.slice(0, 100_000), rows.slice(100_000)
    written = write(tmp_path, *halves, target=1, row_group_bytes=1)
    assert [f.rows for f in written] == [100_000, 100_000]
    assert sorted(f.name for f in written) == [f.name for f in written]


def test_a_changed_schema_begins_another_file(tmp_path: Path) -> None:
    one = pa.record_batch({"n": [1]})
    two = pa.record_batch({"n": [2], "m": ["x"]})
    assert [f.schema.names for f in write(tmp_path, one, two)] == [["n"], ["n", "m"]]
