"""The row changes of one table in a range of the log: batches of this process, or files of tasks.

A file of a task has the batches as they were decoded; or each batch is cut into the shares of the table's keys (`shares`),
and its rows are in the types of the lake (`lake_types`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from binlake.errors import SchemaError
from binlake.mirror.apply.change_rows import ABSENT
from binlake.mirror.apply.lake_types import LakeTypes
from binlake.mirror.apply.net import lacks_columns
from binlake.mirror.apply.shares import cut, joined
from binlake.mirror.apply.task_files import batches_of, task_output
from binlake.source.bytes import writing


@dataclass(frozen=True, slots=True)
class Shares:
    """The number of `parts` into which tasks split a table's keys, and the `key` of the lake table."""

    rows: LakeTypes
    key: tuple[str, ...]
    parts: int


class ChangeFile(NamedTuple):
    """A file with changes. Each batch was cut into `parts`, for the lake table with `lake` as the fingerprint of its
    rows; 0: it is as it was decoded. `lacking`: see `RangeChanges`.
    """

    path: str
    parts: int
    lake: int
    rows: int
    nbytes: int
    lacking: int

    def share(self, part: int) -> Iterator[pa.RecordBatch]:
        """The changes of one share. Raises SourceError."""
        return batches_of(self.path, lambda count: range(part, count, self.parts))

    def tables(self, rows: LakeTypes) -> Iterator[pa.Table]:
        """All changes in the types of the lake. Raises SchemaError if they do not fit, SourceError if they cannot be read."""
        if self.parts and self.lake != rows.fingerprint:
            raise SchemaError(
                f"{rows.table}: its lake table has changed since the log was decoded",
                hint="start the mirror again",
            )
        batches = batches_of(self.path, range)
        if not self.parts:
            yield from map(rows.of, batches)
            return
        while group := list(islice(batches, self.parts)):
            yield joined(group)


@dataclass
class RangeChanges:
    """The changes in the order of the log. `lacking`: how many of them are inserts or updates whose image lacks a column.
    `local` makes a file of a task one of this machine.
    """

    batches: list[pa.RecordBatch] = field(default_factory=list)
    files: list[ChangeFile] = field(default_factory=list)
    rows: int = 0
    nbytes: int = 0
    lacking: int = 0
    local: Callable[[str], str] = lambda path: path

    def add(self, batch: pa.RecordBatch) -> None:
        """More changes."""
        self.batches.append(batch)
        self._count(batch.num_rows, batch.nbytes, _lacking(batch))

    def add_file(self, file: ChangeFile) -> None:
        """More changes, in a file."""
        self.files.append(file)
        self._count(file.rows, file.nbytes, file.lacking)

    def _count(self, rows: int, nbytes: int, lacking: int) -> None:
        self.rows += rows
        self.nbytes += nbytes
        self.lacking += lacking

    @property
    def is_whole(self) -> bool:
        """Whether the log has each inserted and updated row as a whole."""
        return not self.lacking

    @property
    def parts(self) -> int:
        """The number of shares into which all changes are cut; 0 if they are not."""
        parts = {file.parts for file in self.files}
        return parts.pop() if len(parts) == 1 and not self.batches else 0

    def is_cut_for(self, rows: LakeTypes) -> bool:
        """Whether all changes are cut into shares for a lake table as it is now."""
        return bool(self.parts) and all(file.lake == rows.fingerprint for file in self.files)

    def tables(self, rows: LakeTypes) -> Iterator[pa.Table]:
        """The changes in the types of the lake, again each time. Raises SchemaError if they do not fit."""
        yield from map(rows.of, self.batches)
        for file in self.files:
            yield from file._replace(path=self.local(file.path)).tables(rows)


def _lacking(batch: pa.RecordBatch) -> int:
    """How many inserts and updates have an image that lacks a column."""
    if batch.column(ABSENT).null_count == batch.num_rows:
        return 0
    return int(np.count_nonzero(lacks_columns(batch)))


class ChangeFileWriter:
    """Writes the changes of one table into files in a directory, one file for successive batches of one schema. Raises
    SourceError if the directory cannot be written.
    """

    def __init__(self, directory: str, shares: Shares | None) -> None:
        self.files: list[ChangeFile] = []
        self._directory = directory
        self._shares = shares
        self._open: _OpenFile | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """More changes."""
        parts = self._cut(batch)
        with writing(self._directory):
            self._write(batch, parts)

    def _write(self, batch: pa.RecordBatch, parts: Sequence[pa.RecordBatch]) -> None:
        """Write a batch, or the parts into which it was cut."""
        written = parts or [batch]
        kind = (batch.schema, len(parts))
        if self._open is None or self._open.kind != kind:
            self.close()
            lake = 0 if self._shares is None else self._shares.rows.fingerprint
            self._open = _OpenFile.new(self._directory, kind, lake, written[0].schema)
        for part in written:
            self._open.out.write_batch(part)
        self._open.rows += batch.num_rows
        self._open.nbytes += batch.nbytes
        self._open.lacking += _lacking(batch)

    def _cut(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """The batch cut into shares; () if there are none, or if it does not fit into the lake table."""
        if self._shares is None or _lacking(batch):  # then the driver needs rows of the lake
            return ()
        try:  # the driver finds out whether the log has a DDL statement before it, or raises the error
            return list(cut(self._shares.rows.of(batch), self._shares.key, self._shares.parts))
        except SchemaError:
            return ()

    def close(self) -> None:
        """End the last file."""
        if self._open is not None:
            with writing(self._directory):
                self.files.append(self._open.finished())
            self._open = None


@dataclass
class _OpenFile:
    """A file that is being written. `kind`: the schema of its batches as they were decoded, and the number of parts."""

    kind: tuple[pa.Schema, int]
    lake: int
    path: str
    out: Any
    close: Callable[[], None]
    rows: int = 0
    nbytes: int = 0
    lacking: int = 0

    @classmethod
    def new(
        cls, directory: str, kind: tuple[pa.Schema, int], lake: int, schema: pa.Schema
    ) -> _OpenFile:
        """A new one in a directory."""
        path, output = task_output(directory)
        stack = ExitStack()
        out = stack.enter_context(output)
        return cls(kind, lake, path, stack.enter_context(pa.ipc.new_file(out, schema)), stack.close)

    def finished(self) -> ChangeFile:
        """The file, closed."""
        self.close()
        return ChangeFile(self.path, self.kind[1], self.lake, self.rows, self.nbytes, self.lacking)
