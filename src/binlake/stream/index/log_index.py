"""The index beside a log: where its transactions are, when they committed, what they changed.

    binlog.000012
    binlog.000012.index.parquet      of binlog.000012.zst too

The file has one row per committed transaction of one log (`COLUMNS`). Its metadata describe the
log at the time of indexing: its length, and digests of its first and last bytes. binlake ignores
an index that does not fit its log, and reports that.

An index saves reading; it never changes a result. It shows which bytes can be skipped: those of
*plain* transactions that no filter wants. All other bytes are read: the wanted transactions, and
everything that a reader has to see in any case (DDL, statements, XA, rolled back or damaged
transactions), none of which is plain. So a missing row costs time but loses nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from binlake.core.events.frames import HEADER_BYTES_V1
from binlake.format.magic import FIRST_EVENT
from binlake.source.arrays import array, scalar
from binlake.source.reader import ByteReader
from binlake.stream.filters import TransactionFilter
from binlake.values.gtid_filter import GtidFilter
from binlake.values.intervals import inside, intervals
from binlake.values.table_filter import TableFilter

if TYPE_CHECKING:
    pass

__all__ = ["COLUMNS", "ChosenBlocks", "LogIndex", "Passage", "Stamp", "passages_between"]

#: `pos` and `end_pos` are offsets in the log. `commit_us`, `duration_us`, `server_id`, `thread_id`
#: and `gtid` are the fields of the transaction. `inserts` … `bytes` are sums over all its tables;
#: `tables` are `database.table`. `plain`: it only changes rows, all of which are counted.
COLUMNS = pa.schema(
    [
        ("pos", pa.int64()),
        ("end_pos", pa.int64()),
        ("bytes", pa.int64()),
        ("commit_us", pa.int64()),
        ("duration_us", pa.int64()),
        ("server_id", pa.int64()),
        ("thread_id", pa.int64()),
        ("gtid", pa.string()),
        ("inserts", pa.int64()),
        ("updates", pa.int64()),
        ("deletes", pa.int64()),
        ("tables", pa.list_(pa.string())),
        ("plain", pa.bool_()),
    ]
)

_METADATA = b"binlake.log_index"
_VERSION = 1
_DIGEST_BYTES = 4096
# Opening a file in the middle costs about as much as reading this many bytes.
_WORTH_A_JUMP_BYTES = 256 << 10
# Read as dictionaries: a text may stand for any number of rows.
_TEXTS = ["gtid", "tables.list.element"]
# Two names of 64 characters, a server's id, a tag: what servers allow, with room to spare.
_MOST_TEXT_BYTES = 1 << 10
# The memory that an index may take whatever the size of its log.
_FREE_BYTES = 1 << 20
# Sets of more intervals are tested number by number.
_FEW_INTERVALS = 64


@dataclass(frozen=True, slots=True)
class Stamp:
    """Identifies a log among others, and detects that it has grown."""

    name: str
    bytes: int
    head: str
    tail: str

    @classmethod
    def of(cls, name: str, reader: ByteReader) -> Stamp | None:
        """Return the stamp of an open log; None if its length is not known (compressed logs).

        Raises SourceError.
        """
        size = reader.size
        if size is None:
            return None
        tail_at = max(0, size - _DIGEST_BYTES)
        return cls(name, size, cls.head_of(reader, size), _digest(reader, tail_at, size))

    @staticmethod
    def head_of(reader: ByteReader, size: int) -> str:
        """Return the digest of the first bytes of a log of `size` bytes. Raises SourceError."""
        return _digest(reader, 0, min(size, _DIGEST_BYTES))


def _digest(reader: ByteReader, start: int, end: int) -> str:
    return hashlib.sha256(reader.read_at(start, end - start)).hexdigest()


class Passage(NamedTuple):
    """Bytes [start, stop) of a log that have to be read; `stop` None: to its end. Both ends are
    between transactions.

    `passed` counts the transactions between the previous range and this one that pass all filters
    except those by table and operation.
    """

    start: int
    stop: int | None
    passed: int


class ChosenBlocks(NamedTuple):
    """Parts of a log that may have rows to read: of each table a set of blocks (bit n is block n, which has the
    transactions that start from `starts[n]` on; there is one at least). Tables that are not named may have rows in
    all blocks.
    """

    starts: Sequence[int]
    by_table: Mapping[str, int]


def passages_between(
    skipped: Iterable[tuple[int, int, int]], start: int | None, stop: int | None
) -> Iterator[Passage]:
    """Return the rest of bytes [start, stop) without the skipped ranges that are worth a jump: each has its first byte,
    the byte after it, and the number of transactions to count as passed.
    """
    at, passed = FIRST_EVENT if start is None else start, 0
    for pos, end, count in skipped:
        if end - pos < _WORTH_A_JUMP_BYTES:
            continue
        if at < pos:
            yield Passage(at, pos, passed)
            passed = 0
        at, passed = end, passed + count
    yield Passage(at, stop, passed)


class LogIndex:
    """An index in memory: `table` has columns of COLUMNS, in the order of `pos`."""

    def __init__(self, table: pa.Table, stamp: Stamp) -> None:
        self.table = table
        self.stamp = stamp

    # -- as a file -----------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The Parquet file."""
        about = {"version": _VERSION, "log": self.stamp.name, "bytes": self.stamp.bytes,
                 "head": self.stamp.head, "tail": self.stamp.tail}  # fmt: skip
        table = self.table.replace_schema_metadata({_METADATA: json.dumps(about).encode()})
        sink = pa.BufferOutputStream()
        numbers = ["pos", "end_pos", "bytes", "commit_us"]
        pq.write_table(
            table,
            sink,
            compression="zstd",
            write_page_checksum=True,
            use_dictionary=[name for name in COLUMNS.names if name not in (*numbers, "gtid")],
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        )
        return bytes(sink.getvalue())

    @classmethod
    def of_file(cls, source: Any, stamp: Stamp | None) -> LogIndex | None:
        """Read the Parquet file from its bytes; None if it is not the index of the log with this stamp.

        Raises ValueError if it is not an index of this version, and where it would take more memory than the log
        justifies: others may have made both.
        """
        try:
            with pq.ParquetFile(
                source, page_checksum_verification=True, read_dictionary=_TEXTS
            ) as file:
                if stamp is None or _stamp_of(file) != stamp:
                    return None
                _check_claims(file.metadata, stamp.bytes)
                read = file.read(use_threads=False).replace_schema_metadata(None)
            table = pa.table([_spread(read[name]) for name in read.column_names], read.column_names)
        except (pa.ArrowException, OSError, KeyError, TypeError, RecursionError) as error:
            raise ValueError("it is damaged or not an index") from error
        if not table.schema.equals(COLUMNS):
            raise ValueError("it has other columns")
        return cls(table, stamp)

    @staticmethod
    def committed_between(
        source: Any, stamp: Stamp, count: int, since_us: int | None, until_us: int | None
    ) -> int | None:
        """Return how many of the transactions in an index committed in [since_us, until_us); None if a time is not
        known, or if the index is not that of the log with a stamp and `count` transactions.

        It reads a column only where the least and the greatest time do not decide it. Raises ValueError as `of_file`.
        """
        try:
            with pq.ParquetFile(source, page_checksum_verification=True) as file:
                if _stamp_of(file) != stamp or file.metadata.num_rows != count:
                    return None
                bounds = _commit_bounds(file.metadata)
                if bounds is None:
                    return None
                least, most = bounds
                if (since_us is None or since_us <= least) and (
                    until_us is None or most < until_us
                ):
                    return count
                if (since_us is not None and most < since_us) or (
                    until_us is not None and until_us <= least
                ):
                    return 0
                times = file.read(["commit_us"], use_threads=False)["commit_us"]
        except (pa.ArrowException, OSError, KeyError, TypeError, RecursionError) as error:
            raise ValueError("it is damaged or not an index") from error
        inside = pc.greater_equal(times, scalar(least if since_us is None else since_us))
        if until_us is not None:
            inside = pc.and_(inside, pc.less(times, scalar(until_us)))
        return int(pc.sum(inside).as_py())

    # -- queries -------------------------------------------------------------------------------

    def passages(
        self,
        filters: TransactionFilter,
        tables: TableFilter | None,
        ordinal: int,
        start: int | None = None,
        stop: int | None = None,
        blocks: ChosenBlocks | None = None,
    ) -> Iterator[Passage]:
        """Return the ranges of the log, file `ordinal` of its chain, that have to be read; near
        ranges are joined.

        The ranges lie in bytes [start, stop), both of which are between transactions, or the ends
        of the log. `blocks` are those that the key index beside the log leaves.
        """
        wanted = chosen = self._chosen(filters, ordinal)
        if tables is not None or blocks is not None:
            wanted = pc.and_(chosen, self._changes(tables, blocks))
        skipped = pc.and_(self.table["plain"], pc.invert(wanted))
        if start is not None:
            skipped = pc.and_(skipped, pc.greater_equal(self.table["pos"], scalar(start)))
        if stop is not None:
            skipped = pc.and_(skipped, pc.less_equal(self.table["end_pos"], scalar(stop)))
        rows = self.table.select(["pos", "end_pos"]).append_column("chosen", chosen)
        yield from passages_between(_stretches(rows.filter(skipped)), start, stop)

    def find(self, gtid: str) -> dict[str, Any] | None:
        """Return the row of a transaction by its GTID, or None."""
        at = pc.index(self.table["gtid"], scalar(gtid)).as_py()
        if at < 0:
            return None
        row: dict[str, Any] = self.table.slice(at, 1).to_pylist()[0]
        return row

    def _changes(self, tables: TableFilter | None, blocks: ChosenBlocks | None) -> pa.Array:
        """Return for each transaction whether it changes such a table, in one of the blocks."""
        lists = self.table["tables"].combine_chunks()
        names, parents = lists.flatten(), pc.list_parent_indices(lists)
        wanted = [
            name
            for name in pc.unique(names).to_pylist()
            if tables is None or tables.wants(*name.split(".", 1))
        ]
        hits = pc.is_in(names, value_set=array(wanted, pa.string()))
        if blocks is not None:
            block_of = _block_of(self.table["pos"], blocks.starts).take(parents)
            for name in set(wanted).intersection(blocks.by_table):
                has = [bool(blocks.by_table[name] >> n & 1) for n in range(len(blocks.starts))]
                inside = array(has, pa.bool_()).take(block_of)
                other = pc.not_equal(names, scalar(name))
                hits = pc.and_(hits, pc.or_(other, inside))
        rows = pc.unique(parents.filter(hits))
        return pc.is_in(self._ordinals, value_set=rows.cast(pa.int64()))

    @cached_property
    def _ordinals(self) -> pa.Array:
        return array(range(self.table.num_rows), pa.int64())

    def _chosen(self, filters: TransactionFilter, ordinal: int) -> pa.ChunkedArray:
        """Return for each transaction whether the filters by time, position, GTID, server and
        thread keep it.
        """
        rows = self.table
        mask = pc.is_valid(rows["pos"])
        if filters.since_us is not None:
            mask = pc.and_(mask, pc.greater_equal(rows["commit_us"], scalar(filters.since_us)))
        if filters.until_us is not None:
            mask = pc.and_(mask, pc.less(rows["commit_us"], scalar(filters.until_us)))
        if filters.start is not None and filters.start.ordinal == ordinal:
            mask = pc.and_(mask, pc.greater_equal(rows["pos"], scalar(filters.start.offset)))
        if filters.stop is not None and filters.stop.ordinal == ordinal:
            mask = pc.and_(mask, pc.less(rows["pos"], scalar(filters.stop.offset)))
        if filters.at is not None and filters.at.ordinal == ordinal:
            at = scalar(filters.at.offset)
            around = pc.and_(pc.less_equal(rows["pos"], at), pc.greater_equal(rows["end_pos"], at))
            mask = pc.and_(mask, around)
        if filters.server_ids:
            servers = array(sorted(filters.server_ids), pa.int64())
            mask = pc.and_(mask, pc.is_in(rows["server_id"], value_set=servers))
        if filters.thread_ids:
            threads = array(sorted(filters.thread_ids), pa.int64())
            known = pc.is_in(rows["thread_id"], value_set=threads)
            # read even if its thread is unknown, because that is reported
            mask = pc.and_(mask, pc.or_(known, pc.is_null(rows["thread_id"])))
        for gtids in (filters.gtids, filters.at_gtid):
            if gtids is not None:
                mask = pc.and_(mask, self._gtids_in(gtids))
        if filters.excluded_gtids is not None:
            mask = pc.and_(mask, pc.invert(self._gtids_in(filters.excluded_gtids)))
        return mask

    def _gtids_in(self, gtids: GtidFilter) -> pa.ChunkedArray:
        """Return for each transaction whether its GTID is in a set."""
        source, number = self._gtid_parts
        result = pc.and_(pc.is_valid(source), scalar(False))
        for name in pc.unique(source).to_pylist():
            if name is not None:
                bounds = gtids.bounds_of(name)
                if bounds:
                    mine = pc.equal(source, scalar(name)).fill_null(scalar(False))
                    result = pc.or_(result, pc.and_(mine, _inside(number, bounds)))
        return result

    @cached_property
    def _gtid_parts(self) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """Return for each GTID its source and its number (null: no GTID)."""
        pattern = r"^(?P<source>.*)[:-](?P<number>\d+)$"
        parts = pc.extract_regex(self.table["gtid"], pattern)
        source, number = pc.struct_field(parts, "source"), pc.struct_field(parts, "number")
        return source, number.cast(pa.uint64())


