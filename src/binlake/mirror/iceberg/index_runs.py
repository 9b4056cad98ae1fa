"""Immutable sorted runs of a row index: files of numbers, which are mapped into memory while they are used.

A mirror has the indexes of all of its tables open, and an index may have a hundred runs. A mapping holds a descriptor of
its file (`mmap` of Python duplicates it), so nothing is mapped, and no file is open, between two lookups.
"""

from __future__ import annotations

import errno
import mmap
import os
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from binlake.core.columns.key_search import matching_keys
from binlake.mirror.tables.keys import Keys
from binlake.source.bytes import create_new

#: Entries are merged in pieces, so that a merge takes little memory however large its runs are.
_PIECE_ROWS = 1 << 18
_CHECKED_BYTES = 1 << 20
#: The arrays of a run, each in a file of its own. Keys that are one number have no `low`.
_PARTS = ("high", "low", "where")

Locations = npt.NDArray[np.uint64]
#: Keys in their order, and the place of each.
Entries = tuple[Keys, Locations]


@dataclass(frozen=True, slots=True)
class _Part:
    """An array of numbers in a file."""

    path: Path
    dtype: np.dtype[Any]
    rows: int
    offset: int

    @classmethod
    def of(cls, path: Path) -> _Part:
        """The array of a file. Raises OSError, and ValueError for a file that is damaged or too short."""
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            (rows,), _, dtype = np.lib.format.read_array_header_1_0(file)
            part = cls(path, dtype, rows, file.tell())
            if not rows or os.fstat(file.fileno()).st_size < part._end:
                raise ValueError(f"{path} lacks its end")
        return part

    @property
    def _end(self) -> int:
        return int(self.offset + self.rows * self.dtype.itemsize)

    def array(self) -> npt.NDArray[Any]:
        """The array, mapped into memory until it is no longer referenced. Raises OSError."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            mapping = mmap.mmap(descriptor, self._end, access=mmap.ACCESS_READ)
        except ValueError:  # it was longer when it was opened first
            raise OSError(errno.EIO, "the file has become shorter", str(self.path)) from None
        finally:
            os.close(descriptor)
        return np.frombuffer(mapping, self.dtype, self.rows, self.offset)

    @property
    def checksum(self) -> int:
        """The checksum of the array. It is read, not mapped: an error of the disk is an OSError then, and not a signal."""
        found, left = 0, self._end - self.offset
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.offset)
            while left and (content := file.read(min(left, _CHECKED_BYTES))):
                found = zlib.crc32(content, found)
                left -= len(content)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """`counts`: how many entries each file number has. `checksums`: of its arrays, by name. `least` and `greatest` are those
    of `high`.

    Its arrays are mapped anew each time: memory and descriptors are free again when the caller drops them. Otherwise, the
    pages that lookups have read would count as resident memory of the process, up to the size of the index.
    All that reads the arrays raises OSError.
    """

    name: str
    counts: dict[int, int]
    checksums: dict[str, int]
    least: np.generic
    greatest: np.generic
    parts: Mapping[str, _Part]

    def __len__(self) -> int:
        return self.parts["high"].rows

    @property
    def high(self) -> npt.NDArray[Any]:
        """The keys, or their first halves, in ascending order."""
        return self.parts["high"].array()

    @property
    def low(self) -> npt.NDArray[Any] | None:
        """The second halves of the keys; None if keys have one number."""
        return self.parts["low"].array() if "low" in self.parts else None

    @property
    def where(self) -> Locations:
        """The places of the keys."""
        return self.parts["where"].array()

    @property
    def is_intact(self) -> bool:
        """Whether its arrays have their checksums. Reads them all."""
        return self.checksums == {name: part.checksum for name, part in self.parts.items()}

    def find(self, keys: Keys) -> tuple[npt.NDArray[np.int64], Locations]:
        """(row of sorted `keys`, place) of every entry that has one of the keys."""
        numbers, entries = matching_keys(self.high, self.low, keys.high, keys.low)
        return np.frombuffer(numbers, np.int64), self.where[np.frombuffer(entries, np.int64)]


def open_run(
    directory: Path, name: str, counts: Iterable[tuple[int, int]], checksums: dict[str, int]
) -> Run:
    """A run that was written before. Raises OSError, and ValueError if it is damaged."""
    parts = {part: _Part.of(_path(directory, name, part)) for part in checksums}
    if len({part.rows for part in parts.values()}) != 1:
        raise ValueError(f"the arrays of {directory / name} have different lengths")
    high = parts["high"].array()
    return Run(name, dict(counts), checksums, high[0], high[-1], parts)


def write_run(directory: Path, counts: Mapping[int, int], pieces: Iterable[Entries]) -> Run:
    """A new run of as many entries as `counts` has, given in their order. If it fails, no file of it is left."""
    name = uuid.uuid4().hex
    try:
        checksums = _write_parts(directory, name, sum(counts.values()), pieces)
        return open_run(directory, name, counts.items(), checksums)
    except BaseException:
        # a full disk gets its space back, also for a process that starts again
        for part in _PARTS:
            with suppress(OSError):
                _path(directory, name, part).unlink(missing_ok=True)
        raise


def _write_parts(
    directory: Path, name: str, rows: int, pieces: Iterable[Entries]
) -> dict[str, int]:
    """Write the files of a run; return the checksums of its arrays."""
    checksums: dict[str, int] = {}
    with ExitStack() as stack:
        files: dict[str, Any] = {}
        for keys, where in pieces:
            for part, values in zip(_PARTS, (keys.high, keys.low, where), strict=True):
                if values is None:
                    continue
                if part not in files:
                    files[part] = stack.enter_context(create_new(_path(directory, name, part)))
                    _write_header(files[part], values.dtype, rows)
                content = np.ascontiguousarray(values).data
                checksums[part] = zlib.crc32(content, checksums.get(part, 0))
                files[part].write(content)
    return checksums


def merged(runs: Sequence[Run], piece_rows: int = _PIECE_ROWS) -> Iterator[Entries]:
    """All entries of runs in their order, in pieces of at most about `piece_rows`."""
    # of each run, because the keys of one may all be larger than those of another
    step = max(1, piece_rows // len(runs))
    pivots = np.unique(np.concatenate([run.high[step::step] for run in runs]))
    cuts = [[0, *np.searchsorted(run.high, pivots), len(run)] for run in runs]
    for piece in range(len(pivots) + 1):
        parts = [
            (run, slice(cut[piece], cut[piece + 1])) for run, cut in zip(runs, cuts, strict=True)
        ]
        yield _in_order(parts)


def _in_order(parts: Sequence[tuple[Run, slice]]) -> Entries:
    """The entries in slices of runs, in their order."""
    high = np.concatenate([run.high[of] for run, of in parts])
    order = np.argsort(high, kind="stable")
    low = _lows(parts)
    where = np.concatenate([run.where[of] for run, of in parts])
    return Keys(high[order], None if low is None else low[order]), where[order]


def _lows(parts: Sequence[tuple[Run, slice]]) -> npt.NDArray[Any] | None:
    lows = [low[of] for run, of in parts if (low := run.low) is not None]
    return np.concatenate(lows) if lows else None


def _path(directory: Path, name: str, part: str) -> Path:
    return directory / f"{name}.{part}.npy"


def _write_header(file: Any, dtype: np.dtype[Any], rows: int) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": (rows,),
    }
    np.lib.format.write_array_header_1_0(file, header)
