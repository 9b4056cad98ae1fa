"""The common parts of all comparisons: Arrow's functions by operator, and tests of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import scalar

Operator = Literal["=", "<", "<=", ">", ">="]

#: A comparison of two arrays, bool or null per row; of a column and a constant, without the second.
Test = Callable[[pa.Array, pa.Array | None], pa.Array]

COMPARE: dict[str, Callable[[pa.Array, pa.Array | pa.Scalar | None], pa.Array]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def constant(values: pa.Array, result: bool) -> pa.Array:
    """Return `result` for every value, and null for null."""
    return pc.if_else(pc.is_valid(values), scalar(result), scalar(None, pa.bool_()))
