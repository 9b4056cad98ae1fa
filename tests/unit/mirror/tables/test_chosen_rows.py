"""Rows are taken from columns with more text than one Arrow array can hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.mirror.columns.chosen_rows import take_rows, take_values

TEXTS = st.one_of(st.none(), st.text("xyz", max_size=9))


@given(st.lists(st.lists(TEXTS, max_size=5), max_size=6), st.data(), st.integers(1, 40))
def test_values_of_a_column_in_several_arrays(
    chunks: list[list[str | None]], data: st.DataObject, most_bytes: int
) -> None:
    column = pa.chunked_array(chunks, pa.string())
    of_all = st.lists(st.integers(0, len(column) - 1), max_size=30) if len(column) else st.just([])
    chosen = np.array(data.draw(of_all), np.int64)
    found = take_values(column, chosen, most_bytes)
    values = [one for chunk in chunks for one in chunk]
    assert found.to_pylist() == [values[number] for number in chosen]
    assert all(chunk.nbytes - 4 * len(chunk) < most_bytes + 20 for chunk in found.chunks)
    table = pa.table({"n": np.arange(len(column)), "t": column})
    once = np.unique(chosen)[::-1]
    assert take_rows(table, once, most_bytes).to_pylist() == [
        {"n": number, "t": values[number]} for number in once
    ]


def test_a_column_of_more_than_two_gigabytes(tmp_path: Path) -> None:
    size = 1 << 30
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(size)  # a sparse file: no disk, and no memory
    zeros = pa.memory_map(str(tmp_path / "zeros")).read_buffer(size)
    offsets = pa.py_buffer(pa.array([0, size], pa.int32()).buffers()[1])
    long = pa.Array.from_buffers(pa.utf8(), 1, [None, offsets, zeros])
    column = pa.chunked_array([long, pa.array(["a"]), long, long, pa.array(["b", "c"])])
    with pytest.raises(pa.ArrowInvalid):
        column.take(pa.array([5, 1]))
    assert take_values(column, np.array([5, 1, 4])).to_pylist() == ["c", "a", "b"]
    rows = pa.table({"t": column, "n": range(6)})
    assert take_rows(rows, np.array([5, 1])).to_pylist() == [{"t": "c", "n": 5}, {"t": "a", "n": 1}]
