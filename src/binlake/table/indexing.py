"""Making the index of a log (`stream/log_index.py`): one pass over it, rows counted, not decoded."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import UnsupportedError
from binlake.source.chain import Chain, LogPath
from binlake.source.keyring import Keyring
from binlake.source.log_file import LogFile
from binlake.stream.log_index import COLUMNS, LogIndex, Stamp
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Transaction
from binlake.table.batches import OPERATIONS
from binlake.table.counted import CountedBatch
from binlake.table.run_counts import RunCounter
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

__all__ = ["index_of"]


def index_of(path: LogPath, options: ReadOptions | None = None) -> LogIndex:
    """Read a whole log, verify it, and say where its transactions are.

    `options` give keys and schema, and no filter. Raises BinlogError: a damaged log has no index.
    UnsupportedError for relay logs, whose transactions go on in other files, for logs that
    tell not of each event where it ends, and for those without a beginning.
    """
    options = options or ReadOptions()
    with LogFile.open(path, keyring=Keyring.of(options)) as log:
        if log.format is None:
            raise UnsupportedError(
                f"{path.path} cannot have an index: it is empty, or cut off at its beginning"
            )
        stamp = Stamp.of(log.name, log.reader)
        if stamp is None or not log.is_splittable:
            raise UnsupportedError(
                f"{path.path} cannot have an index: it is a relay log, compressed, or older than"
                " MySQL 5.0"
            )
        end = log.size
    # a log that grows is indexed as far as it was when its stamp was taken
    pinned = LogPath(path.path, path.name, path.number, end)
    parts = [COLUMNS.empty_table(), *_parts(Chain(pinned.base, (pinned,)), options)]
    return LogIndex(pa.concat_tables(parts).sort_by("pos").combine_chunks(), stamp)


def _parts(chain: Chain, options: ReadOptions) -> Iterator[pa.Table]:
    ledger = Ledger()
    (reader,) = LogReader.of_chains([chain], options, ledger)
    counter = RunCounter(options, ledger)
    special: set[int] = set()  # starts of transactions that are more than their rows
    elsewhere: set[int] = set()  # starts of those that XA decides in another place
    warnings = 0
    for run in reader.runs(counter.on_ddl):
        if isinstance(run, Transaction):
            if run.xa_xid is not None:
                elsewhere.add(run.start.offset)
            elif run.statements or len(ledger.warnings) > warnings:
                special.add(run.start.offset)
        for batch in counter.add(run):
            yield _rows(batch, special, elsewhere)
        warnings = len(ledger.warnings)
    for batch in counter.finish():
        yield _rows(batch, special, elsewhere)


def _rows(batch: CountedBatch, special: set[int], elsewhere: set[int]) -> pa.Table:
    """Transactions of a batch as rows of the index."""
    table = batch.transactions
    plain = pc.invert(pc.is_in(table["pos"], value_set=pa.array(sorted(special), pa.int64())))
    columns = {
        **{name: table[name] for name in COLUMNS.names if name in table.column_names},
        **_counts(batch),
        "tables": _tables(batch),
        "plain": pc.and_(plain, table["counted"]),
    }
    rows = pa.table({name: columns[name] for name in COLUMNS.names}).cast(COLUMNS)
    decided = pc.is_in(rows["pos"], value_set=pa.array(sorted(elsewhere), pa.int64()))
    return rows.filter(pc.invert(decided))


def _counts(batch: CountedBatch) -> dict[str, pa.Array]:
    """Rows of each transaction by operation."""
    ordinals = pa.array(range(batch.transactions.num_rows), pa.int64())
    counts = {}
    for number, operation in enumerate(OPERATIONS):
        mine = batch.changes.filter(pc.equal(batch.changes["op"], number))
        sums = mine.group_by("transaction").aggregate([("rows", "sum")])
        place = pc.index_in(ordinals, sums["transaction"].combine_chunks())
        counts[f"{operation}s"] = pc.fill_null(sums["rows_sum"].combine_chunks().take(place), 0)
    return counts


def _tables(batch: CountedBatch) -> pa.Array:
    """The names of each transaction's tables, as lists."""
    pairs = batch.changes.group_by(["transaction", "table"]).aggregate([])
    pairs = pairs.sort_by([("transaction", "ascending"), ("table", "ascending")])
    counts = pairs["transaction"].value_counts() if pairs.num_rows else None
    sizes = [0] * batch.transactions.num_rows
    if counts is not None:
        for found in counts.to_pylist():
            sizes[found["values"]] = found["counts"]
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    names = pa.array(batch.tables, pa.string()).take(pairs["table"].combine_chunks())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), names)
