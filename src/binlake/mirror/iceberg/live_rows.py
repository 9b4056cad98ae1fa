"""The live rows of a table's data files: whole files, or some positions."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from binlake.errors import IncompleteError, UnsupportedError
from binlake.mirror.columns.numpy_arrays import from_numpy, to_numpy
from binlake.mirror.tables.data_files import file_system, parquet_file, reading
from binlake.mirror.tables.deletion_vectors import decode_vector
from binlake.mirror.tables.keys import Keys, SortedKeys, keys_of_rows, sorted_keys, sorted_parts
from binlake.mirror.tables.live_batches import (
    READ_BYTES,
    as_stored,
    batch_rows,
    live_batches,
    stored_names,
)
from binlake.source.arrays import scalar

_FILES_AT_ONCE = 16


def deleted_rows(files: Mapping[str, Any]) -> dict[str, BitMap]:
    """The deleted positions of each data file, from `IcebergTable.files`. Raises BinlogError.

    Each delete file is read once, and several at the same time: there may be one for each data file, and an object store takes
    its time.
    """
    data_files: dict[str, str] = {}
    for entry in files["data"]:
        for name in entry["deletes"]:
            data_files.setdefault(name, entry["path"])
    with ThreadPoolExecutor(_FILES_AT_ONCE, "binlake-deletes") as pool:
        found = pool.map(
            lambda name: _read_deletes(files["deletes"][name], data_files[name]), data_files
        )
        read = dict(zip(data_files, found, strict=True))
    deleted: dict[str, BitMap] = {}
    for entry in files["data"]:
        marked = BitMap()
        for name in entry["deletes"]:
            marked |= read[name].get(entry["path"], BitMap())
        deleted[entry["path"]] = marked
    return deleted


def deleted_counts(files: Mapping[str, Any]) -> dict[str, int]:
    """How many rows of each data file are deleted, without reading vectors. Raises BinlogError."""
    lists = any(file["file-format"].lower() != "puffin" for file in files["deletes"].values())
    if lists:
        return {path: len(positions) for path, positions in deleted_rows(files).items()}
    return {
        entry["path"]: sum(files["deletes"][name]["record-count"] for name in entry["deletes"])
        for entry in files["data"]
    }


def _read_deletes(file: Mapping[str, Any], data_file: str) -> dict[str, BitMap]:
    """The positions in a delete file, by data file."""
    path = file["file-path"]
    if file["content"] != "position-deletes":
        raise UnsupportedError(
            f"{path}: the mirror does not support equality deletes",
            hint="another engine wrote them; `binlake mirror resync` copies the table again",
        )
    if file["file-format"].lower() == "puffin":
        fs, inner = file_system(path)
        with reading(path), fs.open_input_file(inner) as source:
            source.seek(file["content-offset"])
            blob = source.read(file["content-size-in-bytes"])
        return {data_file: decode_vector(blob, path)}
    with parquet_file(path) as deletes:
        rows = deletes.read(columns=["file_path", "pos"])
    found: dict[str, BitMap] = {}
    for name in rows["file_path"].unique().to_pylist():
        positions = rows.filter(pa.compute.equal(rows["file_path"], name))["pos"]
        found[name] = BitMap(array("I", positions.to_pylist()))
    return found


def marked_rows(
    deleted: Mapping[str, BitMap], paths: Iterable[str], schema: pa.Schema, column: str, value: str
) -> dict[str, BitMap]:
    """Return the deleted positions and the positions of rows with a value in a column of text, by data file. Data files
    without such rows are left out.
    """
    marks: dict[str, BitMap] = {}
    for path in paths:
        before = deleted.get(path, BitMap())
        found = BitMap()
        for rows, positions in live_batches(path, before, schema, [column]):
            of = to_numpy(pc.fill_null(pc.equal(rows[column], value), scalar(False)))
            found |= BitMap(array("I", positions[of].astype(np.uint32).tobytes()))
        if found:
            marks[path] = before | found
    return marks


@dataclass(frozen=True, slots=True)
class Lookup:
    """How the rows of a table are found: by the columns `key`, () for whole rows. With `open_column`, only
    the rows are found in which this column is null.
    """

    key: tuple[str, ...]
    open_column: str | None = None

    def keys_of_file(self, path: str, schema: pa.Schema) -> SortedKeys | None:
        """The keys of all rows of a data file that can be found, the deleted ones too; None: there are none."""
        return sorted_parts(list(self.parts_of_file(path, schema)))

    def parts_of_file(
        self, path: str, schema: pa.Schema
    ) -> Iterator[tuple[Keys, npt.NDArray[np.int64]]]:
        """The keys that `keys_of_file` sorts, and their positions, in the order of the rows: part by part, of a bounded size."""
        names = [*(self.key or schema.names)]
        if self.open_column is not None:
            names.append(self.open_column)
        for rows, positions in live_batches(path, BitMap(), schema, names):
            keys, found = self._found(rows, schema)
            if len(keys):
                yield keys, positions if found is None else positions[found]

    def keys_of(
        self, rows: pa.Table, schema: pa.Schema, keys: Keys | None = None
    ) -> SortedKeys | None:
        """The keys of the given rows of a data file that can be found, in their order; None if there are none.

        `keys`: the keys of all these rows, if they are known.
        """
        known, found = self._found(rows, schema, keys)
        return sorted_keys(known, found) if len(known) else None

    def _found(
        self, rows: pa.Table, schema: pa.Schema, keys: Keys | None = None
    ) -> tuple[Keys, npt.NDArray[np.int64] | None]:
        """The keys of the rows that can be found, and which rows these are; None: all of them."""
        if self.open_column is None:
            return keys_of_rows(rows, schema, self.key) if keys is None else keys, None
        is_open = pc.is_null(rows[self.open_column])
        return keys_of_rows(rows.filter(is_open), schema, self.key), np.flatnonzero(
            to_numpy(is_open)
        )


def rows_at(
    path: str,
    positions: Sequence[int],
    schema: pa.Schema,
    names: Sequence[str],
    read_bytes: int = READ_BYTES,
) -> pa.Table:
    """Some columns of the rows at these ascending positions of a data file, in the types of `schema`. Raises as
    `parquet_file`.

    Row groups without such rows are not read, and the others in parts of `read_bytes`, so that few other rows are in memory.
    """
    parts = []
    with parquet_file(path) as file:
        stored = stored_names(path, file, schema, names)
        wanted = [name for name in stored.values() if name is not None]
        at = np.asarray(positions, np.int64)
        first = 0
        for group in range(file.num_row_groups):
            of_group = file.metadata.row_group(group)
            inside = at[(at >= first) & (at < first + of_group.num_rows)] - first
            first += of_group.num_rows
            if not len(inside):
                continue
            if not wanted:  # the file is older than the columns
                rows = pa.table({"row": from_numpy(inside)})
                parts.append(as_stored(rows, stored, schema))
                continue
            count = batch_rows(of_group, wanted, read_bytes)
            begin = 0
            for batch in file.iter_batches(count, [group], columns=wanted, use_threads=False):
                end = begin + batch.num_rows
                of = inside[np.searchsorted(inside, begin) : np.searchsorted(inside, end)] - begin
                begin = end
                if len(of):
                    rows = pa.Table.from_batches([batch]).take(from_numpy(of))
                    parts.append(as_stored(rows, stored, schema))
    if parts:
        return pa.concat_tables(parts)
    return pa.schema([schema.field(name) for name in names]).empty_table()


def places_of_each(
    table: str,
    wanted: np.ndarray[Any, Any],
    places: np.ndarray[Any, Any],
    counts: np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:
    """Choose as many places of equal rows as `counts` requests. Raises IncompleteError if there are fewer.

    `wanted` has, for each place, the index in `counts` of the row that is there.
    """
    order = np.lexsort((places, wanted))
    wanted, places = wanted[order], places[order]
    begins = np.searchsorted(wanted, np.arange(len(counts)))
    ends = np.searchsorted(wanted, np.arange(len(counts)), "right")
    chosen = []
    for number in range(len(counts)):
        of = places[begins[number] : ends[number]]
        if len(of) < counts[number]:
            raise IncompleteError(
                f"{table}: {counts[number]} rows are deleted, but the lake has only {len(of)}",
                hint="the table differs from its source: `binlake mirror resync` copies it again",
            )
        chosen.append(of[: counts[number]])
    return np.concatenate(chosen)
