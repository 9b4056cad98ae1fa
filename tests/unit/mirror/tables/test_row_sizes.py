"""The estimate of the memory for rows, made from the data files of a table."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlake.mirror.tables.row_sizes import FileSize, RowSizes, bytes_in_memory

ROWS = 20_000


def file_of(path: Path, columns: dict[str, pa.Array], dictionary: list[str]) -> FileSize:
    rows = pa.table(columns)
    pq.write_table(rows, path, compression="zstd", use_dictionary=dictionary, row_group_size=7000)
    return FileSize(str(path), rows.num_rows, path.stat().st_size)


@pytest.mark.parametrize("in_dictionary", [False, True])
def test_columns_of_all_kinds(tmp_path: Path, in_dictionary: bool) -> None:
    rng = random.Random(1)
    numbers = range(ROWS)
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "none": pa.nulls(ROWS, pa.int32()),
        "exact": pa.array([None] * ROWS, pa.decimal128(20, 2)),
        "same": pa.array(["x" * 300] * ROWS),
        "several": pa.array([f"{i % 7}" * 100 for i in numbers]),
        "words": pa.array([" ".join(rng.choices(["one", "two"], k=20)) for _ in numbers]),
        "list": pa.array([[1.0, float(i)] for i in numbers], pa.list_(pa.float32())),
        "s.p": pa.array([{"a": i, "b": "text"} for i in numbers]),
        "bytes": pa.array([bytes(50)] * ROWS),
    }
    dictionary = ["same", "several", "bytes"] if in_dictionary else []
    file = file_of(tmp_path / "f.parquet", columns, dictionary)
    actual = pa.table(columns).nbytes
    assert actual * 0.8 < bytes_in_memory(file.path) < actual * 1.3
    assert file.bytes * 10 < actual


def test_the_average_of_a_table(tmp_path: Path) -> None:
    sizes = RowSizes()
    assert sizes.average([]) == 1
    of_text = [
        file_of(tmp_path / f"{n}", {"t": pa.array(["x" * 1000 * n] * 1000)}, []) for n in (1, 2)
    ]
    found = sizes.average(of_text)
    assert 1400 < found < 1700
    Path(of_text[0].path).unlink()  # its size is known
    assert sizes.average(of_text) == found
