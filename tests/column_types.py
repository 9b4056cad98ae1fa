"""Column types made by hand, and wire bytes through their kernels to arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from binlake.core.sinks import make_sink
from binlake.table.types.base import ColumnContext, ColumnType, Target
from binlake.table.types.registry import column_type
from binlake.table.untold import untold_sentence
from binlake.values.options import ReadOptions
from binlake.values.plan import ColumnDefinition, NameSource, TableDefinition

__all__ = ["array_of", "kind_of"]


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
    sentence = untold_sentence(named, context.untold)
    if sentence is not None:
        warnings.append(sentence)
    return kind, warnings


def array_of(kind: ColumnType, *values: bytes) -> pa.Array:
    """What the kernel and `finish` make of wire values."""
    made = kind.finish(make_sink(kind.plan).decode(b"".join(values), len(values)))
    made.validate(full=True)
    assert made.type == kind.arrow_type
    return made
