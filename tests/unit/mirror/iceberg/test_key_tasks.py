"""A row index whose keys tasks have read finds the same rows as one whose keys were read here."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import BinlogError
from binlake.lake.engine import Progress, Task
from binlake.mirror.apply.key_files import read_keys
from binlake.mirror.apply.task_files import TaskFiles
from binlake.mirror.iceberg.key_tasks import KeyTask, TaskKeyReader
from binlake.mirror.iceberg.live_rows import Lookup
from binlake.mirror.iceberg.missing_keys import KeyReader, MissingKeys
from binlake.mirror.iceberg.row_index import RowIndex
from binlake.mirror.tables.damage import DAMAGED
from binlake.mirror.tables.data_files import DataFileWriter
from binlake.mirror.tables.keys import Keys, keys_of_rows
from binlake.mirror.tables.schema import conformed, iceberg_schema, storage_schema
from support.spark.engines import HereEngine

ARROW = pa.schema([("id", pa.int32()), ("code", pa.string()), ("closed", pa.int32())])
SCHEMA = storage_schema(iceberg_schema(ARROW))
LOOKUPS = [
    Lookup(("id",)),
    Lookup(("code",)),
    Lookup(("code", "id")),
    Lookup(()),
    Lookup(("code",), "closed"),
]


class CountingEngine(HereEngine):
    """Counts the tasks of each job."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[int] = []

    def run(self, tasks: Sequence[Task], what: str, progress: Progress) -> list[str]:
        self.jobs.append(len(tasks))
        return super().run(tasks, what, progress)


def rows_of(first: int, count: int) -> pa.Table:
    """Rows with keys that some of them share; of three rows, two are closed."""
    numbers = [(first + number) * 7919 % 5003 for number in range(count)]
    columns = {
        "id": numbers,
        "code": [f"code {number % 1009}" for number in numbers],
        "closed": [number % 3 or None for number in numbers],
    }
    return conformed(pa.table(columns, ARROW), SCHEMA)


def written(folder: Path, sizes: Sequence[int]) -> tuple[dict[str, int], pa.Table]:
    """Data files with so many rows: the number of rows of each path, and all rows."""
    files: dict[str, int] = {}
    parts = []
    for size in sizes:
        parts.append(rows_of(sum(files.values()), size))
        [file] = DataFileWriter(SCHEMA, f"{folder}/data-").write([parts[-1]])
        files[file["file-path"]] = size
    return files, pa.concat_tables(parts)


def reader_of(engine: HereEngine, folder: Path, notes: list[str] | None = None) -> TaskKeyReader:
    """Has tasks read the keys of any number of rows."""
    notes = [] if notes is None else notes
    return TaskKeyReader(engine, TaskFiles(folder / "state"), notes.append, 1)


def places(index: RowIndex, keys: Keys) -> list[tuple[int, str, int]]:
    """(row of the keys, data file, position) of all that the index finds."""
    rows, found = index.find(keys)
    return sorted(
        (row, index.path(place >> 32), place & 0xFFFFFFFF)
        for row, place in zip(rows.tolist(), found.tolist(), strict=True)
    )


@pytest.mark.parametrize("lookup", LOOKUPS, ids=str)
def test_the_same_rows_are_found(tmp_path: Path, lookup: Lookup) -> None:
    files, rows = written(tmp_path, (3000, 1, 700, 1300))
    missing = MissingKeys("db.t", files, lookup, SCHEMA)
    here, by_tasks = RowIndex(tmp_path / "here"), RowIndex(tmp_path / "by_tasks")
    earlier = lookup.keys_of(rows.slice(0, 9), SCHEMA)
    assert earlier is not None
    for index in (here, by_tasks):
        index.add("earlier", earlier)
    KeyReader().add(here, missing)
    reader_of(HereEngine(), tmp_path).add(by_tasks, missing)
    keys = keys_of_rows(rows, SCHEMA, lookup.key)
    found = places(by_tasks, keys)
    assert found == places(here, keys)
    with_rows = {path for path in files if lookup.keys_of_file(path, SCHEMA) is not None}
    assert len(with_rows) >= 3
    assert {path for _, path, _ in found} == {*with_rows, "earlier"}
    by_tasks.save(7)
    assert places(RowIndex(tmp_path / "by_tasks"), keys) == found
    assert not list((tmp_path / "state").glob("*/*")), "the files of tasks are removed"


