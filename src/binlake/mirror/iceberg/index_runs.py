"""Immutable sorted runs of a row index: files of numbers, which are mapped into memory."""

from __future__ import annotations

import mmap
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
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

Locations = npt.NDArray[np.uint64]
#: Keys in their order, and the place of each.
Entries = tuple[Keys, Locations]


@dataclass(frozen=True, slots=True)
class Run:
    """`counts`: how many entries each file number has. `checksums`: of its arrays, by name."""

    name: str
    counts: dict[int, int]
    checksums: dict[str, int]
    high: npt.NDArray[np.generic]
    where: Locations
    low: npt.NDArray[np.generic] | None = None
    mappings: Sequence[mmap.mmap] = ()

    def __len__(self) -> int:
        return len(self.high)

    @property
    def is_intact(self) -> bool:
        """Whether its arrays have their checksums. Reads them all."""
        arrays = {"high": self.high, "low": self.low, "where": self.where}
        found = {
            part: zlib.crc32(values.data) for part, values in arrays.items() if values is not None
        }
        self.release()
        return found == self.checksums

    def release(self) -> None:
        """Give the resident pages of its files back. The system may still keep them in its cache.

        Otherwise, they count as resident memory of the process, up to the size of the index.
        """
        for mapping in self.mappings:
            mapping.madvise(mmap.MADV_DONTNEED)

    def find(self, keys: Keys) -> tuple[npt.NDArray[np.int64], Locations]:
        """(row of sorted `keys`, place) of every entry that has one of the keys."""
        numbers, entries = matching_keys(self.high, self.low, keys.high, keys.low)
        return np.frombuffer(numbers, np.int64), self.where[np.frombuffer(entries, np.int64)]


def open_run(
    directory: Path, name: str, counts: Iterable[tuple[int, int]], checksums: dict[str, int]
) -> Run:
    """A run that was written before. Raises OSError, ValueError."""
    arrays: dict[str, Any] = {}
    mappings = []
    for part in checksums:
        with _path(directory, name, part).open("rb") as file:
            np.lib.format.read_magic(file)
            (rows,), _, dtype = np.lib.format.read_array_header_1_0(file)
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            arrays[part] = np.frombuffer(mapping, dtype, rows, file.tell())
        mappings.append(mapping)
    return Run(name, dict(counts), checksums, **arrays, mappings=mappings)


def write_run(directory: Path, counts: Mapping[int, int], pieces: Iterable[Entries]) -> Run:
    """A new run of as many entries as `counts` has, given in their order."""
    name, rows = uuid.uuid4().hex, sum(counts.values())
    checksums: dict[str, int] = {}
    with ExitStack() as stack:
        files: dict[str, Any] = {}
        for keys, where in pieces:
            arrays = {"high": keys.high, "low": keys.low, "where": where}
            for part, values in arrays.items():
                if values is None:
                    continue
                if part not in files:
                    files[part] = stack.enter_context(create_new(_path(directory, name, part)))
                    _write_header(files[part], values.dtype, rows)
                content = np.ascontiguousarray(values).data
                checksums[part] = zlib.crc32(content, checksums.get(part, 0))
                files[part].write(content)
    return open_run(directory, name, counts.items(), checksums)


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
        high = np.concatenate([run.high[of] for run, of in parts])
        order = np.argsort(high, kind="stable")
        lows = [run.low[of] for run, of in parts if run.low is not None]
        low = np.concatenate(lows)[order] if lows else None
        yield Keys(high[order], low), np.concatenate([run.where[of] for run, of in parts])[order]
        for run in runs:
            run.release()


def _path(directory: Path, name: str, part: str) -> Path:
    return directory / f"{name}.{part}.npy"


def _write_header(file: Any, dtype: np.dtype[Any], rows: int) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": (rows,),
    }
    np.lib.format.write_array_header_1_0(file, header)
