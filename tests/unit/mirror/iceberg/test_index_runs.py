"""Runs of an index that are merged in pieces have all entries, in their order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.mirror.iceberg.index_runs import Run, merged, open_run, write_run
from binlake.mirror.tables.keys import Keys


def test_pieces_are_small_if_the_keys_of_runs_follow_each_other(tmp_path: Path) -> None:
    runs = []
    for number in range(8):
        keys = Keys(np.arange(1000, dtype=np.int64) + 1000 * number, None)
        where = np.arange(1000, dtype=np.uint64)
        runs.append(write_run(tmp_path, {number: 1000}, [(keys, where)]))
    sizes = [len(keys) for keys, _ in merged(runs, 100)]
    assert sum(sizes) == 8000
    assert max(sizes) <= 100


@pytest.mark.parametrize("is_hash", [False, True])
@pytest.mark.parametrize("piece_rows", [1, 7, 1000])
def test_merged_in_pieces(tmp_path: Path, is_hash: bool, piece_rows: int) -> None:
    rng = np.random.default_rng(1)
    runs = []
    for number, rows in enumerate(
        (1, 40, 3, 90)
    ):  # with keys that several runs have, and one run several times
        high = np.sort(rng.integers(-20, 20, rows))
        low = rng.integers(0, 9, rows).astype(np.uint64) if is_hash else None
        kind = np.uint64 if is_hash else np.int64
        where = np.arange(rows, dtype=np.uint64) + np.uint64(1000 * number)
        high = high + 20 if is_hash else high
        runs.append(write_run(tmp_path, {number: rows}, [(Keys(high.astype(kind), low), where)]))
    pieces = merged(runs, piece_rows)
    counts = {number: len(run) for number, run in enumerate(runs)}
    made = write_run(tmp_path, counts, pieces)
    assert made.is_intact
    assert (np.diff(made.high.astype(np.int64)) >= 0).all()

    def entries(*of: Run) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for run in of:
            lows = run.where if run.low is None else run.low
            found += zip(run.high.tolist(), lows.tolist(), run.where.tolist(), strict=True)
        return sorted(found)

    again = open_run(tmp_path, made.name, counts.items(), made.checksums)
    assert entries(again) == entries(*runs)
    assert len(made) == 134
