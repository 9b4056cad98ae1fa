"""The row index is tied to the table's snapshot: one that was not completed is, before the next commit."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")
pytest.importorskip("pyspark", reason="needs the extra [mirror]")

import pyarrow as pa

from binlake.errors import SourceError
from binlake.mirror.iceberg.row_index import RowIndex
from binlake.mirror.iceberg.table import MirrorTable
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import Change, CommitConflictError
from binlake.mirror.tables.damage import MissingFileError
from binlake.mirror.tables.data_files import DataFileWriter
from binlake.mirror.tables.schema import iceberg_schema
from binlake.mirror.upkeep import Upkeep

SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.int32())])


class OneTable:
    """The parts of Iceberg that a table needs: its files, and their commits."""

    full_name = "db.t"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data: dict[str, Mapping[str, Any]] = {}
        self.vectors: dict[str, Mapping[str, Any]] = {}
        self.snapshot = 0

    def refresh(self) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        known: dict[str, Any] = {
            "schema": iceberg_schema(SCHEMA),
            "spec": {"spec-id": 0, "fields": []},
            "properties": {},
            "format_version": 3,
        }
        return {**known, "snapshot": self.snapshot} if self.snapshot else known

    def data_path(self, name: str) -> str:
        return str(self.folder / name)

    def commit(self, request: Mapping[str, Any]) -> int:
        if request["from"] != (self.snapshot or -1):
            raise CommitConflictError("db.t: another writer has committed to the table")
        if "truncate" in request:
            self.data.clear()
            self.vectors.clear()
        self.data.update({file["file-path"]: file for file in request.get("add", ())})
        for vector in request.get("deletes", ()):
            self.vectors[vector["referenced-data-file"]] = vector
        self.snapshot += 1
        return self.snapshot

    def rewrite(self, request: Mapping[str, Any]) -> int:
        for file in request["removed"]:
            del self.data[file["file-path"]]
            self.vectors.pop(file["file-path"], None)
        return self.commit(request)

    def files(self) -> dict[str, Any]:
        return {
            "data": [
                {
                    "path": path,
                    "rows": file["record-count"],
                    "bytes": file["file-size-in-bytes"],
                    "file": file,
                    "deletes": [path] if path in self.vectors else [],
                }
                for path, file in self.data.items()
            ],
            "deletes": self.vectors,
        }


def rows(*values: tuple[int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "v": v} for i, v in values], SCHEMA)


def content(table: MirrorTable) -> list[tuple[int, int]]:
    return sorted((row["id"], row["v"]) for part in table.scan() for row in part.to_pylist())


def test_a_commit_with_an_incomplete_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    iceberg: Any = OneTable(tmp_path)
    table = MirrorTable(iceberg, ("id",), tmp_path / "index")
    table.commit(Change(rows((1, 1), (2, 1))), {})

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(RowIndex, "add_together", full)
    with pytest.raises(OSError, match="No space"):
        table.commit(Change(rows((2, 2), (3, 2))), {})
    monkeypatch.undo()
    table.commit(Change(rows((3, 3)), pa.table({"id": pa.array([1], pa.int32())})), {})
    assert content(table) == [(2, 2), (3, 3)]


def test_a_commit_with_an_incomplete_index_beside_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other program's commit is refused as always."""
    iceberg: Any = OneTable(tmp_path)
    table = MirrorTable(iceberg, ("id",), tmp_path / "index")
    monkeypatch.setattr(RowIndex, "add_together", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        table.commit(Change(rows((1, 1))), {})
    monkeypatch.undo()
    MirrorTable(iceberg, ("id",), tmp_path / "other").commit(Change(rows((2, 2))), {})
    with pytest.raises(CommitConflictError):
        table.commit(Change(rows((1, 3))), {})


def _replaced(table: MirrorTable) -> None:
    files = DataFileWriter(table.schema, table.data_prefix()).write([rows((1, 5))])
    table.replace(list(files), {}, {})


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda table: table.commit(Change(truncate=True), {}), [(3, 3)]),
        (lambda table: table.commit(Change(table_properties={"a": "b"}), {}), [(1, 1), (2, 1), (3, 3)]),
        (_replaced, [(1, 5), (3, 3)]),
    ],
)  # fmt: skip
def test_another_program_commits_right_after_an_own_commit(
    tmp_path: Path, act: Callable[[MirrorTable], None], expected: list[tuple[int, int]]
) -> None:
    """Its snapshot is not taken for an own one after a change of the structure either."""
    iceberg: Any = OneTable(tmp_path)
    table = MirrorTable(iceberg, ("id",), tmp_path / "index")
    table.commit(Change(rows((1, 1), (2, 1))), {})
    commit = iceberg.commit

    def with_another(request: Mapping[str, Any]) -> int:
        made: int = commit(request)
        iceberg.snapshot += 1
        return made

    iceberg.commit = with_another
    act(table)
    iceberg.commit = commit
    assert table.has_other_commits()
    with pytest.raises(CommitConflictError):
        table.commit(Change(rows((3, 3))), {})
    table.reload()
    table.commit(Change(rows((3, 3))), {})
    assert content(table) == expected
    assert RowIndex(tmp_path / "index").snapshot == table.snapshot


