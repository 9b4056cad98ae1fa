"""The rows of a state for which the option where is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import OptionError, UnsupportedError
from binlake.source.arrays import array, scalar
from binlake.state.shape import TableShape
from binlake.table.batches import RowFacts, TableChanges
from binlake.table.images import Image
from binlake.table.where.choosing import WhereRowsNow
from binlake.table.where.images import Rows
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.where import ROW, column_names, parse_where


def check_where(where: str | None) -> None:
    """Raise OptionError for a wrong expression, and for one about changes: a state has rows."""
    if where is None:
        return
    ReadOptions.parse({"where": where})
    if any(name.image != ROW for name in column_names(parse_where(where))):
        raise OptionError(
            "option where: the condition of a state cannot use before, after or changed()",
            name="where",
        )


def row_filter(
    where: str | None, shape: TableShape, options: ReadOptions, ledger: Ledger
) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return a filter that keeps the matching rows of a batch. Raises OptionError for a wrong column or type."""
    if where is None:
        return lambda batch: batch
    options = replace(options, where=where, table=(shape.full_name,))
    bound = WhereRowsNow(options).bind(shape.types, ledger)
    assert bound is not None, "a missing column of the only table is an error"

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        truth = bound.truth(Rows(_as_inserts(shape, batch)))
        for doubt, places in truth.doubts.items():
            if pc.any(places).as_py():
                raise UnsupportedError(f"option where: {doubt.sentence}")
        return batch.filter(pc.fill_null(truth.value, scalar(False)))

    return keep


def image_of(shape: TableShape, batch: pa.RecordBatch) -> Image:
    """Rows as whole images."""
    return Image(shape.types, batch.num_rows, batch.columns, None, [_bitmap(shape)], None)


def _bitmap(shape: TableShape) -> bytes:
    return b"\xff" * ((len(shape.definition.columns) + 7) // 8)


def _as_inserts(shape: TableShape, batch: pa.RecordBatch) -> TableChanges:
    count = batch.num_rows
    nothing = [pa.nulls(count, column.type) for column in batch.columns]
    absent = pa.repeat(scalar(False), count)
    before = Image(shape.types, count, nothing, absent, [_bitmap(shape)], None)
    zeros = array([0] * count, pa.int64())
    facts = RowFacts(zeros.cast(pa.uint8()), *[zeros] * 8)
    return TableChanges(shape.types, count, facts, before, image_of(shape, batch))