@pytest.fixture(scope="module")
def large_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Data files, one of which is read in several batches: they have 131,072 rows."""
    return written(tmp_path_factory.mktemp("large"), (140_000, 1000))[0]


@pytest.mark.parametrize("lookup", LOOKUPS, ids=str)
@pytest.mark.parametrize("piece_rows", [1, 1500, 1 << 21])
def test_a_task_sorts_more_keys_than_it_holds(
    tmp_path: Path, large_files: dict[str, int], lookup: Lookup, piece_rows: int
) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    task = KeyTask(list(large_files), lookup, SCHEMA, str(folder), piece_rows=piece_rows)
    found = json.loads(task.run())
    pieces = list(read_keys(found["keys"]))
    highs = np.concatenate([piece.keys.high for piece in pieces])
    assert (highs[1:] >= highs[:-1]).all()
    entries = []
    for number, path in enumerate(large_files):
        keys = lookup.keys_of_file(path, SCHEMA)
        assert keys is not None
        assert len(keys.keys) == found["rows"][number]
        entries.append(_entries(keys.keys, keys.positions + np.uint64(number << 32)))
    made = [_entries(piece.keys, piece.positions) for piece in pieces]
    assert np.array_equal(_in_order(made), _in_order(entries))


def _entries(keys: Keys, where: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Both halves of each key, and the place of its row: a column for each."""
    low = where if keys.low is None else keys.low
    return np.stack([np.asarray(column).astype(np.uint64) for column in (keys.high, low, where)])


