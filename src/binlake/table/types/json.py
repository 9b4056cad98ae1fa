"""MySQL's JSON: the binary document rendered by the core as the server's own text.

MariaDB's JSON is LONGTEXT and is text here, too.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.json_diff import MARK
from binlake.table.types.binary import behind_prefix
from binlake.table.types.text import TextType
from binlake.values.plan import ColumnPlan, Kernel

__all__ = ["JsonType"]


class JsonType(TextType):
    """JSON: a string in the server's text; with the option nested, embedded in `rows`."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        if not 1 <= self.column.length <= 4:
            return self._undecodable(f"a length of {self.column.length} bytes does not exist")
        return self._plan(Kernel.JSON, self.column.length), pa.string()

    def to_json(self, values: pa.Array) -> pa.Array:
        text = super().to_json(values)
        if not self.context.options.nested:
            return text
        # differences whose document is not known are no JSON themselves
        return pc.if_else(pc.starts_with(values, MARK), text, values.cast(pa.large_string()))

    def to_wire(self, value: str) -> bytes:
        raise ValueError("a binary document does not follow from its text")

    def end_of_same(self, stored: memoryview, pos: int, value: Any) -> int:
        """Its bytes are kept: text does not tell a date from a string, or a gap in a document."""
        return behind_prefix(stored, pos, self.plan.p0)[1]
