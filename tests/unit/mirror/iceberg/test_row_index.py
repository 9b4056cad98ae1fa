"""A row index in memory, and after a crash of the machine, which can lose parts of files that were written before it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.mirror.iceberg.row_index import RowIndex
from binlake.mirror.tables.keys import Keys, by_file, sorted_keys

ROWS = 2000


def keys(hashed: bool) -> Keys:
    numbers = np.arange(ROWS, dtype=np.uint64)
    return Keys(numbers, numbers + np.uint64(7) if hashed else None)


def saved(directory: Path, hashed: bool = False) -> None:
    index = RowIndex(directory)
    index.add("a.parquet", sorted_keys(keys(hashed)))
    index.save(11)


def start_the_machine_again(directory: Path) -> None:
    """Make the index one that was saved before the machine started."""
    meta = directory / "index.json"
    content = json.loads(meta.read_text())
    meta.write_text(json.dumps({**content, "boot": "an earlier one"}))


def is_rebuilt(directory: Path) -> bool:
    index = RowIndex(directory)
    if index.has("a.parquet"):
        assert len(index.find(keys(hashed=False))[0]) == ROWS
        return False
    assert index.snapshot is None
    return True


def test_an_intact_index_is_kept(tmp_path: Path) -> None:
    saved(tmp_path)
    assert not is_rebuilt(tmp_path)
    start_the_machine_again(tmp_path)
    assert not is_rebuilt(tmp_path)


@pytest.mark.parametrize("part", ["high", "low", "where"])
@pytest.mark.parametrize("left", [0, 1, 100, 3000])
def test_a_file_that_lacks_its_end(tmp_path: Path, part: str, left: int) -> None:
    saved(tmp_path, hashed=True)
    (file,) = tmp_path.glob(f"*.{part}.npy")
    file.write_bytes(file.read_bytes()[:left])
    assert is_rebuilt(tmp_path)


@pytest.mark.parametrize("part", ["high", "low", "where"])
def test_blocks_that_were_never_written_are_zero(tmp_path: Path, part: str) -> None:
    saved(tmp_path, hashed=True)
    start_the_machine_again(tmp_path)
    (file,) = tmp_path.glob(f"*.{part}.npy")
    content = file.read_bytes()
    file.write_bytes(content[:4096] + bytes(4096) + content[8192:])
    assert is_rebuilt(tmp_path)


def test_an_index_that_was_rebuilt_can_be_saved(tmp_path: Path) -> None:
    saved(tmp_path)
    (file,) = tmp_path.glob("*.high.npy")
    file.write_bytes(b"")
    saved(tmp_path)
    assert not is_rebuilt(tmp_path)


def resident_bytes(directory: Path) -> int:
    """The memory of this process that files of a directory take."""
    size, is_of_file = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.startswith("Rss:"):
            size += int(line.split()[1]) * 1024 * is_of_file
        elif "-" in line.partition(" ")[0]:  # the first line of a mapping
            is_of_file = str(directory) in line
    return size


@pytest.mark.skipif(
    not Path("/proc/self/smaps").exists(), reason="needs the memory as Linux shows it"
)
@pytest.mark.parametrize("hashed", [False, True])
def test_a_lookup_leaves_nothing_of_the_index_in_memory(tmp_path: Path, hashed: bool) -> None:
    index = RowIndex(tmp_path)
    index.add("a.parquet", sorted_keys(keys(hashed)))
    assert len(index.find(keys(hashed))[0]) == ROWS
    assert resident_bytes(tmp_path) == 0


@pytest.mark.parametrize("files", [1, 3, 1000])
@pytest.mark.parametrize("at_once", [True, False])
def test_the_rows_of_many_files_are_found(tmp_path: Path, files: int, at_once: bool) -> None:
    """A commit to a table with partitions adds many small files: they become one run. Many keys are looked up on threads."""
    random = np.random.default_rng(files)
    of_file = max(1, 200_000 // files)
    high = random.permutation(files * of_file).astype(np.uint64)
    added = {
        f"{n}.parquet": sorted_keys(Keys(part, part + np.uint64(7)))
        for n, part in enumerate(np.split(high, files))
    }
    index = RowIndex(tmp_path)
    if at_once:
        index.add_together(added)
        index.save(1)
        assert len(list(tmp_path.glob("*.where.npy"))) == 1
    else:
        for path, part in added.items():
            index.add(path, part)

    rows, places = index.find(Keys(high, high + np.uint64(7)))
    assert sorted(rows) == list(range(len(high)))
    found = np.empty(len(high), np.int64)
    for number, of in by_file(places):
        first = int(index.path(number).partition(".")[0]) * of_file
        found[rows[of]] = first + (places[of] & np.uint64(0xFFFFFFFF)).astype(np.int64)
    assert (found == np.arange(len(high))).all()


@pytest.mark.parametrize("numbers", [[], [5], [7, 5, 7, 1 << 31, 5], list(range(70_000))[::-1]])
def test_places_by_file(numbers: list[int]) -> None:
    places = np.array([number << 32 | at for at, number in enumerate(numbers)], np.uint64)
    found = [(number, of.tolist()) for number, of in by_file(places)]
    expected: dict[int, list[int]] = {}
    for at, number in enumerate(numbers):
        expected.setdefault(number, []).append(at)
    assert found == sorted(expected.items())