def _stamp_of(file: pq.ParquetFile) -> Stamp:
    """Return the stamp in an index. Raises ValueError for another version, KeyError, TypeError."""
    about = json.loads((file.schema_arrow.metadata or {})[_METADATA])
    if about["version"] != _VERSION:
        raise ValueError(f"its version is {about['version']}")
    return Stamp(about["log"], about["bytes"], about["head"], about["tail"])


def _check_claims(metadata: pq.FileMetaData, log_bytes: int) -> None:
    """Raise ValueError for more transactions, names or bytes than there can be in the index of such a log."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    values = sum(
        group.column(place).num_values for group in groups for place in range(group.num_columns)
    )
    if (
        metadata.num_rows > log_bytes // HEADER_BYTES_V1
        or values > len(COLUMNS) * log_bytes
        or sum(group.total_byte_size for group in groups) > _FREE_BYTES + 8 * log_bytes
    ):
        raise ValueError("it claims more than its log can contain")


def _spread(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with its texts in full. Raises ValueError if one is too long to be a name or a GTID: it may
    stand for every row.
    """
    kind = column.type
    is_list = pa.types.is_list(kind)
    if not pa.types.is_dictionary(kind.value_type if is_list else kind):
        return column
    for chunk in column.chunks:
        texts = (chunk.values if is_list else chunk).dictionary
        if (pc.max(pc.binary_length(texts)).as_py() or 0) > _MOST_TEXT_BYTES:
            raise ValueError("it contains a name that is too long")
    return column.cast(pa.list_(pa.string()) if is_list else pa.string())


