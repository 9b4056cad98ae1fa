"""The data files that are left after the writing of rows ends early."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import ServerError, SourceError
from binlake.lake.engine import UnwantedError
from binlake.mirror.followed.kept_columns import files_with_kept_values
from binlake.mirror.iceberg.row_index import RowIndex
from binlake.mirror.tables import data_files
from binlake.mirror.tables.data_files import DataFileWriter
from binlake.mirror.tables.keys import keys_of, sorted_keys
from binlake.mirror.tables.partitions import NOT_PARTITIONED, Partition, Partitioning
from binlake.mirror.tables.schema import iceberg_schema, storage_schema

SCHEMA = storage_schema(
    iceberg_schema(pa.schema([("id", pa.int64()), ("c", pa.string()), ("c_before_1", pa.int64())]))
)


def rows_of(ids: range) -> pa.Table:
    """Rows without earlier values."""
    columns = [pa.array(ids), pa.array(map(str, ids)), pa.nulls(len(ids), pa.int64())]
    return pa.table(columns, schema=SCHEMA)


class Lake:
    """A lake table whose rows have the earlier values 10 × id."""

    schema = SCHEMA
    partitioning = NOT_PARTITIONED

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def data_prefix(self) -> str:
        return f"{self._folder}/data-"

    def rows_of(self, keys: pa.Table, names: Any = None) -> tuple[Any, pa.Table]:
        ids = keys["id"].to_numpy()
        old = pa.table([ids, pa.nulls(len(ids), pa.string()), ids * 10], schema=SCHEMA)
        return np.arange(len(ids)), old


def copied(folder: Path) -> list[dict[str, Any]]:
    """Two files of copied rows."""
    writer = DataFileWriter(SCHEMA, f"{folder}/copied-")
    return [file for ids in (range(3), range(3, 5)) for file in writer.write([rows_of(ids)])]


def test_an_interrupted_addition_of_earlier_values_leaves_no_file(tmp_path: Path) -> None:
    """It may be interrupted many times, and a file is only complete after hundreds of megabytes."""
    new = tmp_path / "new"
    lake: Any = Lake(new)
    answers = iter([False, True])
    seen: list[tuple[int, int]] = []

    def watch(files: int, rows: int) -> None:
        assert len(list(new.iterdir())) == 1
        seen.append((files, rows))

    with pytest.raises(UnwantedError):
        files_with_kept_values(
            copied(tmp_path), lake, ["id"], ["c_before_1"], watch, lambda: next(answers)
        )
    assert (seen, list(new.iterdir())) == ([(1, 3)], [])

    [file] = files_with_kept_values(
        copied(tmp_path), lake, ["id"], ["c_before_1"], lambda *_: None, lambda: False
    )
    assert pq.read_table(file["file-path"])["c_before_1"].to_pylist() == [0, 10, 20, 30, 40]


@pytest.fixture
def by_id(tmp_path: Path) -> DataFileWriter:
    """Writes a file for each id, at most two of them at a time."""
    by_id = Partitioning(1, ((1, "identity", 0),))
    prefix = f"{tmp_path}/data-"
    return DataFileWriter(SCHEMA, prefix, partitioning=by_id, most_open_files=2, held_bytes=1)


def test_a_failure_leaves_only_the_finished_files(tmp_path: Path, by_id: DataFileWriter) -> None:
    def batches() -> Iterator[pa.Table]:
        yield rows_of(range(3))
        raise ServerError("the server has ended the connection")

    found: list[dict[str, Any]] = []
    with pytest.raises(ServerError, match="ended the connection"):
        found.extend(by_id.write(batches()))
    assert [str(path) for path in tmp_path.iterdir()] == [file["file-path"] for file in found]
    assert [file["record-count"] for file in found] == [1]


def test_a_caller_that_stops_leaves_only_the_finished_files(
    tmp_path: Path, by_id: DataFileWriter
) -> None:
    written: Any = by_id.write([rows_of(range(3))])
    first = next(written)
    assert len(list(tmp_path.iterdir())) == 2
    written.close()
    assert [str(path) for path in tmp_path.iterdir()] == [first["file-path"]]


def test_a_file_that_cannot_be_finished_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_of: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(data_files, "finished", full)
    with pytest.raises(SourceError, match=r"cannot write .*: No space left"):
        list(DataFileWriter(SCHEMA, f"{tmp_path}/data-").write([rows_of(range(3))]))
    assert list(tmp_path.iterdir()) == []


@contextmanager
def full_disk() -> Iterator[None]:
    """Files of this process cannot become larger than 4 KB, as on a full disk.

    It is no fixture: pytest writes the result of a test, perhaps into a file, before the fixtures end.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_named_with_the_file(tmp_path: Path) -> None:
    schema = storage_schema(iceberg_schema(pa.schema([("v", pa.binary())])))
    rows = pa.table([[os.urandom(100_000)]], schema=schema)
    writer = DataFileWriter(schema, f"{tmp_path}/t-")
    with full_disk():
        with pytest.raises(
            SourceError, match=rf"^cannot write {tmp_path}/t-\w+\.parquet: File too large$"
        ):
            list(writer.write([rows]))
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(SourceError, match=r": File too large$"):
            writer.write_one([rows], Partition(0))
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(
            SourceError, match=rf"^cannot write {tmp_path}/x\.puffin: File too large$"
        ):
            data_files.write_file(f"{tmp_path}/x.puffin", os.urandom(100_000))


def test_an_index_on_a_full_disk(tmp_path: Path) -> None:
    index = RowIndex(tmp_path / "index")
    many = keys_of([pa.chunked_array([pa.array(range(10_000), pa.int64())])], ["id"])
    with (
        full_disk(),
        pytest.raises(SourceError, match=rf"^cannot write {tmp_path}/index: File too large$"),
    ):
        index.add("a.parquet", sorted_keys(many))


@pytest.fixture
def no_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client asks for the region of a bucket, unless the environment has one."""
    settings = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("no_s3")
@pytest.mark.parametrize(
    "name", ["plain", "my table", "größe", "日本", "🐟", '"<^|`>"', "50%25 off", " x", "a+b=c"]
)
@pytest.mark.parametrize(
    ("store", "root"),
    [
        ("s3a://bucket", "bucket"),
        ("s3://bucket", "bucket"),
        ("gs://anonymous@bucket", "bucket"),
        ("abfs://container@account.dfs.core.windows.net", "container"),
    ],
)
def test_files_of_tables_with_any_name_in_a_store(name: str, store: str, root: str) -> None:
    """Iceberg does not encode the paths of files, so nothing may decode them."""
    _, inner = data_files.file_system(f"{store}/wh/shop/{name}/data/x.parquet")
    assert inner == f"{root}/wh/shop/{name}/data/x.parquet"


@pytest.mark.usefixtures("no_s3")
def test_the_root_of_a_store() -> None:
    assert data_files.file_system("s3://bucket")[1] == "bucket"
    assert data_files.file_system("s3://bucket/")[1] == "bucket"
    assert data_files.file_system("gs://anonymous@bucket/wh/")[1] == "bucket/wh"
    options = "region=eu-west-1&endpoint_override=127.0.0.1%3A9"
    assert data_files.file_system(f"s3://bucket/wh?{options}")[1] == "bucket/wh"
