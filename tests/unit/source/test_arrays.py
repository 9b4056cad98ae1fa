"""Arrays of Python values are those of pyarrow, made without pandas."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlake.source.arrays import array, integers, runs, scalar

KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-(1 << 7), (1 << 7) - 1)),
    (pa.uint16(), st.integers(0, (1 << 16) - 1)),
    (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    (pa.uint64(), st.integers(0, (1 << 64) - 1)),
    (pa.bool_(), st.booleans()),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text()),
    (pa.large_string(), st.text()),
    (pa.binary(), st.binary()),
    (pa.timestamp("us", "UTC"), st.integers(-(1 << 50), 1 << 50)),
    (pa.list_(pa.string()), st.lists(st.none() | st.text())),
    (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        st.fixed_dictionaries({"a": st.none() | st.integers(0, 9), "b": st.none() | st.text()}),
    ),
    (pa.decimal128(20, 0), st.decimals(-1000, 1000, places=0)),
    (pa.null(), st.none()),
]


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[str(kind) for kind, _ in KINDS])
@given(data=st.data())
def test_an_array_equals_that_of_pyarrow(
    kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    items = data.draw(st.lists(st.none() | values, max_size=40))
    made = array(items, kind)
    made.validate(full=True)
    assert made.equals(pa.array(items, kind))


def test_an_integer_out_of_range_is_refused() -> None:
    with pytest.raises(OverflowError):
        array([256], pa.uint8())


@pytest.mark.parametrize("value", [7, True, "text", None])
def test_a_scalar_has_the_type_of_its_value(value: object) -> None:
    assert scalar(value).equals(pa.scalar(value))


def test_runs_repeat_their_values() -> None:
    assert runs([2, 3, 6], [7, 8, 9]).to_pylist() == [7, 7, 8, 9, 9, 9]


def test_no_pandas_is_imported() -> None:
    code = (
        "import sys, pyarrow as pa; from binlake.source.arrays import array, runs, scalar;"
        "array([1, None], pa.int64()); array(['a'], pa.string()); array([True], pa.bool_());"
        "array([['a']], pa.list_(pa.string())); scalar(None); runs([1], [0]);"
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_integers_with_null_are_refused() -> None:
    assert list(integers(pa.array([1, 2, 3], pa.int64()).slice(1))) == [2, 3]
    with pytest.raises(ValueError, match="a number is missing"):
        integers(pa.array([1, None], pa.int64()))