def test_an_index_of_an_earlier_snapshot(tmp_path: Path) -> None:
    iceberg: Any = OneTable(tmp_path)
    old = MirrorTable(iceberg, ("id",), tmp_path / "old")
    old.commit(Change(rows((1, 1), (2, 1))), {})
    current = MirrorTable(iceberg, ("id",), tmp_path / "current")
    current.commit(Change(rows((2, 2), (3, 2))), {})
    assert RowIndex(tmp_path / "old").snapshot == 1
    restored = MirrorTable(iceberg, ("id",), tmp_path / "old")
    restored.commit(Change(rows((3, 3)), pa.table({"id": pa.array([2], pa.int32())})), {})
    assert content(restored) == [(1, 1), (3, 3)]
    assert RowIndex(tmp_path / "old").snapshot == 3


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_commit_that_does_not_reach_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_restarted: bool
) -> None:
    """Its data file is written and never belongs to the table, nor to the index."""
    iceberg: Any = OneTable(tmp_path)
    table = MirrorTable(iceberg, ("id",), tmp_path / "index")
    table.commit(Change(rows((1, 1), (2, 1))), {})
    change = Change(rows((2, 2), (3, 2)), pa.table({"id": pa.array([1], pa.int32())}))
    lost: list[str] = []

    def unreachable(request: Mapping[str, Any]) -> int:
        lost.extend(file["file-path"] for file in request["add"])
        raise SourceError("the catalog does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(iceberg, "commit", unreachable)
        with pytest.raises(SourceError, match="does not answer"):
            table.commit(change, {})
    assert content(table) == [(1, 1), (2, 1)]
    if is_restarted:
        table = MirrorTable(iceberg, ("id",), tmp_path / "index")
    table.commit(change, {})
    assert content(table) == [(2, 2), (3, 2)]
    table.commit(Change(rows((3, 3))), {})
    assert content(table) == [(2, 2), (3, 3)]
    index = RowIndex(tmp_path / "index")
    assert [Path(path).exists() for path in lost] == [True]
    assert not any(index.has(path) for path in lost)
    assert all(index.has(path) for path in iceberg.data)


def test_index_entries_of_a_commit_that_the_table_does_not_have(tmp_path: Path) -> None:
    iceberg: Any = OneTable(tmp_path)
    table = MirrorTable(iceberg, ("id",), tmp_path / "index")
    table.commit(Change(rows((1, 1), (2, 1))), {})
    before = dict(iceberg.data), dict(iceberg.vectors), iceberg.snapshot
    table.commit(Change(rows((2, 2), (3, 2))), {})
    [lost] = iceberg.data.keys() - before[0].keys()
    iceberg.data, iceberg.vectors, iceberg.snapshot = before
    table = MirrorTable(iceberg, ("id",), tmp_path / "index")
    assert content(table) == [(1, 1), (2, 1)]
    table.commit(Change(rows((2, 3), (3, 3))), {})
    assert content(table) == [(1, 1), (2, 3), (3, 3)]
    assert not RowIndex(tmp_path / "index").has(lost)


def followed_table(table: MirrorTable) -> Any:
    return SimpleNamespace(
        full_name="db.t",
        lake=table,
        shards={},
        set_back="",
        lake_offset=None,
        offset=None,
        position_properties=lambda *_of: {},
    )


def test_a_compaction_of_rows_that_go_meanwhile_leaves_no_file(tmp_path: Path) -> None:
    """A TRUNCATE removes the old files while the new ones are written."""
    iceberg: Any = OneTable(tmp_path)
    table = MirrorTable(iceberg, ("id",), tmp_path / "index")
    for number in range(3):
        table.commit(Change(rows((number, 1))), {})
    old = set(tmp_path.glob("*.parquet"))

    def run(tasks: Any, *_of: Any) -> list[str]:
        answers = [task.run() for task in tasks]
        assert set(tmp_path.glob("*.parquet")) > old
        table.commit(Change(truncate=True), {})
        return answers

    notes: list[str] = []
    upkeep = Upkeep(SimpleNamespace(run=run), SimpleNamespace(round=1), MirrorOptions(), Path(), notes.append)  # type: ignore[arg-type]  # fmt: skip
    followed = followed_table(table)
    upkeep.want(followed)
    upkeep.finish({"db.t": followed}, lambda: None)
    assert set(tmp_path.glob("*.parquet")) == old
    assert notes == [
        "db.t: nothing was compacted: its data files were replaced or emptied meanwhile"
    ]
    table.commit(Change(rows((7, 7))), {})
    assert content(table) == [(7, 7)]


def test_a_compaction_whose_index_cannot_be_merged(tmp_path: Path) -> None:
    """The disk is full at this moment only. The index has all rows nevertheless, now and after a restart."""
    iceberg: Any = OneTable(tmp_path)
    table = MirrorTable(iceberg, ("id",), tmp_path / "index")
    for number in range(7):
        table.commit(
            Change(rows(*((i, 1) for i in range(1000 * number, 1000 * number + 1000)))), {}
        )
    notes: list[str] = []
    engine: Any = SimpleNamespace(run=lambda tasks, *_of: [task.run() for task in tasks])
    upkeep = Upkeep(engine, SimpleNamespace(round=1), MirrorOptions(), Path(), notes.append)  # type: ignore[arg-type]
    followed = followed_table(table)
    upkeep.want(followed)
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # of 14,000 keys in one run
    upkeep.finish({"db.t": followed}, lambda: None)
    resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
    assert notes == [f"db.t was not compacted: cannot write {tmp_path}/index: File too large"]
    assert len(iceberg.data) == 1
    table.commit(Change(rows((3, 2), (4000, 2)), pa.table({"id": pa.array([5], pa.int32())})), {})
    expected = {i: 1 for i in range(7000) if i != 5} | {3: 2, 4000: 2}
    assert content(table) == sorted(expected.items())
    again = MirrorTable(iceberg, ("id",), tmp_path / "index")
    again.commit(Change(rows((6, 2), (4000, 3))), {})
    assert content(again) == sorted((expected | {6: 2, 4000: 3}).items())


def test_a_table_that_cannot_be_loaded_again_is_not_committed_to(tmp_path: Path) -> None:
    """With the new snapshot and the files of before, deletes would go to data files that the table no longer has."""
    iceberg: Any = OneTable(tmp_path)
    table = MirrorTable(iceberg, ("id",), tmp_path / "index")
    table.commit(Change(rows((1, 1), (2, 1))), {})
    other = MirrorTable(iceberg, ("id",), tmp_path / "other")
    other.commit(Change(rows((1, 2))), {})
    [vector] = iceberg.vectors.values()
    Path(vector["file-path"]).unlink()
    with pytest.raises(MissingFileError):
        table.reload()
    assert table.snapshot == 1
    with pytest.raises(CommitConflictError):
        table.commit(Change(rows((2, 3))), {})
