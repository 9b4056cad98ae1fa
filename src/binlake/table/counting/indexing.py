"""Make the index of a log (`stream/index/log_index.py`): one pass over it, rows counted, not
decoded.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.counting.change_sums import tables_by_transaction
from binlake.errors import UnsupportedError
from binlake.source.access import Access
from binlake.source.arrays import array, int64_array, integers
from binlake.source.chain import Chain, LogPath
from binlake.source.grouping import operations_summed
from binlake.stream.index.index_columns import COLUMNS, Stamp
from binlake.stream.index.log_index import LogIndex
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Transaction
from binlake.table.batches import OPERATIONS
from binlake.table.counting.counted import CountedBatch
from binlake.table.counting.run_counts import RunCounter
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions


def index_of(path: LogPath, options: ReadOptions | None = None) -> LogIndex:
    """Read and verify a whole log; return the index of its transactions.

    `options` have keys and schema, and no filter. Raises BinlogError: a damaged log has no index.
    Raises UnsupportedError for relay logs, whose transactions continue in other files, for logs
    whose events do not record their end, and for logs without a beginning.
    """
    options = options or ReadOptions()
    with Access.of(options).open(path) as log:
        if log.format is None:
            raise UnsupportedError(
                f"{path.path} cannot have an index: it is empty or has no complete beginning"
            )
        stamp = Stamp.of(log.name, log.reader)
        if stamp is None or not log.is_splittable:
            raise UnsupportedError(
                f"{path.path} cannot have an index: it is a relay log, compressed, or older than"
                " MySQL 5.0"
            )
        end = log.reader.pinned(stamp.bytes)  # in an encrypted file, more
    # a growing log is indexed up to its length when its stamp was taken
    pinned = LogPath(path.path, path.name, path.number, end)
    return LogIndex.of_rows(_parts(Chain(pinned.base, (pinned,)), options), stamp)


def _parts(chain: Chain, options: ReadOptions) -> Iterator[pa.Table]:
    """Return the rows of the index, in the order of the log."""
    ledger = Ledger()
    (reader,) = LogReader.of_chains([chain], options, ledger)
    counter = RunCounter(options, ledger)
    special: set[int] = set()  # starts of transactions that are more than their rows
    elsewhere: set[int] = set()  # starts of those that XA decides in another place
    for run in reader.runs(counter.on_ddl):
        if isinstance(run, Transaction):
            if run.xa_xid is not None:
                elsewhere.add(run.start.offset)
            elif run.statements or run.is_remarked:
                special.add(run.start.offset)
        for batch in counter.add(run):
            yield _rows(batch, special, elsewhere)
    for batch in counter.finish():
        yield _rows(batch, special, elsewhere)


def _rows(batch: CountedBatch, special: set[int], elsewhere: set[int]) -> pa.Table:
    """Return the transactions of a batch as rows of the index, and forget which of them are special or elsewhere."""
    counted = batch.transactions
    is_special = _among(counted["pos"], special)
    is_elsewhere = _among(counted["pos"], elsewhere)
    columns = {
        **{name: counted[name] for name in COLUMNS.names if name in counted.column_names},
        **_counts(batch),
        "tables": _tables(batch),
        "plain": pc.and_(pc.invert(is_special), counted["counted"]),
    }
    rows = pa.table({name: columns[name] for name in COLUMNS.names}).cast(COLUMNS)
    return rows.filter(pc.invert(is_elsewhere))


def _among(positions: pa.ChunkedArray, some: set[int]) -> pa.ChunkedArray:
    """Return which positions are among some, and remove those from the set: each transaction is in one batch."""
    found = pc.is_in(positions, value_set=array(list(some), pa.int64()))
    some.difference_update(positions.filter(found).to_pylist())
    return found


def _counts(batch: CountedBatch) -> dict[str, pa.Array]:
    """Return the rows of each transaction by operation."""
    counts = operations_summed(batch.changes, batch.transactions.num_rows)
    return {f"{operation}s": rows for operation, rows in zip(OPERATIONS, counts, strict=True)}


def _tables(batch: CountedBatch) -> pa.Array:
    """Return the names of each transaction's tables, as lists in alphabetical order."""
    names = sorted(batch.tables)
    ranks = {name: rank for rank, name in enumerate(names)}
    rank = array([ranks[name] for name in batch.tables], pa.int64())
    offsets, shown = tables_by_transaction(
        integers(batch.changes["transaction"]),
        integers(rank.take(batch.changes["table"])),
        batch.transactions.num_rows,
        len(names),
    )
    return pa.ListArray.from_arrays(
        int64_array(offsets).cast(pa.int32()),
        array(names, pa.string()).take(int64_array(shown)),
    )
