"""The deleted rows of a table, which are read when the mirror opens it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from pyroaring import BitMap

from binlake.errors import SourceError
from binlake.mirror.iceberg.live_rows import deleted_rows
from binlake.mirror.iceberg.puffin import vector_files
from binlake.mirror.tables.partitions import Partition

AT_ONCE = 4


class MetFile(dict[str, Any]):
    """A delete file that is read when `AT_ONCE` are."""

    barrier: Barrier

    def __getitem__(self, key: str) -> Any:
        if key == "file-format":
            self.barrier.wait(30)
        return super().__getitem__(key)


def test_deletion_vectors_are_read_at_the_same_time(tmp_path: Path) -> None:
    """One after the other, those of 10,000 data files in an object store take many minutes."""
    barrier = Barrier(AT_ONCE)
    marks = {f"/data/{number}.parquet": BitMap([number]) for number in range(2 * AT_ONCE)}
    paths = (str(tmp_path / f"{number}.puffin") for number in range(len(marks)))
    vectors = vector_files(lambda: next(paths), marks, dict.fromkeys(marks, Partition(0)))
    deletes = {}
    for vector in vectors:
        met = deletes[vector["file-path"]] = MetFile(vector)
        met.barrier = barrier
    of = {vector["referenced-data-file"]: [vector["file-path"]] for vector in vectors}
    data = [{"path": path, "deletes": of.get(path, [])} for path in [*marks, "/data/whole.parquet"]]
    found = deleted_rows({"data": data, "deletes": deletes})
    assert found == {**marks, "/data/whole.parquet": BitMap()}


class CountedFile(dict[str, Any]):
    """A delete file whose reads are counted."""

    reads: Counter[str] = Counter()

    def __getitem__(self, key: str) -> Any:
        self.reads[key] += 1
        return super().__getitem__(key)


def test_a_list_of_several_data_files_is_read_once(tmp_path: Path) -> None:
    path = str(tmp_path / "deletes.parquet")
    rows = {"file_path": ["/a", "/b", "/a"], "pos": pa.array([1, 2, 3], pa.int64())}
    pq.write_table(pa.table(rows), path)
    listed = {"content": "position-deletes", "file-path": path, "file-format": "parquet"}
    deletes = {path: CountedFile(listed)}
    data = [{"path": name, "deletes": [path]} for name in ("/a", "/b", "/c")]
    found = deleted_rows({"data": data, "deletes": deletes})
    assert found == {"/a": BitMap([1, 3]), "/b": BitMap([2]), "/c": BitMap()}
    assert deletes[path].reads["file-path"] == 1


def test_a_missing_vector(tmp_path: Path) -> None:
    vector = {
        "content": "position-deletes", "file-path": str(tmp_path / "gone.puffin"), "file-format": "puffin",
        "content-offset": 4, "content-size-in-bytes": 40,
    }  # fmt: skip
    files = {"data": [{"path": "/a", "deletes": ["v"]}], "deletes": {"v": vector}}
    with pytest.raises(SourceError, match=r"gone\.puffin is missing"):
        deleted_rows(files)
