"""Which data files of a table are worth rewriting, and the tasks that do it.

A task writes the rows of some data files that are there into one new file. Rounds go on meanwhile: what
they delete in the old files is translated into positions of the new one when it is committed
(`Rewritten.moved`).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from binlake.lake.engine import Task
from binlake.mirror.iceberg.data_files import DataFileWriter
from binlake.mirror.iceberg.key_index import SortedKeys
from binlake.mirror.iceberg.live_rows import Lookup, live_batches
from binlake.mirror.iceberg.partitions import UNPARTITIONED, Partition

__all__ = [
    "CompactionPolicy",
    "FileState",
    "RewriteOrder",
    "RewriteTask",
    "Rewritten",
    "all_groups",
    "due_groups",
]

_SMALLEST = 4096  # fractions of a full file that are told apart
_GATHERED_ROWS = 1 << 17
_GATHERED_BYTES = 32 << 20
_MIN_FILES = 8
_NO_SMALL_WASTE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class FileState:
    """A data file: its rows, how many of them are deleted, its bytes, its partition."""

    path: str
    rows: int
    deleted: int
    bytes: int
    partition: Partition = UNPARTITIONED

    @property
    def live_rows(self) -> int:
        """The rows that are not deleted."""
        return self.rows - self.deleted

    @property
    def live_bytes(self) -> int:
        """The bytes of those rows, about."""
        return self.bytes * self.live_rows // max(1, self.rows)


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """When files are rewritten, and into what.

    `files` of about one size become one. Files with more than `deleted_share` of their rows deleted are
    rewritten. New files have up to `file_bytes` and `file_rows`; one job reads at most `job_bytes`, or
    what one new file needs.
    """

    files: int = 16
    deleted_share: float = 0.25
    file_bytes: int = 128 << 20
    file_rows: int = 4_000_000
    job_bytes: int = 256 << 20

    def fill(self, file: FileState) -> float:
        """How full a file of its rows would be, 1.0 is full."""
        return max(file.live_bytes / self.file_bytes, file.live_rows / self.file_rows)

    def is_full(self, file: FileState) -> bool:
        """Whether a file is large enough to stay by itself."""
        return self.fill(file) >= 0.5

    def size_class(self, file: FileState) -> int:
        """A number that files of about one size have in common."""
        return int(math.log(max(1.0, self.fill(file) * _SMALLEST), 4))


def due_groups(files: Sequence[FileState], policy: CompactionPolicy) -> list[list[FileState]]:
    """Groups of files each of which should become one; none if the table is fit to read."""
    classes: dict[tuple[Partition, int], list[FileState]] = defaultdict(list)
    for file in files:
        if not policy.is_full(file):
            classes[file.partition, policy.size_class(file)].append(file)
    due = {f.path: f for of in classes.values() if len(of) >= policy.files for f in of}
    wasteful = [f for f in files if f.deleted > policy.deleted_share * f.rows]
    wasted = sum(f.bytes for f in wasteful)
    many = len(files) >= _MIN_FILES and wasted >= policy.deleted_share * sum(f.bytes for f in files)
    if many or wasted >= _NO_SMALL_WASTE_BYTES:
        due.update({f.path: f for f in wasteful})
    return next(iter(_jobs(_grouped(due.values(), policy), policy)), [])


def all_groups(
    files: Sequence[FileState], policy: CompactionPolicy
) -> Iterator[list[list[FileState]]]:
    """For each of several jobs the groups that leave nothing deleted and no small files."""
    chosen = [file for file in files if file.deleted or not policy.is_full(file)]
    return _jobs(_grouped(chosen, policy), policy)


def _grouped(files: Iterable[FileState], policy: CompactionPolicy) -> Iterator[list[FileState]]:
    group: list[FileState] = []
    held = 0.0
    for file in sorted(files, key=lambda f: (f.partition, policy.fill(f), f.path)):
        fill = policy.fill(file)
        if group and (held + fill > 1 or group[-1].partition != file.partition):
            yield group
            group, held = [], 0.0
        group.append(file)
        held += fill
    if group:
        yield group


def _jobs(
    groups: Iterable[list[FileState]], policy: CompactionPolicy
) -> Iterator[list[list[FileState]]]:
    job: list[list[FileState]] = []
    size = 0
    for group in groups:
        if len(group) == 1 and not group[0].deleted:
            continue
        size += sum(file.bytes for file in group)
        if job and size > policy.job_bytes:
            yield job
            job, size = [], sum(file.bytes for file in group)
        job.append(group)
    if job:
        yield job


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A new data file with the rows of old ones.

    `deleted`: for each old file, in the order of its rows in the new one, the positions that were deleted
    when it was read. `rows`: how many rows each of them had. `file`: None if no row was there.
    """

    deleted: Mapping[str, BitMap]
    rows: Mapping[str, int]
    file: Mapping[str, Any] | None
    keys: SortedKeys | None = None

    @property
    def path(self) -> str:
        """The new file's path."""
        assert self.file is not None
        return str(self.file["file-path"])

    def moved(self, now: Mapping[str, BitMap]) -> BitMap:
        """Where in the new file the rows are that have been deleted in the old ones since."""
        found = BitMap()
        first = 0
        for path, before in self.deleted.items():
            since = now.get(path, BitMap()) - before
            if len(since):
                positions = np.array(since.to_array(), np.int64)
                left_out = np.searchsorted(np.array(before.to_array(), np.int64), positions)
                found.update((first + positions - left_out).astype(np.uint32).tolist())
            first += self.rows[path] - len(before)
        return found


class RewriteTask(Task):
    """Writes the rows of some data files of one partition that are not deleted into one file."""

    def __init__(
        self,
        old: Sequence[tuple[str, bytes]],
        schema: bytes,
        prefix: str,
        partition: Partition = UNPARTITIONED,
    ) -> None:
        self.partition = partition
        self.old = old
        self.schema = schema
        self.prefix = prefix

    def run(self) -> str:
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        writer = DataFileWriter(schema, self.prefix)
        return json.dumps(writer.write_one(_gathered(self._rows(schema)), self.partition))

    def _rows(self, schema: pa.Schema) -> Iterator[pa.Table]:
        for path, deleted in self.old:
            for rows, _ in live_batches(path, BitMap.deserialize(deleted), schema, schema.names):
                yield rows


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables that are worth a row group each."""
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        held.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= _GATHERED_ROWS or size >= _GATHERED_BYTES:
            yield pa.concat_tables(held).combine_chunks()
            held, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(held).combine_chunks()


@dataclass(frozen=True)
class RewriteOrder:
    """What it takes to write the rows of old data files into a new one, in any thread."""

    deleted: Mapping[str, BitMap]
    rows: Mapping[str, int]
    schema: pa.Schema
    lookup: Lookup | None
    prefix: str
    partition: Partition

    def task(self) -> RewriteTask:
        """The task that writes the file."""
        old = [(path, positions.serialize()) for path, positions in self.deleted.items()]
        return RewriteTask(old, self.schema.serialize().to_pybytes(), self.prefix, self.partition)

    def done(self, file: Mapping[str, Any] | None) -> Rewritten:
        """The outcome, from what the task returned. Reads the keys of the new file, if there is an index."""
        keys = None
        if file is not None and self.lookup is not None:
            keys = self.lookup.keys_of_file(file["file-path"], self.schema)
        return Rewritten(self.deleted, self.rows, file, keys)
