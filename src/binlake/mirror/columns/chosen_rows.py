"""Rows of a table by their numbers, also where a column has more text than one Arrow array can hold.

Arrow's `take` makes one array of all chunks of a column, and one array of text or bytes has 2 GiB at most.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binlake.mirror.columns.numpy_arrays import from_numpy, to_numpy
from binlake.source.arrays import scalar

Indices = npt.NDArray[np.int64]

# far below the limit, because an array exceeds it by one value
_MOST_BYTES = 512 << 20


def take_rows(rows: pa.Table, chosen: Indices, most_bytes: int = _MOST_BYTES) -> pa.Table:
    """The rows with these numbers, each of which is there once at most."""
    large = [_has_text(column) and column.nbytes > most_bytes for column in rows.columns]
    if not any(large):
        return rows.take(from_numpy(chosen))
    columns = [take_values(column, chosen, most_bytes) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def take_values(
    values: pa.ChunkedArray, chosen: Indices, most_bytes: int = _MOST_BYTES
) -> pa.ChunkedArray:
    """The values with these numbers. A number can be there several times."""
    if not (_has_text(values) and len(chosen)):
        return values.take(from_numpy(chosen))
    sizes = to_numpy(pc.fill_null(pc.binary_length(values), scalar(0, pa.int32())))
    until = np.cumsum(sizes[chosen], dtype=np.int64)
    if max(values.nbytes, int(until[-1])) <= most_bytes:
        return values.take(from_numpy(chosen))
    cuts = np.flatnonzero(np.diff(until // most_bytes)) + 1
    parts = [
        _one_array(values, chosen[first:last]) for first, last in pairwise([0, *cuts, len(chosen)])
    ]
    return pa.chunked_array(parts, values.type)


def _has_text(values: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_string(values.type) or pa.types.is_binary(values.type))


def _one_array(values: pa.ChunkedArray, chosen: Indices) -> pa.Array:
    """The values with these numbers, which fit into one array."""
    begins = np.cumsum([0, *map(len, values.chunks)])
    numbers = np.searchsorted(begins, chosen, "right") - 1
    order = np.argsort(numbers, kind="stable")
    ends = np.flatnonzero(np.diff(numbers[order])) + 1
    parts = []
    for first, last in pairwise([0, *ends, len(chosen)]):
        of = chosen[order[first:last]]
        number = int(numbers[order[first]])
        parts.append(values.chunk(number).take(from_numpy(of - begins[number])))
    joined = pa.concat_arrays(parts)
    back = np.empty(len(chosen), np.int64)
    back[order] = np.arange(len(chosen))
    return joined.take(from_numpy(back))
