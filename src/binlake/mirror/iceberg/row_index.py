"""The positions of a table's rows: key to (data file, position), in immutable sorted runs on this machine.

An entry is a fact about a data file, and data files never change: so an entry is never wrong, but
its file or row may no longer exist. `table.MirrorTable` knows the files and rows of the snapshot on
which it commits. It completes an index that lacks some of those files, or is lost, from their key
columns, and has it forget files that compaction or another writer has removed.

A kill loses nothing that was written, but a crash of the machine can lose parts of files: binlake
does not wait for the disk in each round. So the index has checksums of its files. They are verified
when it is opened after the machine has started again; if one differs, the index is lost.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from binlake.mirror.iceberg.index_runs import Entries, Locations, Run, merged, open_run, write_run
from binlake.mirror.lake_state import boot_id
from binlake.mirror.tables.keys import POSITION_BITS, Keys, SortedKeys
from binlake.source.bytes import keep_from_others, remove_partials, replacing, writing

_META = "index.json"
_VERSION = 3
_FAN_IN = 8  # runs that are merged into one
_LARGEST_INLINE_MERGE = 4_000_000  # rows; larger runs stay as they are


class RowIndex:
    """An index in a directory of its own; no other process may use the directory. Raises SourceError if it cannot be written."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._paths: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._next = 0
        self._runs: list[Run] = []
        self.snapshot: int | None = None
        keep_from_others(directory)
        remove_partials(directory, [file.name for file in directory.iterdir()])
        try:
            self._load(json.loads((directory / _META).read_text("utf-8")))
        except (OSError, EOFError, ValueError, KeyError, TypeError, RecursionError):
            self.clear()

    # -- contents --------------------------------------------------------------------------------

    def has(self, path: str) -> bool:
        """Whether the rows of a data file are in it."""
        return path in self._numbers

    def path(self, number: int) -> str:
        """The data file of a number in `Locations`."""
        return self._paths[number]

    def find(self, keys: Keys) -> tuple[npt.NDArray[np.int64], Locations]:
        """All places of the keys: (row in `keys`, file number << 32 | position), in no order."""
        order = np.argsort(keys.high, kind="stable")
        wanted = keys.take(order)
        rows: list[npt.NDArray[np.int64]] = []
        places: list[Locations] = []
        for run in self._runs:
            first = int(np.searchsorted(wanted.high, run.high[0]))
            last = int(np.searchsorted(wanted.high, run.high[-1], "right"))
            if first < last:
                found, where = run.find(wanted.take(np.arange(first, last)))
                rows.append(order[found + first])
                places.append(where)
            run.release()
        if not rows:
            return np.empty(0, np.int64), np.empty(0, np.uint64)
        found, where = np.concatenate(rows), np.concatenate(places)
        there = self._of_files_that_are_there(where)
        return (found, where) if there is None else (found[there], where[there])

    # -- changes ---------------------------------------------------------------------------------

    def add(self, path: str, keys: SortedKeys) -> None:
        """The rows of a data file that it does not have."""
        self.add_files({path: len(keys.positions)}, [keys])

    def add_files(self, rows: Mapping[str, int], pieces: Iterable[SortedKeys]) -> None:
        """The rows of data files that it does not have, in one run. `rows`: how many of each file the pieces contain, in the
        order of the numbers of the files. Each piece has the keys after those of the piece before.
        """
        assert not rows.keys() & self._numbers.keys()
        numbers = {path: number for number, path in enumerate(rows, self._next)}
        counts = {numbers[path]: count for path, count in rows.items() if count}
        first = np.uint64(self._next) << POSITION_BITS
        if counts:
            self._store(counts, ((piece.keys, piece.positions + first) for piece in pieces))
        self._next += len(rows)
        self._numbers.update(numbers)
        self._paths.update({number: path for path, number in numbers.items()})
        while self._merge_tail():
            pass

    def keep(self, paths: Iterable[str]) -> None:
        """Forget the files that are not among these."""
        there = set(paths)
        self.forget([path for path in self._numbers if path not in there])

    def forget(self, paths: Iterable[str]) -> None:
        """Forget files. Runs that mostly concern removed files are written again."""
        for path in paths:
            self._numbers.pop(path, None)
        runs, self._runs = self._runs, []
        for run in runs:
            gone = sum(count for number, count in run.counts.items() if self._is_gone(number))
            if 2 * gone <= len(run):
                self._runs.append(run)
            elif gone < len(run):
                there = self._of_files_that_are_there(run.where)
                assert there is not None
                low = None if run.low is None else run.low[there]
                kept = Keys(run.high[there], low), run.where[there]
                self._store(self._kept(run.counts), [kept])
        used = {number for run in self._runs for number in run.counts}
        self._paths = {number: path for number, path in self._paths.items() if number in used}

    def _is_gone(self, number: int) -> bool:
        return self._numbers.get(self._paths[number]) != number

    def _kept(self, counts: Mapping[int, int]) -> dict[int, int]:
        return {number: count for number, count in counts.items() if not self._is_gone(number)}

    def _of_files_that_are_there(self, where: Locations) -> npt.NDArray[np.bool_] | None:
        """Which entries are not about forgotten files; None: none is."""
        gone = [number for number in self._paths if self._is_gone(number)]
        if not gone:
            return None
        return ~np.isin(where >> POSITION_BITS, np.array(gone, np.uint64))

    def save(self, snapshot: int | None) -> None:
        """Save the index, which covers `snapshot`.

        A kill loses entries that were added after the last save; a crash of the machine can lose the index.
        """
        self.snapshot = snapshot
        meta = {
            "version": _VERSION,
            "boot": boot_id(),
            "snapshot": snapshot,
            "files": self._numbers,
            "gone": {n: path for n, path in self._paths.items() if self._is_gone(n)},
            "next": self._next,
            "runs": [[r.name, len(r), r.checksums, list(r.counts.items())] for r in self._runs],
        }
        with writing(str(self._directory)), replacing(self._directory / _META) as new:
            new.write(json.dumps(meta).encode())
        names = {run.name for run in self._runs}
        for file in self._directory.glob("*.npy"):
            if file.name.partition(".")[0] not in names:
                file.unlink()

    def clear(self) -> None:
        """Forget everything."""
        shutil.rmtree(self._directory, ignore_errors=True)
        keep_from_others(self._directory)
        self._paths, self._numbers, self._runs, self.snapshot = {}, {}, [], None

    # --------------------------------------------------------------------------------------------

    def _load(self, meta: dict[str, Any]) -> None:
        if meta["version"] != _VERSION:
            raise ValueError("another version")
        self._numbers = {str(path): int(number) for path, number in meta["files"].items()}
        self._paths = {number: path for path, number in self._numbers.items()}
        self._paths.update({int(number): str(path) for number, path in meta["gone"].items()})
        self._next = int(meta["next"])
        self.snapshot = meta["snapshot"]
        may_have_lost_writes = meta["boot"] is None or meta["boot"] != boot_id()
        for name, rows, checksums, counts in meta["runs"]:
            run = open_run(self._directory, name, counts, checksums)
            if not len(run.high) == len(run.where) == rows:
                raise ValueError("a run is damaged")
            if may_have_lost_writes and not run.is_intact:
                raise ValueError("a run is damaged")
            self._runs.append(run)

    def _store(self, counts: Mapping[int, int], pieces: Iterable[Entries]) -> None:
        with writing(str(self._directory)):
            self._runs.append(write_run(self._directory, counts, pieces))

    def _merge_tail(self) -> bool:
        """Make one run of the last ones, if there are enough of about one size."""
        tail = self._runs[-_FAN_IN:]
        if len(tail) < _FAN_IN:
            return False
        largest = max(len(run) for run in tail)
        if largest > min(_FAN_IN * len(tail[-1]), _LARGEST_INLINE_MERGE):
            return False
        counts = {number: count for run in tail for number, count in run.counts.items()}
        del self._runs[-_FAN_IN:]
        self._store(counts, merged(tail))
        return True
