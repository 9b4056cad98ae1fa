"""VECTOR: float32 little-endian. MySQL has a type of its own; MariaDB logs a binary VARCHAR,
which only a schema can tell from other bytes.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.text.text_rows import ValueColumn
from binlake.source.arrays import array, scalar
from binlake.table.text.json_text import join, real
from binlake.table.text.json_values import raw_values
from binlake.table.text.sql_text import bytes_literal
from binlake.table.types.base import Buffers
from binlake.table.types.binary import BinaryType
from binlake.values.plan import ColumnPlan

_FLOAT_BYTES = 4


class VectorType(BinaryType):
    """VECTOR, or a column declared so."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        plan, _ = super().decide()
        # Spark names the items of an array "element"
        return plan, pa.list_(pa.field("element", pa.float32()))

    def padded_bytes(self) -> int:
        return 0

    def finish(self, buffers: Buffers) -> pa.Array:
        offsets = pa.Array.from_buffers(
            pa.int32(), buffers.count + 1, [None, pa.py_buffer(buffers.offsets)]
        )
        misfit = pc.not_equal(pc.bit_wise_and(offsets, scalar(_FLOAT_BYTES - 1)), scalar(0))
        if pc.any(misfit).as_py():
            row = pc.index(misfit, scalar(True)).as_py() - 1
            length = offsets[row + 1].as_py() - offsets[row].as_py()
            raise self._malformed(f"a vector of {length} bytes is not a list of floats", row)
        ordinals = pc.divide(offsets, scalar(_FLOAT_BYTES, pa.int32()))
        data = pa.py_buffer(buffers.data)
        floats = pa.Array.from_buffers(pa.float32(), len(data) // _FLOAT_BYTES, [None, data])
        validity = None if buffers.validity is None else pa.py_buffer(buffers.validity)
        return pa.Array.from_buffers(
            self.arrow_type,
            buffers.count,
            [validity, ordinals.buffers()[1]],
            buffers.null_count,
            children=[floats],
        )

    def to_json(self, values: pa.Array) -> ValueColumn:
        digits = real(values.flatten())
        lengths = pc.fill_null(pc.list_value_length(values), scalar(0, pa.int32()))
        ends = pc.cumulative_sum(lengths)
        offsets = pa.concat_arrays([array([0], pa.int32()), ends])
        lists = pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), digits)
        text = join("[", pc.binary_join(lists, scalar(",", pa.large_string())), "]")
        if values.null_count:
            text = pc.if_else(values.is_valid(), text, scalar(None, pa.large_string()))
        return raw_values(text)

    def content(self, value: Any) -> bytes:
        return struct.pack(f"<{len(value)}f", *value)

    def to_sql(self, values: pa.Array) -> pa.Array:
        return bytes_literal(_bytes_of(values))

    def sql_equal(self, values: pa.Array, literals: pa.Array) -> pa.Array:
        # MySQL does not compare vectors, but it compares their bytes
        return join(f"CAST({self.sql_name} AS BINARY) <=> ", literals)


def _bytes_of(values: pa.Array) -> pa.Array:
    """Lists of float32 as the server's bytes."""
    floats = values.flatten()
    start = floats.offset * _FLOAT_BYTES
    data = floats.buffers()[1].slice(start, len(floats) * _FLOAT_BYTES) if len(floats) else None
    lengths = pc.fill_null(pc.list_value_length(values), scalar(0, pa.int32())).cast(pa.int64())
    ends = pc.multiply(pc.cumulative_sum(lengths), scalar(_FLOAT_BYTES))
    offsets = pa.concat_arrays([array([0], pa.int64()), ends])
    raw = pa.Array.from_buffers(
        pa.large_binary(), len(values), [None, offsets.buffers()[1], data or pa.py_buffer(b"")]
    )
    return pc.if_else(values.is_valid(), raw, scalar(None, pa.large_binary()))
