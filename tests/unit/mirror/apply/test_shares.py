"""The net changes of shares of the keys, made one by one or by tasks, are together those of all keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import UnsupportedError
from binlake.mirror.apply import net_tasks
from binlake.mirror.apply.lake_types import LakeTypes
from binlake.mirror.apply.net import net_by_key
from binlake.mirror.apply.net_tasks import NetTarget, write_net_changes, written_changes
from binlake.mirror.apply.range_changes import ChangeFileWriter, RangeChanges, Shares
from binlake.mirror.apply.shares import KeyShare, cut, joined
from binlake.mirror.apply.task_files import TaskFiles
from binlake.mirror.tables.keys import keys_of
from binlake.mirror.tables.partitions import NOT_PARTITIONED, Partitioning
from binlake.mirror.tables.schema import iceberg_schema, storage_schema
from support.spark.engines import HereEngine
from unit.mirror.apply.test_net import COLUMNS, changes_of, histories, lake_of

KINDS = {"id": pa.int32(), "a": pa.string(), "b": pa.int32()}
SCHEMA = storage_schema(iceberg_schema(pa.schema(list(KINDS.items()))))


@pytest.fixture
def task_files(tmp_path: Path) -> Iterator[TaskFiles]:
    files = TaskFiles(tmp_path / "state")
    yield files
    files.clear()


def whole(steps: list[dict[str, Any]], key: tuple[str, ...]) -> pa.Table:
    """Changes whose images have all columns."""
    return changes_of([{**step, "absent": []} for step in steps], key)


@given(histories(), st.integers(1, 5))
def test_shares_of_the_keys_are_together_the_net_change(history: Any, parts: int) -> None:
    start, steps, end = history
    changes = whole(steps, ("id",))
    rows = dict(start)
    for part in range(parts):
        share = KeyShare(("id",), part, parts)
        net = share.net(net_by_key("t", share.changes(changes), ("id",), lake_of(start)))
        for gone in net.deletes.to_pylist():
            rows.pop(gone["id"], None)
        for row in net.upserts.to_pylist():
            rows[row["id"]] = tuple(row[name] for name in COLUMNS)
    assert rows == end


@given(histories(), st.integers(1, 5))
def test_changes_that_were_cut_are_joined_in_their_order(history: Any, parts: int) -> None:
    changes = whole(history[1], ("id",))
    assert joined(cut(changes, ("id",), parts)).equals(changes)


def test_keys_that_increase_in_steps_are_spread_evenly() -> None:
    changes = whole([{"op": 0, "row": (2 * i, "x", 1), "old": None} for i in range(9000)], ("id",))
    sizes = [batch.num_rows for batch in cut(changes, ("id",), 3)]
    assert sum(sizes) == 9000
    assert min(sizes) > 2500


def in_files(changes: pa.Table, shares: Shares, task_files: TaskFiles) -> RangeChanges:
    """Changes in files of tasks, cut into shares, in several batches."""
    writer = ChangeFileWriter(task_files.for_tasks(), shares)
    cuts = [0, *(cut for cut in (100, 101, 600) if cut < changes.num_rows), changes.num_rows]
    for first, last in pairwise(cuts):
        writer.add(changes.slice(first, last - first).combine_chunks().to_batches()[0])
    writer.close()
    found = RangeChanges()
    for file in writer.files:
        found.add_file(file)
    return found


@pytest.mark.parametrize("key", [("id",), ("a", "id")])
@pytest.mark.parametrize("most_bytes", [1 << 30, 1])
def test_tasks_write_the_net_change(
    tmp_path: Path, task_files: TaskFiles, key: tuple[str, ...], most_bytes: int
) -> None:
    steps: list[dict[str, Any]] = [
        {"op": 0, "row": (i, str(i % 7), 0), "old": None} for i in range(500)
    ]
    for i in range(0, 400, 3):  # to a key that was deleted before, or is new
        steps.append({"op": 2, "row": (i + 1, str((i + 1) % 7), 0), "old": None})
        steps.append({"op": 1, "row": (i + 1, "moved", 1), "old": (i, str(i % 7), 0)})
    changes = whole(steps, key)
    target = NetTarget("db.t", key, SCHEMA, NOT_PARTITIONED, f"{tmp_path}/binlake-")
    rows = LakeTypes("db.t", SCHEMA, COLUMNS, key, (), "")
    found = in_files(changes, Shares(rows, key, 4), task_files)
    assert (found.parts, found.rows, found.is_whole) == (4, changes.num_rows, True)
    assert pa.concat_tables(found.tables(rows)).equals(changes)
    [shares] = write_net_changes([(target, found)], HereEngine(), task_files)
    assert shares is not None
    made = list(written_changes(shares, most_bytes))
    assert len(made) == (1 if most_bytes > 1 else 4)
    expected = net_by_key("db.t", changes, key, lake_of({}))
    written = []
    for change in made:
        for one in change.written:
            stored = pq.read_table(one.file["file-path"])
            assert one.file["record-count"] == stored.num_rows
            keys = keys_of([stored[name] for name in key], list(key)).take(one.keys.positions)
            assert np.array_equal(keys.high, one.keys.keys.high)
            written += stored.to_pylist()
    wanted = expected.upserts.to_pylist()
    assert sorted(map(json.dumps, written)) == sorted(map(json.dumps, wanted))
    deleted = [high for c in made if c.delete_keys is not None for high in c.delete_keys.high]
    assert expected.delete_keys is not None
    assert sorted(deleted) == sorted(expected.delete_keys.high)
    assert sum(change.rows for change in made) == expected.rows


def test_a_row_that_a_lake_table_cannot_represent_is_of_that_table_only(
    tmp_path: Path, task_files: TaskFiles
) -> None:
    """The lake table has got another type since the rows were cut. Other shares of the table have been written."""
    steps = [{"op": 0, "row": (i, "x" if i == 7 else str(i), 0), "old": None} for i in range(500)]
    shares = Shares(LakeTypes("db.t", SCHEMA, COLUMNS, ("id",), (), ""), ("id",), 4)
    found = in_files(whole(steps, ("id",)), shares, task_files)
    numbers = storage_schema(iceberg_schema(pa.schema({**KINDS, "a": pa.int32()})))
    targets = [
        (NetTarget(f"db.{name}", ("id",), schema, NOT_PARTITIONED, f"{tmp_path}/{name}-"), found)
        for name, schema in (("wrong", numbers), ("right", SCHEMA))
    ]
    wrong, right = write_net_changes(targets, HereEngine(), task_files)
    assert wrong is None
    assert right is not None
    paths = sorted(file["file-path"] for share in right for file in share.files)
    assert len(paths) == 4
    assert sorted(map(str, tmp_path.glob("*.parquet"))) == paths


@pytest.mark.parametrize("of", ["parts_of", "keys_of_rows", "write_parts"])
@pytest.mark.parametrize("kind", [UnsupportedError, pa.ArrowInvalid, pa.ArrowCapacityError])
def test_an_error_of_rows_that_are_written_is_of_that_table_only(
    tmp_path: Path,
    task_files: TaskFiles,
    monkeypatch: pytest.MonkeyPatch,
    of: str,
    kind: type[Exception],
) -> None:
    """The error of a task would end the mirror; the driver quarantines the table for the same error."""

    def fail(*_args: Any, **_options: Any) -> Any:
        raise kind("a value without a partition")

    steps = [{"op": 0, "row": (i, "x", i % 3), "old": None} for i in range(50)]
    shares = Shares(LakeTypes("db.t", SCHEMA, COLUMNS, ("id",), (), ""), ("id",), 2)
    found = in_files(whole(steps, ("id",)), shares, task_files)
    by_b = Partitioning(1, ((3, "identity", 0),))
    target = NetTarget("db.t", ("id",), SCHEMA, by_b, f"{tmp_path}/t-")
    monkeypatch.setattr(net_tasks, of, fail)
    assert write_net_changes([(target, found)], HereEngine(), task_files) == [None]
    assert list(tmp_path.glob("*.parquet")) == []


def test_changes_that_do_not_fit_the_lake_table_are_not_cut(task_files: TaskFiles) -> None:
    steps = [{"op": 0, "row": (i, "x", 0), "old": None} for i in range(5)]
    [batch] = whole(steps, ("id",)).to_batches()
    narrow = storage_schema(iceberg_schema(pa.schema([("id", pa.int32()), ("a", pa.string())])))
    rows = LakeTypes("db.t", narrow, ("id", "a"), ("id",), (), "")
    writer = ChangeFileWriter(task_files.for_tasks(), Shares(rows, ("id",), 4))
    writer.add(batch)
    writer.close()
    assert [(file.parts, file.rows) for file in writer.files] == [(0, 5)]
    null = pa.RecordBatch.from_arrays(
        [
            pa.array([None] * 5, batch.schema.field(name).type) if name == "id" else batch[name]
            for name in batch.schema.names
        ],
        names=batch.schema.names,
    )
    of_all = LakeTypes("db.t", SCHEMA, COLUMNS, ("id",), (), "")
    writer = ChangeFileWriter(task_files.for_tasks(), Shares(of_all, ("id",), 4))
    for one in (batch, null, batch):
        writer.add(one)
    writer.close()
    assert [(file.parts, file.rows) for file in writer.files] == [(4, 5), (0, 5), (4, 5)]
