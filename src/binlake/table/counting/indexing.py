"""Make the index of a log (`stream/index/log_index.py`): one pass over it, rows counted, not
decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import UnsupportedError
from binlake.source.access import Access
from binlake.source.arrays import array, scalar, table
from binlake.source.chain import Chain, LogPath
from binlake.source.grouping import COUNT, KEY, summed
from binlake.stream.index.log_index import COLUMNS, LogIndex, Stamp
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Transaction
from binlake.table.batches import OPERATIONS
from binlake.table.counting.counted import CountedBatch
from binlake.table.counting.run_counts import RunCounter
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["index_of"]


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
    parts = [table([], COLUMNS), *_parts(Chain(pinned.base, (pinned,)), options)]
    return LogIndex(pa.concat_tables(parts).sort_by("pos").combine_chunks(), stamp)


def _parts(chain: Chain, options: ReadOptions) -> Iterator[pa.Table]:
    """Rows of the index, in the order of the log."""
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
    """Return the transactions of a batch as rows of the index."""
    counted = batch.transactions
    plain = pc.invert(pc.is_in(counted["pos"], value_set=array(sorted(special), pa.int64())))
    columns = {
        **{name: counted[name] for name in COLUMNS.names if name in counted.column_names},
        **_counts(batch),
        "tables": _tables(batch),
        "plain": pc.and_(plain, counted["counted"]),
    }
    rows = pa.table({name: columns[name] for name in COLUMNS.names}).cast(COLUMNS)
    decided = pc.is_in(rows["pos"], value_set=array(sorted(elsewhere), pa.int64()))
    return rows.filter(pc.invert(decided))


def _counts(batch: CountedBatch) -> dict[str, pa.Array]:
    """Return the rows of each transaction by operation."""
    ordinals = array(range(batch.transactions.num_rows), pa.int64())
    counts = {}
    for number, operation in enumerate(OPERATIONS):
        mine = batch.changes.filter(pc.equal(batch.changes["op"], scalar(number)))
        sums = summed(mine["transaction"], {"rows": mine["rows"]}).combine_chunks()
        place = pc.index_in(ordinals, sums[KEY].combine_chunks())
        counts[f"{operation}s"] = pc.fill_null(sums["rows"].combine_chunks().take(place), scalar(0))
    return counts


def _tables(batch: CountedBatch) -> pa.Array:
    """Return the names of each transaction's tables, as lists in alphabetical order."""
    names = sorted(batch.tables)
    ranks = {name: rank for rank, name in enumerate(names)}
    rank = array([ranks[name] for name in batch.tables], pa.int64())
    tables = scalar(max(len(names), 1))
    place = pc.add(
        pc.multiply(batch.changes["transaction"], tables), rank.take(batch.changes["table"])
    )
    pairs = summed(place, {})[KEY].combine_chunks()
    transaction = pc.divide(pairs, tables)
    counts = summed(transaction, {})
    sizes = [0] * batch.transactions.num_rows
    for number, count in zip(counts[KEY].to_pylist(), counts[COUNT].to_pylist(), strict=True):
        sizes[number] = count
    offsets = [0, *accumulate(sizes)]
    shown = pc.subtract(pairs, pc.multiply(transaction, tables))
    return pa.ListArray.from_arrays(
        array(offsets, pa.int32()), array(names, pa.string()).take(shown)
    )
