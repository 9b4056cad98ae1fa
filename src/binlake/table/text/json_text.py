"""Arrow arrays as text, whole columns at a time.

Every function takes an array and returns a large_string array; null stays null. All work is
done by Arrow kernels or on whole buffers, never value by value in Python.
"""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import array, scalar

_TEXT = pa.large_string()
_QUOTE = scalar('"', _TEXT)
_EMPTY = scalar("", _TEXT)


def join(*pieces: pa.Array | pa.Scalar | str) -> pa.Array:
    """Join the pieces of each row; null where a piece is null."""
    parts = [scalar(piece, _TEXT) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*parts, _EMPTY)


def number(values: pa.Array) -> pa.Array:
    """Integers as JSON numbers."""
    return values.cast(_TEXT)


def real(values: pa.Array) -> pa.Array:
    """Floats as JSON numbers, the shortest that read back the same (a float32 as a single).

    No server stores NaN or an infinity; if a log contains one, it becomes a string,
    because JSON has no such number.
    """
    text = values.cast(_TEXT)
    negative_zero = pc.equal(text, scalar("-0"))  # most readers of JSON take that for the integer 0
    if pc.any(negative_zero).as_py():
        text = pc.if_else(negative_zero, scalar("-0.0", _TEXT), text)
    finite = pc.is_finite(values)
    if pc.all(finite, min_count=0).as_py():  # nulls are skipped
        return text
    return pc.if_else(finite, text, join(_QUOTE, text, _QUOTE))


def used_data(text: pa.Array) -> bytes:
    """Return the bytes between the first and the last offset of a large_string array."""
    data = text.buffers()[2]
    if data is None or len(text) == 0:
        return b""
    offsets = memoryview(text.buffers()[1]).cast("q")
    start, end = offsets[text.offset], offsets[text.offset + len(text)]
    return bytes(memoryview(data)[start:end])


def hex_text(values: pa.Array) -> pa.Array:
    """Binary values as lower-case hex without a prefix."""
    data = values.cast(pa.large_binary())
    first = data.offset
    offsets = memoryview(data.buffers()[1]).cast("q")
    start, end = offsets[first], offsets[first + len(data)]
    source = data.buffers()[2]
    digits = b"" if source is None else memoryview(source)[start:end].hex().encode("ascii")
    doubled = pc.multiply(
        pc.subtract(
            pa.Array.from_buffers(
                pa.int64(), len(data) + 1, [None, data.buffers()[1]], offset=first
            ),
            scalar(start),
        ),
        scalar(2),
    )
    return with_nulls_of(data, doubled, digits)


def with_nulls_of(values: pa.Array, offsets: pa.Array, data: bytes) -> pa.Array:
    """Return a large_string array of new offsets (int64) and bytes, null where `values` is null."""
    made = pa.Array.from_buffers(
        _TEXT, len(values), [None, offsets.buffers()[1], pa.py_buffer(data)]
    )
    if values.null_count == 0:
        return made
    return pc.if_else(pc.is_valid(values), made, scalar(None, _TEXT))


def base64_text(values: pa.Array) -> pa.Array:
    """Binary values as base64, padded, one line."""
    encoded: list[Any] = [
        None if value is None else base64.b64encode(value).decode("ascii")
        for value in values.to_pylist()
    ]
    return array(encoded, _TEXT)
