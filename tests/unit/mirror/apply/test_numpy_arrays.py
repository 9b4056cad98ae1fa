"""Arrays of numpy as Arrow arrays, and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from binlake.mirror.columns.numpy_arrays import from_numpy, to_numpy


@pytest.mark.parametrize("kind", ["u1", "i4", "u8", "f8", "M8[us]", "?"])
@pytest.mark.parametrize("count", [0, 1, 21])
def test_arrays_of_numpy_equal_those_of_pyarrow(kind: str, count: int) -> None:
    values = np.random.default_rng(1).integers(0, 2, 2 * count, dtype="u1").astype(kind)
    for chosen in (values, values[::2]):
        made = from_numpy(chosen)
        made.validate(full=True)
        assert made.equals(pa.array(chosen))


@pytest.mark.parametrize("kind", [pa.uint8(), pa.int32(), pa.uint64(), pa.bool_()])
def test_numpy_arrays_have_the_values(kind: pa.DataType) -> None:
    values = pa.array([1, 0, 1, 1, 0, 0, 0, 1, 0, 1, 1], pa.uint8()).cast(kind)
    for part in (values, values.slice(3), values.slice(9, 1), values.slice(0, 0)):
        found = to_numpy(part)
        assert found.tolist() == part.to_pylist()
        assert found.dtype == kind.to_pandas_dtype()
    chunked = pa.chunked_array([values.slice(2, 3), values.slice(0, 0), values])
    assert to_numpy(chunked).tolist() == chunked.to_pylist()
    with pytest.raises(ValueError, match="a value is missing"):
        to_numpy(pa.nulls(1, kind))