def _in_order(entries: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    joined = np.concatenate(entries, axis=1)
    return joined[:, np.lexsort(joined)]


def test_files_without_rows_that_can_be_found_are_read_once(tmp_path: Path) -> None:
    lookup = Lookup(("code",), "closed")
    closed = conformed(pa.table({"id": [1], "code": ["a"], "closed": [2]}, ARROW), SCHEMA)
    [file] = DataFileWriter(SCHEMA, f"{tmp_path}/data-").write([closed])
    path = file["file-path"]
    missing = MissingKeys("db.t", {path: 1}, lookup, SCHEMA)
    for name, reader in (("here", KeyReader()), ("tasks", reader_of(HereEngine(), tmp_path))):
        index = RowIndex(tmp_path / name)
        reader.add(index, missing)
        index.save(1)
        index = RowIndex(tmp_path / name)
        assert index.has(path)
        assert not len(index.find(keys_of_rows(closed, SCHEMA, lookup.key))[0])
        index.keep([])
        index.save(2)
        assert not RowIndex(tmp_path / name).has(path)


def test_only_many_rows_are_worth_a_job(tmp_path: Path) -> None:
    files, _ = written(tmp_path, (100, 50))
    missing = MissingKeys("db.t", files, Lookup(("id",)), SCHEMA)
    for least, jobs in ((151, []), (150, [1])):
        engine, notes = CountingEngine(), list[str]()
        reader = TaskKeyReader(engine, TaskFiles(tmp_path / "state"), notes.append, least)
        index = RowIndex(tmp_path / str(least))
        reader.add(index, missing)
        assert all(map(index.has, files))
        assert engine.jobs == jobs
        assert len(notes) == 2 * len(jobs)
    began, ended = notes
    assert began == "db.t: Spark's tasks read the keys of 150 rows for its row index"
    assert ended.startswith("db.t: its row index was completed in ")


def test_jobs_of_a_few_tasks(tmp_path: Path) -> None:
    """The files of all tasks together could be as large as the index."""
    [(path, _)] = written(tmp_path, (10,))[0].items()
    copies = {}
    for number in range(10):
        copy = Path(f"{tmp_path}/copy-{number}.parquet")
        copy.write_bytes(Path(path).read_bytes())
        copies[str(copy)] = 20_000_000  # more than a task reads of several files
    engine = CountingEngine()
    index = RowIndex(tmp_path / "index")
    reader_of(engine, tmp_path).add(index, MissingKeys("db.t", copies, Lookup(("id",)), SCHEMA))
    assert engine.jobs == [4, 4, 2]
    assert all(map(index.has, copies))


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_file_that_cannot_be_read(tmp_path: Path, is_missing: bool) -> None:
    """Its error is the one that quarantines the table, although errors of Spark's tasks arrive as text."""
    files, _ = written(tmp_path, (2000, 2000, 2000))
    bad = Path(list(files)[1])
    content = bad.read_bytes()
    if is_missing:
        bad.unlink()
    else:
        bad.write_bytes(content[:400] + bytes(len(content) - 408) + content[-8:])
    missing = MissingKeys("db.t", files, Lookup(("code",)), SCHEMA)
    index = RowIndex(tmp_path / "index")
    reader = reader_of(HereEngine(), tmp_path)
    with pytest.raises(DAMAGED) as raised:
        reader.add(index, missing)
    assert bad.name in str(raised.value)
    assert not index.has(str(bad))
    bad.write_bytes(content)
    left = {path: rows for path, rows in files.items() if not index.has(path)}
    reader.add(index, MissingKeys("db.t", left, Lookup(("code",)), SCHEMA))
    assert all(map(index.has, files))


class KilledTaskEngine(HereEngine):
    """Tasks of this machine, and files in their temporary directories that stay because the tasks are killed."""

    def run(self, tasks: Sequence[Task], what: str, progress: Progress) -> list[str]:
        for task in tasks:
            assert isinstance(task, KeyTask)
            Path(tempfile.mkdtemp(prefix="binlake-keys-", dir=task.folder), "run").touch()
        return super().run(tasks, what, progress)


def test_nothing_stays_of_killed_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had up to 384 MB in the directory for temporary files, which a server that keeps running does not empty."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    files, _ = written(tmp_path, (100,))
    task_files = TaskFiles(tmp_path / "state")
    reader = TaskKeyReader(KilledTaskEngine(), task_files, lambda _note: None, 1)
    index = RowIndex(tmp_path / "index")
    reader.add(index, MissingKeys("db.t", files, Lookup(("id",)), SCHEMA))
    task_files.begin()
    assert not list(tmp_path.rglob("binlake-keys-*"))
    # on other machines, tasks remove what is a day old
    old, new = temporary / "binlake-keys-old", temporary / "binlake-keys-new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "run").touch()
    os.utime(old, (time.time() - 2 * 86_400,) * 2)
    KeyTask(list(files), Lookup(("id",)), SCHEMA, str(tmp_path)).run()
    assert [*temporary.iterdir()] == [new]


def test_a_reader_that_is_stopped_after_a_job(tmp_path: Path) -> None:
    """The caller renews its lease there, or ends the run; the keys are saved."""
    files, _ = written(tmp_path, (10,) * 9)
    missing = MissingKeys("db.t", dict.fromkeys(files, 20_000_000), Lookup(("id",)), SCHEMA)
    saved: list[list[bool]] = []

    def after_job() -> None:
        index = RowIndex(tmp_path / "index")
        saved.append([index.has(path) for path in files])
        if len(saved) == 2:
            raise BinlogError("stopped")

    task_files = TaskFiles(tmp_path / "state")
    reader = TaskKeyReader(HereEngine(), task_files, lambda _note: None, 1, after_job)
    with pytest.raises(BinlogError, match="stopped"):
        reader.add(RowIndex(tmp_path / "index"), missing)
    assert saved == [[True] * 4 + [False] * 5, [True] * 8 + [False]]


def test_after_a_kill_only_the_other_files_are_missing(tmp_path: Path) -> None:
    """The index is saved after each job, and has no snapshot until it is complete."""
    files, _ = written(tmp_path, (10,) * 9)
    missing = MissingKeys("db.t", dict.fromkeys(files, 20_000_000), Lookup(("id",)), SCHEMA)

    class KilledEngine(CountingEngine):
        def run(self, tasks: Sequence[Task], what: str, progress: Progress) -> list[str]:
            if len(self.jobs) == 2:
                raise KeyboardInterrupt
            return super().run(tasks, what, progress)

    with pytest.raises(KeyboardInterrupt):
        reader_of(KilledEngine(), tmp_path).add(RowIndex(tmp_path / "index"), missing)
    index = RowIndex(tmp_path / "index")
    assert [index.has(path) for path in files] == [True] * 8 + [False]
    assert index.snapshot is None
