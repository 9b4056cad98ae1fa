"""The files of a table's current snapshot: data files, their deleted rows, and delete files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pyroaring import BitMap

from binlake.mirror.iceberg.live_rows import deleted_rows
from binlake.mirror.tables.compaction_policy import FileState
from binlake.mirror.tables.data_files import without_metrics
from binlake.mirror.tables.partitions import Partition

#: Files as Iceberg's JSON, by path.
Entries = Mapping[str, Mapping[str, Any]]


class TableFiles:
    """The files of a snapshot, all by the path of the data file they are about; commits are added as they are made.

    `rows` has the number of rows of each data file, deleted ones among them, `entries` its JSON, `deleted` its deleted
    positions, `vectors` the JSON of its deletion vector. `delete_lists` are files of position deletes, by their own path.
    """

    def __init__(self, files: Mapping[str, Any]) -> None:
        """`files`: as `IcebergTable.files` lists them."""
        data, deletes = files["data"], files["deletes"]
        self.rows: dict[str, int] = {one["path"]: one["rows"] for one in data}
        self.entries: dict[str, Mapping[str, Any]] = {one["path"]: one["file"] for one in data}
        self.deleted = deleted_rows(files)
        self.delete_lists: dict[str, Mapping[str, Any]] = {
            file["file-path"]: file for file in deletes.values() if not _is_puffin(file)
        }
        self.vectors: dict[str, Mapping[str, Any]] = {
            one["path"]: deletes[name]
            for one in data
            for name in one["deletes"]
            if _is_puffin(deletes[name])
        }

    @classmethod
    def none(cls) -> TableFiles:
        """The files of an empty table."""
        return cls({"data": [], "deletes": {}})

    def add(self, request: Mapping[str, Any], marks: Mapping[str, BitMap]) -> None:
        """Add the files of a commit. `marks`: all deleted positions of the data files in which it deletes."""
        for file in request.get("add", ()):
            self.rows[file["file-path"]] = file["record-count"]
            self.entries[file["file-path"]] = without_metrics(file)
        self.deleted.update(marks)
        for file in request.get("deletes", ()):
            if _is_puffin(file):
                self.vectors[file["referenced-data-file"]] = file
            else:
                self.delete_lists[file["file-path"]] = without_metrics(file)

    def remove(self, paths: Iterable[str], delete_files: Iterable[Mapping[str, Any]]) -> None:
        """Forget data files, and files of deletes."""
        for path in paths:
            for known in (self.rows, self.entries, self.deleted, self.vectors):
                known.pop(path, None)
        for file in delete_files:
            self.delete_lists.pop(file["file-path"], None)

    def states(self) -> list[FileState]:
        """The data files, and how much of them is deleted."""
        return [
            FileState(
                path,
                rows,
                len(self.deleted.get(path, ())),
                self.entries[path]["file-size-in-bytes"],
                Partition.of(self.entries[path]),
            )
            for path, rows in self.rows.items()
        ]

    def most_delete_lists(self) -> int:
        """How many files of position deletes one partition has, at most."""
        return max(Counter(map(Partition.of, self.delete_lists.values())).values(), default=0)

    def partitions(self, paths: Iterable[str], new: Entries) -> dict[str, Partition]:
        """The partition of each data file. `new`: those that are not known yet."""
        return {path: Partition.of(new.get(path) or self.entries[path]) for path in paths}


def _is_puffin(file: Mapping[str, Any]) -> bool:
    return bool(file["file-format"].lower() == "puffin")
