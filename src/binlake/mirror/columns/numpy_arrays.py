"""Arrow arrays from numpy arrays and back, without importing pandas, as `binlake.source.arrays` does for Python values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binlake.source.arrays import numbers


def from_numpy(values: npt.NDArray[Any]) -> pa.Array:
    """Return the array `pyarrow.array(values)` of numbers, booleans or times, without a copy except of booleans."""
    if values.dtype.kind == "b":
        return numbers(pa.bool_(), len(values), np.packbits(values, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype)
    return numbers(kind, len(values), np.ascontiguousarray(values))


def to_numpy(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return integers or booleans, without a copy if they are integers in one chunk. Raises ValueError for null."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if values.null_count:
        raise ValueError("a value is missing")
    if not len(values):
        return np.empty(0, values.type.to_pandas_dtype())
    buffer, offset, count = values.buffers()[1], values.offset, len(values)
    if pa.types.is_boolean(values.type):
        bits = np.unpackbits(
            np.frombuffer(buffer, np.uint8), count=offset + count, bitorder="little"
        )
        return bits[offset:].view(np.bool_)
    kind = np.dtype(values.type.to_pandas_dtype())
    return np.frombuffer(buffer, kind, count, offset * kind.itemsize)
