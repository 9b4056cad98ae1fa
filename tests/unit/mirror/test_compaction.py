"""The decisions of compaction: files and positions, and the entries of the row index."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from pyroaring import BitMap

from binlake.errors import OptionError
from binlake.mirror.iceberg.compaction import Rewritten
from binlake.mirror.iceberg.row_index import RowIndex
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.compaction_policy import (
    CompactionPolicy,
    FileState,
    all_groups,
    due_groups,
)
from binlake.mirror.tables.keys import Keys, sorted_keys

MB = 1 << 20
POLICY = CompactionPolicy()


def files(*sizes: tuple[int, int, int]) -> list[FileState]:
    """Files from (rows, deleted, bytes)."""
    return [FileState(f"f{i:04}", *size) for i, size in enumerate(sizes)]


def paths(groups: list[list[FileState]]) -> list[list[str]]:
    return [[file.path for file in group] for group in groups]


def test_files_of_one_size_become_one_when_there_are_enough() -> None:
    small = (100, 0, 20_000)
    base = (1_000_000, 0, 100 * MB)
    assert due_groups(files(base, *[small] * 15), POLICY) == []
    assert paths(due_groups(files(base, *[small] * 16), POLICY)) == [
        [f"f{i:04}" for i in range(1, 17)]
    ]


def test_compaction_rewrites_files_with_many_deleted_rows() -> None:
    base = (1_000_000, 200_000, 100 * MB)
    assert due_groups(files(base), POLICY) == []
    assert paths(due_groups(files((1_000_000, 300_000, 100 * MB)), POLICY)) == [["f0000"]]
    few_rows = (100, 90, 4000)
    assert due_groups(files(*[few_rows] * 7), POLICY) == [], "seven small files are read at once"
    assert len(due_groups(files(*[few_rows] * 8), POLICY)[0]) == 8
    assert due_groups(files(base, *[few_rows] * 8), POLICY) == []


def test_a_job_is_bounded() -> None:
    many = files(*[(10_000, 0, 18 * MB)] * 40)
    [*groups] = due_groups(many, POLICY)
    assert sum(file.bytes for group in groups for file in group) <= POLICY.job_bytes
    assert all(sum(f.live_bytes for f in group) <= POLICY.file_bytes for group in groups)
    jobs = list(all_groups(many, POLICY))
    assert sum(len(group) for job in jobs for group in job) == 40
    assert len(jobs) > 1
    rows = files(*[(550_000, 0, 5 * MB)] * 16)
    assert [len(group) for group in due_groups(rows, POLICY)] == [7, 7, 2], "the index is in memory"


def test_files_that_a_copy_writes_are_large_enough() -> None:
    assert due_groups(files(*[(1_000_000, 0, 40 * MB)] * 40), POLICY) == []
    assert due_groups(files(*[(900_000, 50_000, 10 * MB)] * 40), POLICY) == [], "of few bytes"


def test_a_compacted_table_is_left_alone() -> None:
    sizes = [(1000, 0, 20_000)] * 15 + [(1_000_000, 0, 100 * MB)]
    assert due_groups(files(*sizes), POLICY) == []
    assert list(all_groups(files(sizes[-1], sizes[0]), POLICY)) == [], "one small file is enough"


@pytest.mark.parametrize("seed", range(5))
def test_later_deletes_move_to_where_the_rows_are(seed: int) -> None:
    rng = random.Random(seed)
    rows = {"a": 50, "b": 1, "c": 70}
    before = {
        path: BitMap(rng.sample(range(count), rng.randrange(count))) for path, count in rows.items()
    }
    new_file = [
        (path, position)
        for path, count in rows.items()
        for position in range(count)
        if position not in before[path]
    ]
    gone = rng.sample(new_file, len(new_file) // 3)
    now = {path: before[path] | BitMap([p for of, p in gone if of == path]) for path in rows}
    rewritten = Rewritten(before, rows, {"file-path": "new"})
    assert [new_file[at] for at in rewritten.moved(now)] == sorted(gone)


def places(index: RowIndex, keys: range) -> set[tuple[int, str, int]]:
    found, where = index.find(Keys(np.array(keys, np.int64), None))
    return {
        (keys[int(row)], index.path(int(place) >> 32), int(place) & 0xFFFFFFFF)
        for row, place in zip(found, where, strict=True)
    }


def test_the_index_forgets_files_and_gives_their_place_back(tmp_path: Path) -> None:
    index = RowIndex(tmp_path)
    rng = np.random.default_rng(3)
    expected: dict[str, list[int]] = {}
    for number in range(300):
        keys = rng.integers(0, 500, 20)
        expected[f"file{number}"] = [int(key) for key in keys]
        index.add(f"file{number}", sorted_keys(Keys(keys, None)))
        if number % 30 == 29:
            gone = [path for path in expected if path != f"file{number}"][:28]
            index.forget(gone)
            for path in gone:
                del expected[path]
        if number == 150:
            index.save(number)
            index = RowIndex(tmp_path)
        assert places(index, range(500)) == {
            (key, path, at) for path, of in expected.items() for at, key in enumerate(of)
        }
    index.save(4711)
    entries = 24 * 20 * len(expected)
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert size < 3 * entries + 60 * 1024, "entries of files that are gone are dropped"
    again = RowIndex(tmp_path)
    assert again.snapshot == 4711
    assert places(again, range(500)) == places(index, range(500))


def test_a_file_that_comes_back_is_not_found_twice(tmp_path: Path) -> None:
    index = RowIndex(tmp_path)
    keys = sorted_keys(Keys(np.arange(10, dtype=np.int64), None))
    index.add("one", keys)
    index.add("two", sorted_keys(Keys(np.arange(100, dtype=np.int64), None)))
    index.forget(["one"])
    index.add("one", keys)
    found, _ = index.find(Keys(np.array([3], np.int64), None))
    assert len(found) == 2


@pytest.mark.parametrize(
    "wrong",
    [{"compact_files": 1}, {"compact_deleted": 1.0}, {"max_snapshots": 0}, {"compact": "yes"}],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        MirrorOptions.of(wrong)
