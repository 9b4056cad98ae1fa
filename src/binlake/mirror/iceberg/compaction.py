"""The tasks that rewrite data files of a table.

A task writes the rows of some data files that are there into one new file. Rounds go on meanwhile: what
they delete in the old files is translated into positions of the new one when it is committed
(`Rewritten.moved`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from binlake.lake.engine import Task
from binlake.mirror.iceberg.live_rows import Lookup
from binlake.mirror.tables.data_files import DataFileWriter
from binlake.mirror.tables.keys import SortedKeys
from binlake.mirror.tables.live_batches import live_batches
from binlake.mirror.tables.partitions import UNPARTITIONED, Partition

_GATHERED_ROWS = 1 << 17
_GATHERED_BYTES = 32 << 20


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
        """The positions in the new file of rows that have since been deleted in the old ones."""
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


@dataclass
class RewriteTask(Task):
    """Writes the rows of some data files of one partition that are not deleted into one file."""

    old: Sequence[tuple[str, bytes]]
    schema: bytes
    prefix: str
    partition: Partition = UNPARTITIONED

    def run(self) -> str:
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        writer = DataFileWriter(schema, self.prefix)
        return json.dumps(writer.write_one(gathered(self._rows(schema)), self.partition))

    def _rows(self, schema: pa.Schema) -> Iterator[pa.Table]:
        for path, deleted in self.old:
            for rows, _ in live_batches(path, BitMap.deserialize(deleted), schema, schema.names):
                yield rows


def gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Gather the rows of many tables into tables of the size of a row group."""
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
    """The inputs to write the rows of old data files into a new one, in any thread."""

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
