"""Columns of the lake with the values that a column had before its type changed, which the server does not have.

A row keeps these values for as long as the lake has a row of its key. Rows of new keys have NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from binlake.lake.engine import UnwantedError
from binlake.mirror.columns.names import caseless
from binlake.mirror.tables.data_files import DataFileWriter, remove_file
from binlake.mirror.tables.formats import LakeTable
from binlake.mirror.tables.live_batches import live_batches


def kept_name(name: str, taken: Iterable[str]) -> str:
    """The name for a column's earlier values: `NAME_before_1`, or the next number that is not taken."""
    known = set(map(caseless, taken))
    number = 1
    while caseless(f"{name}_before_{number}") in known:
        number += 1
    return f"{name}_before_{number}"


def with_kept_values(
    rows: pa.Table, lake: LakeTable, key: Sequence[str], names: Sequence[str]
) -> pa.Table:
    """Return the rows with the columns `names`, which get the values that the lake has for the same keys."""
    where, old = lake.rows_of(rows.select(list(key)), names)
    places = pa.array(where, pa.int64(), mask=np.asarray(where) < 0)
    for name in names:
        values = old[name].combine_chunks().take(places)
        at = rows.schema.get_field_index(name)
        if at < 0:
            rows = rows.append_column(lake.schema.field(name), values)
        else:
            rows = rows.set_column(at, lake.schema.field(name), values)
    return rows


def files_with_kept_values(
    files: Sequence[Mapping[str, Any]],
    lake: LakeTable,
    key: Sequence[str],
    names: Sequence[str],
    watch: Callable[[int, int], None],
    is_interrupted: Callable[[], bool],
) -> list[dict[str, Any]]:
    """Data files with the rows of others, and the values of `names` that the lake has for their keys.

    `watch` takes the number of files and rows that are read, after each file. `is_interrupted` is called before
    each part of a file; if it returns true, UnwantedError is raised. The new files are then removed.
    """

    def rows() -> Iterator[pa.Table]:
        done = 0
        for number, file in enumerate(files, 1):
            for part, _ in live_batches(
                file["file-path"], BitMap(), lake.schema, lake.schema.names
            ):
                if is_interrupted():
                    raise UnwantedError
                yield with_kept_values(part, lake, key, names)
                done += part.num_rows
            watch(number, done)

    writer = DataFileWriter(lake.schema, lake.data_prefix(), partitioning=lake.partitioning)
    made: list[dict[str, Any]] = []
    try:
        made.extend(writer.write(rows()))
    except UnwantedError:
        for file in made:
            remove_file(file["file-path"])
        raise
    return made
