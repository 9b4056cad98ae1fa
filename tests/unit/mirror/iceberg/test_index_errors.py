"""A row index and errors of the system: a full disk, too many open files. They lose no entry, and no file of it."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import SourceError
from binlake.mirror.iceberg.row_index import RowIndex
from binlake.mirror.tables.damage import DAMAGED
from binlake.mirror.tables.keys import POSITION_BITS, Keys, SortedKeys, sorted_keys

ROWS = 1000
RUN_BYTES = 8 * ROWS


@contextmanager
def limited(kind: int, soft: int) -> Iterator[None]:
    before, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (before, hard))


@contextmanager
def room_for_files(count: int) -> Iterator[None]:
    """Let this process open `count` more files."""
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(count + 1)]
    for descriptor in opened:
        os.close(descriptor)
    with limited(resource.RLIMIT_NOFILE, opened[-1]):
        yield


def keys_from(first: int, hashed: bool = False, rows: int = ROWS) -> Keys:
    numbers = np.arange(first, first + rows, dtype=np.uint64 if hashed else np.int64)
    return Keys(numbers, np.array(numbers) if hashed else None)


def index_of(directory: Path, files: int, hashed: bool = False, rows: int = ROWS) -> RowIndex:
    """An index with a run for each of some files, `f0` and so on."""
    index = RowIndex(directory)
    for number in range(files):
        index.add(f"f{number}", sorted_keys(keys_from(number * rows, hashed, rows)))
    index.save(11)
    return index


def found(index: RowIndex, files: int, hashed: bool = False, rows: int = ROWS) -> int:
    return len(index.find(keys_from(0, hashed, files * rows))[0])


def names(directory: Path) -> set[str]:
    return {file.name for file in directory.iterdir()}


@pytest.mark.parametrize("hashed", [False, True])
def test_many_indexes_with_few_open_files(tmp_path: Path, hashed: bool) -> None:
    """The arrays of the runs are 210 to 315 files; a merge of eight runs has a few of them open."""
    with room_for_files(16):
        indexes = [index_of(tmp_path / str(number), 14, hashed, 10) for number in range(15)]
        indexes += [RowIndex(tmp_path / str(number)) for number in range(15)]
        assert {found(index, 14, hashed, 10) for index in indexes} == {140}
        assert len(list(tmp_path.glob("0/*.npy"))) == (7 * 3 if hashed else 7 * 2)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs the maps of Linux")
def test_nothing_of_an_index_is_mapped_between_lookups(tmp_path: Path) -> None:
    """A table that is copied again has another index, and the memory of the first one is free."""
    index = index_of(tmp_path, 10)
    assert found(index, 10) == 10 * ROWS
    index.forget([f"f{number}" for number in range(5)])
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("count", range(3))
def test_an_index_that_cannot_be_opened_is_not_lost(tmp_path: Path, count: int) -> None:
    index_of(tmp_path, 3)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with room_for_files(count):
        if count == 2:
            assert RowIndex(tmp_path).snapshot == 11
        else:
            with pytest.raises(SourceError, match="Too many open files"):
                RowIndex(tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    again = RowIndex(tmp_path)
    assert (again.snapshot, found(again, 3)) == (11, 3 * ROWS)


def test_the_limit_of_open_files_is_named(tmp_path: Path) -> None:
    index_of(tmp_path, 1)
    with room_for_files(1), pytest.raises(SourceError, match="LimitNOFILE") as raised:
        RowIndex(tmp_path)
    assert f"cannot read {tmp_path}: Too many open files" in str(raised.value)


@pytest.mark.parametrize("hashed", [False, True])
def test_a_merge_on_a_full_disk(tmp_path: Path, hashed: bool) -> None:
    """(The limit is on each file.)"""
    index = index_of(tmp_path, 7, hashed)
    before = names(tmp_path)
    with limited(resource.RLIMIT_FSIZE, 2 * RUN_BYTES):
        with pytest.raises(SourceError, match=f"cannot write {tmp_path}: File too large"):
            index.add("f7", sorted_keys(keys_from(7 * ROWS, hashed)))
        assert len(names(tmp_path) - before) == (3 if hashed else 2), "the run of the new file"
        files = [f"f{number}" for number in range(8)]
        index.keep(files)
        assert [path for path in files if not index.has(path)] == []
        index.save(12)
    assert found(index, 8, hashed) == 8 * ROWS
    again = RowIndex(tmp_path)
    assert (again.snapshot, found(again, 8, hashed)) == (12, 8 * ROWS)
    again.add("f8", sorted_keys(keys_from(8 * ROWS, hashed)))
    again.save(13)
    assert len(list(tmp_path.glob("*.where.npy"))) == 2, "the merge was made up for"
    assert found(again, 9, hashed) == 9 * ROWS


def test_a_full_disk_while_entries_of_forgotten_files_are_dropped(tmp_path: Path) -> None:
    index = RowIndex(tmp_path)
    upper = np.repeat(np.arange(3, dtype=np.uint64), ROWS) << POSITION_BITS
    places = np.tile(np.arange(ROWS, dtype=np.uint64), 3) | upper
    index.add_files(dict.fromkeys("abc", ROWS), [SortedKeys(keys_from(0, rows=3 * ROWS), places)])
    for number in range(3, 6):
        index.add(f"f{number}", sorted_keys(keys_from(number * ROWS)))
    index.save(11)
    with limited(resource.RLIMIT_FSIZE, RUN_BYTES), pytest.raises(SourceError, match="too large"):
        index.forget(["a", "b"])
    files = ["c", "f3", "f4", "f5"]
    index.keep(files)
    assert [path for path in files if not index.has(path)] == []
    index.save(12)
    again = RowIndex(tmp_path)
    assert [found(one, 6) for one in (index, again)] == [4 * ROWS, 4 * ROWS]


def test_the_next_start_removes_files_that_a_kill_has_left(tmp_path: Path) -> None:
    """On a full disk, each start would leave further ones."""
    index = index_of(tmp_path, 1)
    before = names(tmp_path)
    index.add("f1", sorted_keys(keys_from(ROWS)))
    assert names(tmp_path) > before
    again = RowIndex(tmp_path)
    assert names(tmp_path) == before
    assert (again.has("f0"), again.has("f1"), found(again, 2)) == (True, False, ROWS)


def test_an_index_that_lacks_a_run_lacks_its_files(tmp_path: Path) -> None:
    index_of(tmp_path, 3)
    meta = tmp_path / "index.json"
    content = json.loads(meta.read_text())
    del content["runs"][1]
    meta.write_text(json.dumps(content))
    index = RowIndex(tmp_path)
    assert index.snapshot is None
    assert [index.has(f"f{number}") for number in range(3)] == [True, False, True]
    index.add("f1", sorted_keys(keys_from(ROWS)))
    index.save(12)
    assert found(RowIndex(tmp_path), 3) == 3 * ROWS


def test_an_index_that_has_lost_a_run_is_not_saved_as_whole(tmp_path: Path) -> None:
    """No error is known that has this effect."""
    index = index_of(tmp_path, 3)
    del index._runs[0]
    index.keep(["f0", "f1", "f2"])
    assert [index.has(f"f{number}") for number in range(3)] == [False, True, True]
    del index._runs[0]
    index.save(12)
    for one in (index, RowIndex(tmp_path)):
        assert one.snapshot is None
        assert [one.has(f"f{number}") for number in range(3)] == [False, False, True]


def test_an_index_of_an_earlier_version_is_made_again(tmp_path: Path) -> None:
    """It may lack entries."""
    index_of(tmp_path, 1)
    meta = tmp_path / "index.json"
    content = json.loads(meta.read_text())
    content["files"] = {path: number for path, (number, _) in content["files"].items()}
    meta.write_text(json.dumps({**content, "version": 3}))
    assert not RowIndex(tmp_path).has("f0")


def test_files_that_go_or_shrink_while_the_mirror_runs(tmp_path: Path) -> None:
    """The mirror ends, and the next start makes the index again. The lake table is not damaged."""
    index = index_of(tmp_path, 2)
    [file, _] = sorted(tmp_path.glob("*.high.npy"))
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(SourceError, match=f"cannot read {file}: the file has become shorter"):
        found(index, 2)
    shutil.rmtree(tmp_path)
    with pytest.raises(SourceError, match="does not exist") as raised:
        found(index, 2)
    assert not isinstance(raised.value, DAMAGED)
    assert RowIndex(tmp_path).snapshot is None


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("a file")
    with pytest.raises(SourceError, match=f"cannot write {tmp_path}/shop/t: Not a directory"):
        RowIndex(tmp_path / "shop" / "t")
