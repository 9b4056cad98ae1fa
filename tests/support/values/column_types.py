"""Column types made by hand, and wire bytes through their kernels to arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from binlake.core.columns.sink import make_sink
from binlake.core.text.text_rows import RowTemplate
from binlake.table.text.json_values import as_array
from binlake.table.types.base import ColumnContext, ColumnType, Target
from binlake.table.types.missing_metadata import missing_sentence
from binlake.table.types.registry import column_type
from binlake.values.options import ReadOptions
from binlake.values.plan import ColumnDefinition, NameSource, TableDefinition

__all__ = ["array_of", "json_texts", "kind_of"]


def kind_of(
    target: Target, code: int, options: ReadOptions | None = None, **column: Any
) -> tuple[ColumnType, list[str]]:
    """The type of a column `shop.t.c`, and what it warns of."""
    definition = ColumnDefinition(0, "c", code, **column)
    table = TableDefinition("shop", "t", (definition,))
    warnings: list[str] = []
    context = ColumnContext(table, options or ReadOptions(), target, warnings.append)
    kind = column_type(definition, context)
    named = replace(table, name_source=NameSource.METADATA)
    sentence = missing_sentence(named, context.missing)
    if sentence is not None:
        warnings.append(sentence)
    return kind, warnings


def array_of(kind: ColumnType, *values: bytes) -> pa.Array:
    """The values that the kernel and `finish` make from wire values."""
    made = kind.finish(make_sink(kind.plan).decode(b"".join(values), len(values)))
    made.validate(full=True)
    assert made.type == kind.arrow_type
    return made


def json_texts(kind: ColumnType, values: pa.Array) -> list[str]:
    """The JSON value of each value of an array."""
    template = RowTemplate(len(values))
    template.add(b"", kind.to_json(values))
    texts: list[str] = as_array(template).to_pylist()
    return texts
