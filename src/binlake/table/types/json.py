"""MySQL's JSON: the binary document rendered by the core as the server's own text.

MariaDB's JSON is LONGTEXT and is text here, too.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.text.text_rows import ValueColumn
from binlake.core.values.json_diff import MARK
from binlake.source.arrays import array, scalar
from binlake.table.text.json_sql import differences_sql, document_literals
from binlake.table.text.json_values import raw_values
from binlake.table.text.sql_text import string_literal
from binlake.table.types.base import Buffers, var_width
from binlake.table.types.binary import behind_prefix
from binlake.table.types.json_wire import document_bytes
from binlake.table.types.text import TextType
from binlake.values.plan import ColumnPlan, Kernel


class JsonType(TextType):
    """JSON: a string in the server's text; with the option nested, embedded in `rows`."""

    def decide(self) -> tuple[ColumnPlan, pa.DataType]:
        if not 1 <= self.column.length <= 4:
            return self._undecodable(f"a length of {self.column.length} bytes does not exist")
        return self._plan(Kernel.JSON, self.column.length), pa.string()

    def finish(self, buffers: Buffers) -> pa.Array:
        return var_width(pa.string(), buffers)  # the core writes valid UTF-8 only

    def to_json(self, values: pa.Array) -> ValueColumn:
        if not self.context.options.nested:
            return super().to_json(values)
        differs = pc.starts_with(values, MARK)
        if not pc.any(differs).as_py():
            return raw_values(values)
        # differences to an unknown document are not JSON
        quoted = [json.dumps(text, ensure_ascii=False) for text in values.to_pylist()]
        return raw_values(pc.if_else(differs, array(quoted, pa.string()), values))

    def to_wire(self, value: str) -> bytes:
        raise ValueError("a binary document does not follow from its text alone")

    def end_of_same(self, stored: memoryview, pos: int, value: Any) -> int:
        """Types come from the stored document, because its text does not show all of them.

        A document with gaps, from an update in place, is kept unchanged.
        """
        raw, end = behind_prefix(stored, pos, self.plan.p0)
        made = document_bytes(value, raw)
        return end if made == raw or len(made) < len(raw) else -1

    def to_sql(self, values: pa.Array) -> pa.Array:
        """Documents as JSON that every server accepts; differences as an expression that applies them to the column."""
        differs = pc.starts_with(values, MARK)
        if not pc.any(differs).as_py():
            return document_literals(values)
        made = [
            differences_sql(self.sql_name, text.as_py()) if differ.as_py() else None
            for text, differ in zip(values, differs, strict=True)
        ]
        documents = document_literals(pc.if_else(differs, scalar(None), values))
        return pc.if_else(differs, array(made, pa.large_string()), documents)

    def sql_equal(self, values: pa.Array, literals: pa.Array) -> pa.Array:
        """Compare by the server's text, because to a server, documents that differ only in a number's type are equal."""
        return self._sql_same_bytes(string_literal(values).fill_null("NULL"))
