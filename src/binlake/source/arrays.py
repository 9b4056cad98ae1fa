"""Arrow arrays and scalars from Python values, without importing pandas.

`pyarrow.array` and `pyarrow.scalar` import pandas where it is installed, to recognise its values.
That takes longer than reading a small log, in every command and every Spark worker. So does a
Python value among the arguments of a `pyarrow.compute` function: pass a `scalar`.
"""

from __future__ import annotations

from array import array as machine_array
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_TYPES = {bool: pa.bool_(), int: pa.int64(), str: pa.string(), type(None): pa.null()}
_INTEGER_CODES = {8: "b", 16: "h", 32: "i", 64: "q"}
# Of offsets.
_INT32, _INT64 = _INTEGER_CODES[32], _INTEGER_CODES[64]


def numbers(kind: pa.DataType, count: int, data: Any) -> pa.Array:
    """Return an array over `count` numbers that lie in a buffer, without a copy."""
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def array(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    """Return the array `pyarrow.array(values, kind)`; None is null.

    Integers, floating-point numbers, booleans, text, bytes, times as integers, and lists and structs
    of them need no pandas.
    Raises what `pyarrow.array` raises; an integer out of range is an OverflowError.
    """
    items = values if isinstance(values, list | tuple) else list(values)
    if not items or pa.types.is_null(kind):
        return pa.nulls(len(items), kind)
    if pa.types.is_boolean(kind):
        return _fixed("b", pa.int8(), items).cast(kind)
    if pa.types.is_integer(kind):
        code = _INTEGER_CODES[kind.bit_width]
        return _fixed(code if pa.types.is_signed_integer(kind) else code.upper(), kind, items)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return _fixed("f" if pa.types.is_float32(kind) else "d", kind, items)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = [None if item is None else item.encode() for item in items]
        return _variable(texts, kind, _INT64 if pa.types.is_large_string(kind) else _INT32)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _variable(items, kind, _INT64 if pa.types.is_large_binary(kind) else _INT32)
    if pa.types.is_list(kind):
        return _lists(items, kind)
    if pa.types.is_struct(kind):
        return _structs(items, kind)
    is_time = pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
    if is_time and all(item is None or isinstance(item, int) for item in items):
        return _fixed("q", kind, items)
    return pa.array(items, kind)


def scalar(value: Any, kind: pa.DataType | None = None) -> pa.Scalar:
    """Return the scalar `pyarrow.scalar(value, kind)`; by default with the type of the value."""
    if value is None or isinstance(value, int):
        return _kept_scalar(value, kind)
    return array([value], kind or _TYPES[type(value)])[0]


@lru_cache(maxsize=256, typed=True)  # the same few come with every batch
def _kept_scalar(value: int | None, kind: pa.DataType | None) -> pa.Scalar:
    return array([value], kind or _TYPES[type(value)])[0]


def table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return the table `pyarrow.Table.from_pylist(rows, schema)`, with the types of `array`."""
    columns = [array([row[name] for row in rows], schema.field(name).type) for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)


def int64_array(values: memoryview[int]) -> pa.Array:
    """Return an array over integers in memory, without a copy."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def integers(values: pa.Array | pa.ChunkedArray) -> memoryview[int]:
    """Return the values of an int64 array, without a copy unless it has several chunks. Raises ValueError for null."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if whole.null_count:
        raise ValueError("a number is missing")
    if not len(whole):
        return memoryview(b"").cast("q")
    buffer = memoryview(whole.buffers()[1]).cast("q")
    return buffer[whole.offset : whole.offset + len(whole)]


def runs(ends: Sequence[int], values: Sequence[int]) -> pa.Array:
    """Return each value (int32) as often as its run is long: `ends` are where the runs end."""
    children = [array(ends, pa.int32()), array(values, pa.int32())]
    kind = pa.run_end_encoded(pa.int32(), pa.int32())
    encoded = pa.RunEndEncodedArray.from_buffers(kind, ends[-1], [None], children=children)
    return pc.run_end_decode(encoded)


def _fixed(code: str, kind: pa.DataType, items: Sequence[Any]) -> pa.Array:
    validity = _validity(items)
    if validity is not None:
        items = [0 if item is None else item for item in items]
    values = pa.py_buffer(machine_array(code, items))
    return pa.Array.from_buffers(kind, len(items), [validity, values])


def _variable(items: Sequence[bytes | None], kind: pa.DataType, offset_code: str) -> pa.Array:
    offsets = _offsets(items, offset_code)
    data = pa.py_buffer(b"".join(filter(None, items)))
    return pa.Array.from_buffers(kind, len(items), [_validity(items), offsets, data])


def _lists(items: Sequence[Sequence[Any] | None], kind: pa.DataType) -> pa.Array:
    members = array(
        [member for item in items if item is not None for member in item], kind.value_type
    )
    buffers = [_validity(items), _offsets(items, _INT32)]
    return pa.Array.from_buffers(kind, len(items), buffers, children=[members])


def _structs(items: Sequence[dict[str, Any] | None], kind: pa.DataType) -> pa.Array:
    members = [
        array([None if item is None else item.get(field.name) for item in items], field.type)
        for field in kind
    ]
    return pa.Array.from_buffers(kind, len(items), [_validity(items)], children=members)


def _offsets(items: Sequence[Sequence[Any] | bytes | None], code: str) -> pa.Buffer:
    lengths = [0 if item is None else len(item) for item in items]
    return pa.py_buffer(machine_array(code, accumulate(lengths, initial=0)))


def _validity(items: Sequence[Any]) -> pa.Buffer | None:
    """Return the bitmap of the items that are not None; None if no item is None."""
    if None not in items:
        return None
    bitmap = bytearray((len(items) + 7) // 8)
    for number, item in enumerate(items):
        if item is not None:
            bitmap[number >> 3] |= 1 << (number & 7)
    return pa.py_buffer(bitmap)
