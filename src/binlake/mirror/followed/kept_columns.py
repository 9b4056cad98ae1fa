"""Columns of the lake with the values that a column had before its type changed, which the server does not have.

A row keeps these values for as long as the lake has a row of its key. Rows of new keys have NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from binlake.mirror.iceberg.live_rows import live_batches
from binlake.mirror.tables.data_files import DataFileWriter
from binlake.mirror.tables.formats import LakeTable

__all__ = ["files_with_kept_values", "kept_name", "with_kept_values"]


def kept_name(name: str, taken: Iterable[str]) -> str:
    """The name for a column's earlier values: `NAME_before_1`, or the next number that is not taken."""
    known = {one.lower() for one in taken}
    number = 1
    while f"{name}_before_{number}".lower() in known:
        number += 1
    return f"{name}_before_{number}"


def with_kept_values(
    rows: pa.Table, lake: LakeTable, key: Sequence[str], names: Sequence[str]
) -> pa.Table:
    """Rows with the columns `names`, whose values are those that the lake has for the same keys."""
    where, old = lake.rows_of(rows.select(list(key)))
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
    files: Iterable[Mapping[str, Any]], lake: LakeTable, key: Sequence[str], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Data files with the rows of others, and the values of `names` that the lake has for their keys."""

    def rows() -> Iterator[pa.Table]:
        for file in files:
            for part, _ in live_batches(
                file["file-path"], BitMap(), lake.schema, lake.schema.names
            ):
                yield with_kept_values(part, lake, key, names)

    writer = DataFileWriter(lake.schema, lake.data_prefix(), partitioning=lake.partitioning)
    return list(writer.write(rows()))
