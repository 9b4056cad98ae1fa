"""Keep the rows before an undecodable transaction: whole rows of whole transactions.

A walk that stops at an error leaves its sinks in the middle of a row, with rows of the transaction
in which it stopped. `cut` removes both, so the rows before them can be yielded before the error is
raised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.columns.sink import SinkBuffers
from binlake.core.images.image import ImageBuffers
from binlake.core.rows.table_sink import TableBuffers
from binlake.core.rows.walk import WalkedRows
from binlake.source.arrays import numbers, scalar


@dataclass(frozen=True, slots=True)
class RowCutoff:
    """From row change number `sequence` on, nothing at or after byte `pos` is kept."""

    sequence: int
    pos: int = 0


def cut(walked: WalkedRows, at: RowCutoff) -> WalkedRows:
    """Return the row changes before a cut, without tables that have none left.

    Counts of zero dates stay those of all rows: the invalid dates are not kept.
    """
    tables = []
    for sink, buffers in walked.tables:
        count = _first_beyond(buffers, at)
        if count:
            tables.append((sink, _cut_table(buffers, count)))
    return WalkedRows(walked.transactions, tuple(tables))


def transaction_of(walked: WalkedRows, table: TableBuffers, row: int) -> RowCutoff:
    """Return the cut that removes the transaction of a table's row, and everything after it."""
    transaction = numbers(pa.int32(), table.count, table.txn)[row]
    firsts = []
    for _, buffers in walked.tables:
        same = pc.equal(numbers(pa.int32(), buffers.count, buffers.txn), transaction)
        first = pc.index(same, scalar(True)).as_py()
        if first >= 0:
            firsts.append(numbers(pa.int64(), buffers.count, buffers.seq)[first].as_py())
    return RowCutoff(min(firsts))


def _first_beyond(buffers: TableBuffers, at: RowCutoff) -> int:
    """Return the index of the first row change that a cut removes; their number if it removes
    none.
    """
    beyond = pc.and_(
        pc.greater_equal(numbers(pa.int64(), buffers.count, buffers.seq), scalar(at.sequence)),
        pc.greater_equal(numbers(pa.int64(), buffers.count, buffers.pos), scalar(at.pos)),
    )
    first: int = pc.index(beyond, scalar(True)).as_py()
    return buffers.count if first < 0 else first


def _cut_table(buffers: TableBuffers, count: int) -> TableBuffers:
    before = _cut_image(buffers.before, count)
    after = _cut_image(buffers.after, count)
    return buffers._replace(count=count, before=before, after=after)


def _cut_image(buffers: ImageBuffers, count: int) -> ImageBuffers:
    validity, nulls = _cut_validity(buffers.validity, count)
    columns = tuple(
        None if column is None else _cut_column(column, count) for column in buffers.columns
    )
    presence = tuple(run for run in buffers.presence if run[0] < count)
    return ImageBuffers(count, nulls, validity, columns, presence)


def _cut_column(buffers: SinkBuffers, count: int) -> SinkBuffers:
    validity, nulls = _cut_validity(buffers.validity, count)
    offsets, data = buffers.offsets, buffers.data
    if offsets is not None:
        # an unfinished row may have left bytes after the last whole one
        offsets = offsets[: (count + 1) * 4]
        data = data[: numbers(pa.int32(), count + 1, offsets)[count].as_py()]
    return buffers._replace(
        count=count, null_count=nulls, validity=validity, offsets=offsets, data=data
    )


def _cut_validity(validity: Any, count: int) -> tuple[Any, int]:
    """Return the bitmap of the first `count` rows and its nulls; None if there are none."""
    if validity is None:
        return None, 0
    there = pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(validity)])
    nulls = count - (pc.sum(there).as_py() or 0)
    return (validity, nulls) if nulls else (None, 0)
