"""Sums by key are those that a loop over the rows makes."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from binlake.source.arrays import array
from binlake.source.grouping import COUNT, KEY, summed

ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1 << 40), st.integers(-9, 9)))


@given(ROWS, st.integers(0, 30))
def test_sums_and_counts(rows: list[tuple[int, int, int]], cut: int) -> None:
    columns = [array([row[at] for row in rows], pa.int64()) for at in range(3)]
    key, a, b = (pa.chunked_array([c[:cut], c[cut:]], pa.int64()) for c in columns)
    counts, sums_a, sums_b = Counter[int](), Counter[int](), Counter[int]()
    for number, in_a, in_b in rows:
        counts[number] += 1
        sums_a[number] += in_a
        sums_b[number] += in_b
    assert summed(key, {"a": a, "b": b}).to_pylist() == [
        {KEY: number, COUNT: counts[number], "a": sums_a[number], "b": sums_b[number]}
        for number in sorted(counts)
    ]
