"""The keys of many rows for a row index, which tasks read from the data files and sort.

The driver only appends their files to the index. It reads the keys of fewer rows itself.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binlake.lake.engine import Engine, Task
from binlake.mirror.apply.key_files import read_keys, write_keys
from binlake.mirror.apply.net import OF_ONE_TABLE
from binlake.mirror.apply.task_files import TaskFiles
from binlake.mirror.iceberg.index_runs import Run, merged, write_run
from binlake.mirror.iceberg.live_rows import Lookup
from binlake.mirror.iceberg.missing_keys import KeyReader, MissingKeys
from binlake.mirror.iceberg.row_index import RowIndex
from binlake.mirror.tables.damage import DAMAGED
from binlake.mirror.tables.data_files import remove_file
from binlake.mirror.tables.keys import POSITION_BITS, Keys, SortedKeys, sorted_parts
from binlake.source.bytes import writing
from binlake.values.quantities import counted

#: From so many rows on, tasks read the keys. On two cores, they need as long for two million integers as the driver.
ROWS_FOR_TASKS = 2_000_000
# A run of the index has the keys of one task: few runs are found in faster than many.
_LEAST_TASK_ROWS = 1_000_000
_MOST_TASK_ROWS = 16_000_000
# At the same time, the files of so many tasks are there beside the index.
_TASKS_PER_CORE = 4
# A task holds so many keys in memory, each in at most 90 bytes.
_PIECE_ROWS = 1 << 21
_PREFIX = "binlake-keys-"
# A task adds a file every few seconds.
_OLD_S = 86_400.0


@dataclass
class TaskKeyReader(KeyReader):
    """Has tasks read the keys if there are at least `least_rows`. `note` receives messages for the user about that.

    `after_job` is called whenever keys have been saved. If it raises an error, the reader raises it, too.
    """

    engine: Engine
    task_files: TaskFiles
    note: Callable[[str], None]
    least_rows: int = ROWS_FOR_TASKS
    after_job: Callable[[], None] = lambda: None

    def add(self, index: RowIndex, missing: MissingKeys) -> None:
        if missing.rows < self.least_rows:
            super().add(index, missing)
            return
        rows = counted(missing.rows, "row")
        self.note(f"{missing.table}: Spark's tasks read the keys of {rows} for its row index")
        began = time.monotonic()
        groups = _groups(missing.files, self.engine.cores)
        width = _TASKS_PER_CORE * self.engine.cores
        for at in range(0, len(groups), width):
            self._add(index, missing, groups[at : at + width])
            index.save(None)  # after a kill, the next run needs only the other files
            self.after_job()
        took = time.monotonic() - began
        self.note(f"{missing.table}: its row index was completed in {took:.1f} s")

    def _add(self, index: RowIndex, missing: MissingKeys, groups: Sequence[Sequence[str]]) -> None:
        """Add the keys of groups of files, each of which is the work of one task."""
        directory = self.task_files.for_tasks()
        # files of killed tasks go with this directory
        folder = directory if self.engine.is_here else None
        tasks = [
            KeyTask(paths, missing.lookup, missing.schema, directory, folder) for paths in groups
        ]
        what = f"read keys of {missing.table}"
        answers = self.engine.run(tasks, what, lambda _done, _all: None)
        for paths, answer in zip(groups, answers, strict=True):
            found: dict[str, Any] = json.loads(answer)
            if (unread := found.get("unread")) is not None:
                # here, the file raises the error that its table is quarantined for
                missing.add_to(index, sorted(paths, key=lambda path: path != unread))
                continue
            pieces = read_keys(found["keys"]) if found["keys"] else ()
            index.add_files(dict(zip(paths, found["rows"], strict=True)), pieces)
            if found["keys"]:
                remove_file(found["keys"])


def _groups(files: Mapping[str, int], cores: int) -> list[list[str]]:
    """The files in their order, in groups: as few as give each core some of them, of a bounded number of rows or one file."""
    share = sum(files.values()) // (2 * cores) + 1
    most = min(max(share, _LEAST_TASK_ROWS), _MOST_TASK_ROWS)
    groups: list[list[str]] = []
    held = 0
    for path, rows in files.items():
        if not groups or held + rows > most:
            groups.append([])
            held = 0
        groups[-1].append(path)
        held += rows
    return groups


@dataclass
class KeyTask(Task):
    """Writes the keys of data files into one file, in their order.

    It holds the keys of about `piece_rows` rows in memory, and those of more rows in temporary files in `folder`, by default the
    directory of its machine for such files. The answer is a data file that cannot be read, or the file of keys ("": there are
    none) and how many of them each data file has.
    """

    paths: Sequence[str]
    lookup: Lookup
    schema: pa.Schema
    directory: str
    folder: str | None = None
    piece_rows: int = _PIECE_ROWS

    def run(self) -> str:
        if self.folder is None:
            _remove_old(Path(tempfile.gettempdir()))
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=self.folder) as folder:
            pieces = _Pieces(Path(folder), self.piece_rows)
            rows = []
            for number, path in enumerate(self.paths):
                try:
                    rows.append(self._read(number, path, pieces))
                except (*OF_ONE_TABLE, *DAMAGED):
                    return json.dumps({"unread": path})
            keys = pieces.in_file(self.directory)
        return json.dumps({"keys": keys, "rows": rows})

    def _read(self, number: int, path: str, pieces: _Pieces) -> int:
        """Add the keys of a data file to the pieces; returns how many there are."""
        rows = 0
        upper = np.uint64(number) << POSITION_BITS
        for keys, positions in self.lookup.parts_of_file(path, self.schema):
            pieces.add(keys, positions.astype(np.uint64) | upper)
            rows += len(keys)
        return rows


def _remove_old(folder: Path) -> None:
    """Remove the directories of killed tasks, each of which may have hundreds of megabytes."""
    for left in folder.glob(f"{_PREFIX}*"):
        with suppress(
            OSError
        ):  # another task of the machine does it, too; or it belongs to another user
            if time.time() - left.stat().st_mtime > _OLD_S:
                shutil.rmtree(left)


class _Pieces:
    """Sorted pieces of keys: the last one in memory, the others in files of a folder."""

    def __init__(self, folder: Path, piece_rows: int) -> None:
        self._folder = folder
        self._piece_rows = piece_rows
        self._parts: list[tuple[Keys, npt.NDArray[np.uint64]]] = []
        self._runs: list[Run] = []
        self._held = 0

    def add(self, keys: Keys, places: npt.NDArray[np.uint64]) -> None:
        """More keys, in any order. Raises SourceError if the folder cannot be written."""
        self._parts.append((keys, places))
        self._held += len(keys)
        if self._held >= self._piece_rows:
            self._store()

    def _store(self) -> None:
        piece = sorted_parts(self._parts)
        self._parts, self._held = [], 0
        if piece is not None:
            entries = (piece.keys, piece.positions)
            with writing(str(self._folder)):
                self._runs.append(write_run(self._folder, {0: len(piece.keys)}, [entries]))

    def in_file(self, directory: str) -> str:
        """Write all keys in their order; returns the path of the file, "" if there is no key. Raises SourceError."""
        if not self._runs:
            piece = sorted_parts(self._parts)
            return "" if piece is None else write_keys([piece], directory)
        self._store()
        return write_keys((SortedKeys(*entries) for entries in merged(self._runs)), directory)