def _commit_bounds(metadata: pq.FileMetaData) -> tuple[int, int] | None:
    """Return the least and the greatest commit time; None if one is not known."""
    column = COLUMNS.names.index("commit_us")
    if metadata.num_columns <= column:
        return None
    bounds: list[int] = []
    for group in range(metadata.num_row_groups):
        part = metadata.row_group(group).column(column)
        found = part.statistics
        if part.path_in_schema != "commit_us" or found is None:
            return None
        if found.null_count != 0 or not found.has_min_max:
            return None
        bounds += (found.min, found.max)
    return (min(bounds), max(bounds)) if bounds else None


def _block_of(starts_of: pa.ChunkedArray, starts: Sequence[int]) -> pa.Array:
    """Return for each transaction the number of its block; for one between blocks that of the block before it,
    which has its keys, too.
    """
    after = pc.search_sorted(array(starts, pa.int64()), starts_of.combine_chunks(), side="right")
    return pc.max_element_wise(pc.subtract(after.cast(pa.int64()), scalar(1)), scalar(0))


def _inside(numbers: pa.ChunkedArray, bounds: list[int]) -> pa.ChunkedArray:
    if len(bounds) > 2 * _FEW_INTERVALS:
        found = [number is not None and inside(bounds, number) for number in numbers.to_pylist()]
        return pa.chunked_array([array(found, pa.bool_())])
    result = pa.chunked_array([array([False] * len(numbers), pa.bool_())])
    for start, end in intervals(bounds):
        low = pc.greater_equal(numbers, scalar(start, pa.uint64()))
        high = pc.less_equal(numbers, scalar(end - 1, pa.uint64()))
        result = pc.or_(result, pc.and_(low, high).fill_null(scalar(False)))
    return result


def _stretches(rows: pa.Table) -> Iterator[tuple[int, int, int]]:
    """Return contiguous rows as (pos of the first, end_pos of the last, number of `chosen` rows)."""
    if not rows.num_rows:
        return
    columns = (rows[name].to_pylist() for name in ("pos", "end_pos", "chosen"))
    start = end = counts = 0
    for pos, stop, chosen in zip(*columns, strict=True):
        if pos != end:
            if end:
                yield start, end, counts
            start, counts = pos, 0
        end = stop
        counts += chosen
    yield start, end, counts
