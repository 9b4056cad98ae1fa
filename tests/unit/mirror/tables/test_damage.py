"""Which errors of Arrow are about a damaged file, and which are about too many bytes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from binlake.mirror.tables.damage import DAMAGED, is_overflow

GIGABYTE = 1 << 30


def a_long_text(folder: Path) -> pa.Array:
    path = folder / "zeros"
    with path.open("wb") as file:
        file.truncate(GIGABYTE)  # a sparse file: no disk, and no memory
    values = pa.memory_map(str(path)).read_buffer(GIGABYTE)
    offsets = pa.py_buffer(pa.array([0, GIGABYTE], pa.int32()).buffers()[1])
    return pa.Array.from_buffers(pa.utf8(), 1, [None, offsets, values])


def test_a_column_of_more_than_two_gigabytes(tmp_path: Path) -> None:
    long = a_long_text(tmp_path)
    with pytest.raises(DAMAGED) as overflow:
        pa.chunked_array([long] * 3).take(pa.array([0, 1, 2]))
    assert is_overflow(overflow.value)


def test_columns_that_are_joined_to_more_than_two_gigabytes(tmp_path: Path) -> None:
    """Arrow has another error for a value that does not fit into an array."""
    long = a_long_text(tmp_path)
    with pytest.raises(DAMAGED) as overflow:
        pc.binary_join_element_wise(long, long, long, "")
    assert is_overflow(overflow.value)


def test_a_file_that_is_no_parquet_file(tmp_path: Path) -> None:
    with pytest.raises(DAMAGED) as damaged:
        pa.ipc.open_file(pa.py_buffer(b"no such file"))
    assert not is_overflow(damaged.value)
