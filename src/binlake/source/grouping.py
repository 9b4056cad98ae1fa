"""Sums by an integer key, with Arrow's array kernels, and sums by transaction.

`pyarrow.Table.group_by` imports pandas if it is installed, which takes longer than reading a small
log.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.counting.change_sums import rows_by_transaction
from binlake.source.arrays import array, int64_array, integers, scalar

#: Columns of `summed` beside the sums.
KEY, COUNT = "key", "count"

_ONE = scalar(1)


def summed(
    key: pa.Array | pa.ChunkedArray, columns: Mapping[str, pa.Array | pa.ChunkedArray]
) -> pa.Table:
    """Count the rows with each key and sum up their values in the columns.

    All are int64 without nulls. The keys (column KEY) are in ascending order.
    """
    rows = pa.table({KEY: key, COUNT: pa.repeat(_ONE, len(key)), **columns}).combine_chunks()
    rows = _neighbours_summed(rows)  # most rows with the same key follow one another
    return _neighbours_summed(rows.take(pc.sort_indices(rows[KEY])))


def operations_summed(changes: pa.Table, transactions: int) -> list[pa.Array]:
    """Return the inserts, the updates and the deletes of each transaction, from the columns `transaction` (a number
    below `transactions`), `op` and `rows` of changes.
    """
    transaction, op, rows = (integers(changes[name]) for name in ("transaction", "op", "rows"))
    return list(map(int64_array, rows_by_transaction(transaction, op, rows, transactions)))


def _neighbours_summed(rows: pa.Table) -> pa.Table:
    """Sum up rows that follow one another and have the same key."""
    if not rows.num_rows:
        return rows
    encoded = pc.run_end_encode(rows[KEY].combine_chunks())
    last = pc.subtract(encoded.run_ends.cast(pa.int64()), _ONE)
    if len(last) == rows.num_rows:
        return rows
    none = array([0], pa.int64())
    sums = {KEY: encoded.values}
    for name in rows.column_names[1:]:
        reached = pc.cumulative_sum(rows[name].combine_chunks()).take(last)
        sums[name] = pc.subtract(reached, pa.concat_arrays([none, reached[:-1]]))
    return pa.table(sums)
