"""The net changes of large ranges, made by tasks: each writes the rows of one share of a table's keys into data files.

The driver gets the keys, finds the rows that they replace, and commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import pyarrow as pa

from binlake.lake.engine import Engine, Task
from binlake.mirror.apply.key_files import read_keys, write_keys
from binlake.mirror.apply.net import OF_ONE_TABLE, Net, net_by_key
from binlake.mirror.apply.range_changes import ChangeFile, RangeChanges
from binlake.mirror.apply.shares import KeyShare
from binlake.mirror.apply.task_files import TaskFiles
from binlake.mirror.iceberg.parts import FileRows, parts_of, write_parts
from binlake.mirror.tables.change import Change, WrittenRows
from binlake.mirror.tables.damage import OF_ROWS
from binlake.mirror.tables.data_files import DataFileWriter, remove_file
from binlake.mirror.tables.keys import Keys, SortedKeys, keys_of_rows, sorted_keys
from binlake.mirror.tables.partitions import Partitioning
from binlake.mirror.tables.schema import conformed

# to find the places of a key takes four times as much as the key and its position
_KEY_BYTES = 96


@dataclass(frozen=True, slots=True)
class NetTarget:
    """A lake table to which tasks write: its name, key and schema, and where its data files are."""

    table: str
    key: tuple[str, ...]
    schema: pa.Schema
    partitioning: Partitioning
    prefix: str


@dataclass(frozen=True, slots=True)
class WrittenShare:
    """The data files of one share of keys, as Iceberg's JSON, and a file with the keys of their rows and of deleted rows."""

    files: Sequence[Mapping[str, Any]]
    keys: str
    count: int

    def change(self) -> Change:
        """The change to commit."""
        deleted, *of_files = read_keys(self.keys)
        pairs = zip(self.files, of_files, strict=True)
        rows = tuple(WrittenRows(file, keys) for file, keys in pairs)
        return Change(written=rows, delete_keys=deleted.keys)


def written_changes(shares: Sequence[WrittenShare], most_bytes: int) -> Iterator[Change]:
    """The changes of a range, in one commit, or in several if the keys need more than `most_bytes`."""
    held: list[WrittenShare] = []
    for share in shares:
        if held and sum(one.count for one in (*held, share)) * _KEY_BYTES > most_bytes:
            yield _together(held)
            held = []
        held.append(share)
    yield _together(held)


def _together(shares: Sequence[WrittenShare]) -> Change:
    changes = [share.change() for share in shares]
    deleted = Keys.joined([one.delete_keys for one in changes if one.delete_keys is not None])
    written = tuple(rows for one in changes for rows in one.written)
    return Change(written=written, delete_keys=deleted)


def write_net_changes(
    tables: Sequence[tuple[NetTarget, RangeChanges]], engine: Engine, task_files: TaskFiles
) -> list[list[WrittenShare] | None]:
    """Have tasks write the net changes of tables. All their files are cut into shares of their keys.

    Returns the shares of each table; None if its changes cannot be applied, and then none of its files. Raises the
    BinlogError of a task.
    """
    directory = task_files.for_tasks()
    tasks = [
        _NetTask(target, part, changes.files, directory)
        for target, changes in tables
        for part in range(changes.parts)
    ]
    answers = iter(
        [json.loads(text) for text in engine.run(tasks, "write", lambda _done, _all: None)]
    )
    found: list[list[WrittenShare] | None] = []
    for _, changes in tables:
        of_table = [next(answers) for _ in range(changes.parts)]
        shares = [WrittenShare(**answer) for answer in of_table if answer is not None]
        if len(shares) == len(of_table):
            found.append(shares)
            continue
        for path in (file["file-path"] for share in shares for file in share.files):
            remove_file(path)
        found.append(None)
    return found


@dataclass
class _NetTask(Task):
    """Makes the net change of one share of a table's keys. The answer is null if the changes cannot be applied."""

    target: NetTarget
    part: int
    files: Sequence[ChangeFile]
    directory: str

    def run(self) -> str:
        target = self.target
        try:
            net = self._net()
            rows = conformed(net.upserts, target.schema)
            assert net.delete_keys is not None
            parts = parts_of(target.partitioning, rows, net.upsert_keys, files=1)
            # the keys first: if they raise an error, there are no files yet
            found = [sorted_keys(net.delete_keys), *map(self._keys, parts)]
            files = write_parts(parts, DataFileWriter(target.schema, target.prefix), threads=1)
        except (*OF_ONE_TABLE, *OF_ROWS):  # the driver meets the same error, and knows what to do
            return json.dumps(None)
        path = write_keys(found, self.directory)
        return json.dumps(
            {"files": files, "keys": path, "count": sum(len(one.keys) for one in found)}
        )

    def _keys(self, part: FileRows) -> SortedKeys:
        """The keys of the rows of a data file."""
        keys = part.keys
        if keys is None:
            keys = keys_of_rows(part.rows, self.target.schema, self.target.key)
        return sorted_keys(keys)

    def _net(self) -> Net:
        """The net change of the share, whose changes have all columns."""
        parts = self.files[0].parts
        batches = [batch for file in self.files for batch in file.share(self.part)]
        changes = pa.Table.from_batches(batches)
        net = net_by_key(self.target.table, changes, self.target.key, _no_rows)
        return KeyShare(self.target.key, self.part, parts).net(net)


def _no_rows(keys: pa.Table, _names: Sequence[str] | None) -> tuple[npt.NDArray[Any], pa.Table]:
    raise AssertionError(f"{keys.num_rows} changes lack columns")
