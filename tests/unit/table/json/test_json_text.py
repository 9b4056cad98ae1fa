"""Arrow columns as JSON values: checked by reading them back with the standard library."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from binlake.table.text import json_text


def _read_back(fragments: pa.Array) -> list[Any]:
    assert fragments.type == pa.large_string()
    return [None if text is None else json.loads(text) for text in fragments.to_pylist()]


@given(st.lists(st.none() | st.binary()), st.integers(0, 3))
def test_hex_and_base64_read_back(values: list[bytes | None], skip: int) -> None:
    array = pa.array(values, pa.binary()).slice(skip)
    kept = values[skip:]
    assert json_text.hex_text(array).to_pylist() == [v if v is None else v.hex() for v in kept]
    decoded = [
        v if v is None else base64.b64decode(v) for v in json_text.base64_text(array).to_pylist()
    ]
    assert decoded == kept


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)))
def test_doubles_read_back_the_same(values: list[float | None]) -> None:
    assert _read_back(json_text.real(pa.array(values, pa.float64()))) == values


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_singles_are_the_shortest_that_read_back_the_same_single(value: float) -> None:
    (text,) = json_text.real(pa.array([value], pa.float32())).to_pylist()
    single = struct.pack("<f", value)
    assert struct.pack("<f", json.loads(text)) == single
    digits = len(text.lower().partition("e")[0].replace(".", "").lstrip("-0").rstrip("0"))
    if digits > 1:  # no shorter decimal names the same single
        assert struct.pack("<f", float(f"{value:.{digits - 2}e}")) != single


def test_a_single_is_not_printed_as_a_double() -> None:
    assert json_text.real(pa.array([0.1, None], pa.float32())).to_pylist() == ["0.1", None]


def test_not_a_number_is_text_because_json_has_no_such_number() -> None:
    values = pa.array([1.5, float("nan"), float("inf"), float("-inf"), None])
    assert _read_back(json_text.real(values)) == [1.5, "nan", "inf", "-inf", None]
