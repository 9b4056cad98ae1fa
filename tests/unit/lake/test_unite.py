"""Files of tasks become data sets: one schema per table, few files, misfits apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlake.lake.data_file import DataFile, TableKey, files_from_json, files_to_json
from binlake.lake.engine import UnwantedError
from binlake.lake.export_directory import Directory
from binlake.lake.parquet import ParquetFiles
from binlake.lake.unite import MergeTask, merged_files, unite

ORDERS = TableKey("shop", "orders")
BIG = 1 << 30


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(str(tmp_path))


def written(directory: Directory, number: int, *batches: pa.RecordBatch) -> list[DataFile]:
    files = ParquetFiles(directory.fs, directory.root, f"{number:05d}", BIG)
    for batch in batches:
        files.write(ORDERS, batch)
    return files.close()


def numbers(*values: int, kind: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, kind or pa.int32())})


def run(
    directory: Directory, files: list[DataFile], target: int
) -> dict[TableKey, list[dict[str, object]]]:
    """Unite, merge, and read everything back, in order of file names."""
    rows: dict[TableKey, list[dict[str, object]]] = {}
    for table in unite(files, target):
        groups = range(len(table.merges))
        tasks = [MergeTask(directory, directory.root, table, g, target) for g in groups]
        made = merged_files(task.run() for task in tasks)
        for file in sorted((*table.kept, *made), key=lambda file: file.name):
            back = pq.read_table(f"{directory.root}/{file.name}")
            assert back.num_rows == file.rows
            rows.setdefault(file.key, []).extend(back.to_pylist())
    return rows


def test_small_files_become_one_in_order(directory: Directory) -> None:
    files = [f for i in range(5) for f in written(directory, i, numbers(i))]
    [table] = unite(files, BIG)
    assert (len(table.kept), [len(group) for group in table.merges]) == (0, [5])
    assert run(directory, files, BIG) == {ORDERS: [{"n": i} for i in range(5)]}


def test_files_of_a_good_size_stay(directory: Directory) -> None:
    files = [f for i in range(3) for f in written(directory, i, numbers(i))]
    [table] = unite(files, files[0].bytes * 8)
    assert (list(table.kept), table.merges) == (files, ())


def of_sizes(directory: Directory, *sizes: int) -> list[DataFile]:
    """Descriptions of files of these sizes, with one schema."""
    [file] = written(directory, 0, numbers(1))
    return [replace(file, name=f"{i:05d}.parquet", bytes=n) for i, n in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([7 << 20] * 2, []),
        ([4 << 20] * 8, []),
        ([4 << 20] * 9, [9]),  # many files
        ([7 << 20, (4 << 20) - 1], [2]),  # a small one
        ([15 << 20] * 20, [8, 8, 4]),  # many, in groups of the target size
    ],
)
def test_a_few_files_that_are_not_small_are_not_rewritten(
    directory: Directory, sizes: list[int], merged: list[int]
) -> None:
    files = of_sizes(directory, *sizes)
    [table] = unite(files, 128 << 20)
    assert [len(group) for group in table.merges] == merged
    assert len(table.kept) == (0 if merged else len(sizes))


def test_a_few_files_of_an_older_definition_are_rewritten(directory: Directory) -> None:
    old, new = of_sizes(directory, 7 << 20, 7 << 20)
    [other] = written(directory, 1, numbers(1, kind=pa.int64()))
    [table] = unite([old, replace(new, packed=other.packed)], 128 << 20)
    assert (len(table.kept), [len(group) for group in table.merges]) == (0, [2])


def test_a_single_small_file_stays(directory: Directory) -> None:
    files = written(directory, 0, numbers(1))
    [table] = unite(files, BIG)
    assert list(table.kept) == files


def test_groups_do_not_outgrow_the_target(directory: Directory) -> None:
    files = [f for i in range(22) for f in written(directory, i, numbers(i))]
    target = files[0].bytes * 10
    [table] = unite(files, target)
    assert [len(group) for group in table.merges] == [10, 10, 2]
    assert run(directory, files, target)[ORDERS] == [{"n": i} for i in range(22)]


def test_tables_are_apart(directory: Directory) -> None:
    files = ParquetFiles(directory.fs, directory.root, "00000", BIG)
    for key in (TableKey("b", "t"), TableKey("a", "t"), TableKey("a", "s")):
        files.write(key, numbers(1))
    assert [t.key for t in unite(files.close(), BIG)] == [
        TableKey("a", "s"), TableKey("a", "t"), TableKey("b", "t"),
    ]  # fmt: skip


def test_older_definitions_are_converted(directory: Directory) -> None:
    old = pa.record_batch({"n": pa.array([1], pa.int16()), "gone": ["x"]})
    new = pa.record_batch({"n": pa.array([2**40], pa.int64()), "added": [1.5]})
    files = [*written(directory, 0, old), *written(directory, 1, new)]
    assert run(directory, files, BIG) == {
        ORDERS: [{"n": 1, "added": None, "gone": "x"}, {"n": 2**40, "added": 1.5, "gone": None}]
    }


def test_a_merge_that_is_not_wanted_ends(directory: Directory) -> None:
    files = [f for i in range(2) for f in written(directory, i, numbers(i))]
    [table] = unite(files, BIG)
    task = MergeTask(directory, directory.root, table, 0, BIG)
    task.give_up()
    with pytest.raises(UnwantedError):
        task.run()


def test_values_that_do_not_fit_are_set_aside_whole(directory: Directory) -> None:
    old = pa.record_batch({"id": [1, 2], "state": ["7", "paid"]})
    new = pa.record_batch({"id": [3], "state": pa.array([8], pa.int64())})
    files = [*written(directory, 0, old), *written(directory, 1, new)]
    assert run(directory, files, BIG) == {
        ORDERS: [{"id": 1, "state": 7}, {"id": 3, "state": 8}],
        TableKey("shop", "orders", 1): [{"id": 2, "state": "paid"}],
    }
    [table] = unite(files, BIG)
    assert any(
        "shop.orders.state: changed from string to int64" in n for n in table.evolution.notes
    )


def test_data_files_round_trip_through_json(directory: Directory) -> None:
    [file] = written(directory, 0, numbers(1))
    assert files_from_json(json.loads(json.dumps(files_to_json([file])))) == [file]
