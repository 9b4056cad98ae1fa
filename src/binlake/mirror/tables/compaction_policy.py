"""The choice of data files to rewrite, in groups."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from binlake.mirror.tables.partitions import UNPARTITIONED, Partition

_SMALLEST = 4096  # fractions of a full file that are distinguished
# A file of this fill level is good to read, and compacting it would mean to write most rows once more. A full chunk of a copy has
# a quarter of the rows of a full file; a real one has fewer, and its rows change.
_FULL_ENOUGH = 0.15
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
        """The approximate size of the live rows."""
        return self.bytes * self.live_rows // max(1, self.rows)


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """The rules for rewriting files.

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
        """The fill level of a file with its live rows; 1.0 is full."""
        return max(file.live_bytes / self.file_bytes, file.live_rows / self.file_rows)

    def is_full(self, file: FileState) -> bool:
        """Whether a file is large enough to stay by itself."""
        return self.fill(file) >= _FULL_ENOUGH

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
