"""The positions of a table's rows: key to (data file, position), in immutable sorted runs on this machine.

An entry is a fact about a data file, and data files never change: so an entry is never wrong, but
its file or row may no longer exist. `table.MirrorTable` knows the files and rows of the snapshot on
which it commits. It completes an index that lacks some of those files, or is lost, from their key
columns, and has it forget files that compaction or another writer has removed.

A kill loses nothing that was written, but a crash of the machine can lose parts of files: binlake
does not wait for the disk in each round. So the index has checksums of its files. They are verified
when it is opened after the machine has started again; if one differs, the index is lost. An error of
the system, such as too many open files, says nothing about the index: it ends the mirror, and the files stay.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from binlake.mirror.iceberg.index_runs import Entries, Locations, Run, merged, open_run, write_run
from binlake.mirror.lake_state import boot_id
from binlake.mirror.tables.keys import POSITION_BITS, Keys, SortedKeys, sorted_files
from binlake.source.bytes import keep_from_others, remove_partials, replacing, writing
from binlake.source.reader import source_error
from binlake.stream.lanes import usable_cores

_META = "index.json"
# 4: an error in a merge made earlier versions save an index that lacked entries of its files
_VERSION = 4
_FAN_IN = 8  # runs that are merged into one
_KEYS_FOR_THREADS = 1 << 16  # fewer are found before threads have started
_LARGEST_INLINE_MERGE = 4_000_000  # rows; larger runs stay as they are
_MANY_FILES = (
    "allow the mirror more open files (ulimit -n, LimitNOFILE of systemd), and start it again"
)
_REBUILT = (
    "this is a file of a row index. Start the mirror again when the cause is gone. If the files cannot be read any more, remove"
    " their directory: the mirror reads the keys from the lake again"
)


class RowIndex:
    """An index in a directory of its own; no other process may use the directory. Raises SourceError if its files cannot be
    read or written.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._paths: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._entries: dict[int, int] = {}
        self._next = 0
        self._runs: list[Run] = []
        self.snapshot: int | None = None
        with writing(str(directory)):
            keep_from_others(directory)
            remove_partials(directory, [file.name for file in directory.iterdir()])
        with self._reading():
            try:
                self._load(json.loads((directory / _META).read_text("utf-8")))
            except (FileNotFoundError, EOFError, ValueError, KeyError, TypeError, RecursionError):
                self.clear()
        with writing(str(directory)):
            self._remove_unused()

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

        def find(run: Run) -> tuple[npt.NDArray[np.int64], Locations]:
            first = int(np.searchsorted(wanted.high, run.least))
            last = int(np.searchsorted(wanted.high, run.greatest, "right"))
            if first >= last:
                return np.empty(0, np.int64), np.empty(0, np.uint64)
            with self._reading():
                found, where = run.find(wanted.part(first, last))
            return order[found + first], where

        if len(keys) < _KEYS_FOR_THREADS or len(self._runs) < 2:
            parts = [find(run) for run in self._runs]
        else:
            with ThreadPoolExecutor(usable_cores(), "binlake-index") as pool:
                parts = list(pool.map(find, self._runs))
        if not parts:
            return np.empty(0, np.int64), np.empty(0, np.uint64)
        found, where = map(np.concatenate, zip(*parts, strict=True))
        there = self._of_files_that_are_there(where)
        return (found, where) if there is None else (found[there], where[there])

    # -- changes ---------------------------------------------------------------------------------

    def add(self, path: str, keys: SortedKeys) -> None:
        """The rows of a data file that it does not have."""
        self.add_together({path: keys})

    def add_together(self, files: Mapping[str, SortedKeys]) -> None:
        """The rows of data files that it does not have, in one run: a commit to many partitions has many small files."""
        if files:
            rows = {path: len(keys.positions) for path, keys in files.items()}
            self.add_files(rows, [sorted_files(list(files.values()))])

    def add_files(self, rows: Mapping[str, int], pieces: Iterable[SortedKeys]) -> None:
        """The rows of data files that it does not have, in one run. `rows`: how many of each file the pieces contain, in the
        order of the numbers of the files. Each piece has the keys after those of the piece before.
        """
        assert not rows.keys() & self._numbers.keys()
        numbers = {path: number for number, path in enumerate(rows, self._next)}
        counts = {numbers[path]: count for path, count in rows.items() if count}
        first = np.uint64(self._next) << POSITION_BITS
        if counts:
            entries = ((piece.keys, piece.positions + first) for piece in pieces)
            self._runs.append(self._written(counts, entries))
        self._next += len(rows)
        self._numbers.update(numbers)
        self._entries.update({numbers[path]: count for path, count in rows.items()})
        self._paths.update({number: path for path, number in numbers.items()})
        while self._merge_tail():
            pass

    def keep(self, paths: Iterable[str]) -> None:
        """Forget the files that are not among these, and those whose entries are lost."""
        self._forget_lost()
        there = set(paths)
        self.forget([path for path in self._numbers if path not in there])

    def forget(self, paths: Iterable[str]) -> None:
        """Forget files. Runs that mostly concern removed files are written again."""
        for path in paths:
            self._entries.pop(self._numbers.pop(path, -1), None)
        # one run after the other: after an error, all runs are there, of which some have fewer entries of forgotten files
        for at in reversed(range(len(self._runs))):
            run = self._runs[at]
            gone = sum(count for number, count in run.counts.items() if self._is_gone(number))
            if gone == len(run):
                del self._runs[at]
            elif 2 * gone > len(run):
                self._runs[at] = self._without_gone(run)
        used = {number for run in self._runs for number in run.counts}
        self._paths = {number: path for number, path in self._paths.items() if number in used}

    def _without_gone(self, run: Run) -> Run:
        """A new run without the entries of forgotten files."""
        with self._reading():
            where, low = run.where, run.low
            there = self._of_files_that_are_there(where)
            assert there is not None
            kept = Keys(run.high[there], None if low is None else low[there]), where[there]
        return self._written(self._kept(run.counts), [kept])

    def _forget_lost(self) -> bool:
        """Forget the files whose entries are not all in the runs, so that they are added again; return whether there are any.

        No error is known that has this effect. Without the check, rows that the index lacks would stay in the table when they
        are replaced or deleted.
        """
        there: Counter[int] = Counter()
        for run in self._runs:
            there.update(run.counts)
        lost = [path for path, n in self._numbers.items() if there[n] != self._entries[n]]
        for path in lost:
            del self._entries[self._numbers.pop(path)]
        return bool(lost)

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
        # without a snapshot, the table completes it before the next commit
        self.snapshot = None if self._forget_lost() else snapshot
        meta = {
            "version": _VERSION,
            "boot": boot_id(),
            "snapshot": self.snapshot,
            "files": {path: [n, self._entries[n]] for path, n in self._numbers.items()},
            "gone": {n: path for n, path in self._paths.items() if self._is_gone(n)},
            "next": self._next,
            "runs": [[r.name, len(r), r.checksums, list(r.counts.items())] for r in self._runs],
        }
        with writing(str(self._directory)):
            with replacing(self._directory / _META) as new:
                new.write(json.dumps(meta).encode())
            self._remove_unused()

    def clear(self) -> None:
        """Forget everything."""
        shutil.rmtree(self._directory, ignore_errors=True)
        with writing(str(self._directory)):
            keep_from_others(self._directory)
        self._paths, self._numbers, self._entries = {}, {}, {}
        self._runs, self.snapshot = [], None

    # --------------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Name the file in the errors of the system. Raises SourceError."""
        try:
            yield
        except OSError as error:
            hint = _MANY_FILES if error.errno in (errno.EMFILE, errno.ENFILE) else _REBUILT
            where = str(error.filename or self._directory)
            raise source_error(where, error).hinted(hint) from error

    def _load(self, meta: dict[str, Any]) -> None:
        if meta["version"] != _VERSION:
            raise ValueError("another version")
        for path, (number, entries) in meta["files"].items():
            self._numbers[str(path)] = int(number)
            self._entries[int(number)] = int(entries)
        self._paths = {number: path for path, number in self._numbers.items()}
        self._paths.update({int(number): str(path) for number, path in meta["gone"].items()})
        self._next = int(meta["next"])
        self.snapshot = meta["snapshot"]
        may_have_lost_writes = meta["boot"] is None or meta["boot"] != boot_id()
        for name, rows, checksums, counts in meta["runs"]:
            run = open_run(self._directory, name, counts, checksums)
            is_whole = len(run) == rows == sum(run.counts.values())
            if not is_whole or run.counts.keys() - self._paths.keys():
                raise ValueError("a run is damaged")
            if may_have_lost_writes and not run.is_intact:
                raise ValueError("a run is damaged")
            self._runs.append(run)
        if self._forget_lost():
            self.snapshot = None

    def _remove_unused(self) -> None:
        """Remove the files of runs that it no longer has, and those that a killed process has left. Raises OSError."""
        names = {run.name for run in self._runs}
        for file in self._directory.glob("*.npy"):
            if file.name.partition(".")[0] not in names:
                file.unlink(missing_ok=True)

    def _written(self, counts: Mapping[int, int], pieces: Iterable[Entries]) -> Run:
        """A new run, which is not yet one of the index."""
        with writing(str(self._directory)):
            return write_run(self._directory, counts, pieces)

    def _merge_tail(self) -> bool:
        """Make one run of the last ones, if there are enough of about one size."""
        tail = self._runs[-_FAN_IN:]
        if len(tail) < _FAN_IN:
            return False
        largest = max(len(run) for run in tail)
        if largest > min(_FAN_IN * len(tail[-1]), _LARGEST_INLINE_MERGE):
            return False
        counts = {number: count for run in tail for number, count in run.counts.items()}
        self._runs[-_FAN_IN:] = [self._written(counts, merged(tail))]
        return True
