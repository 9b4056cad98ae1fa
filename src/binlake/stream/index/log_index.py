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

from binlake.format.magic import FIRST_EVENT
from binlake.source.arrays import array, scalar
from binlake.source.reader import ByteReader
from binlake.stream.filters import TransactionFilter
from binlake.stream.index.parquet_footer import Footer
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
# The shortest event that commits, an XID event, has 27. Logs of MySQL 4.1 and older have no index.
_LEAST_TRANSACTION_BYTES = 24
# Sets of more intervals are tested number by number.
_FEW_INTERVALS = 64
_DAMAGED = "it is damaged or not an index"
_TOO_MUCH = "it claims more than its log can contain"

# The columns as elements of a Parquet schema: physical type, repetition (1: optional, 2: repeated), name, children.
_INT64_BYTES = 8
_PHYSICAL = {pa.int64(): 2, pa.string(): 6, pa.bool_(): 0}
_LEVELS = (b"list", b"element")
_SHAPE: list[tuple[Any, ...]] = [(None, 0, b"schema", len(COLUMNS))]
for _field in COLUMNS:
    _name = _field.name.encode()
    if pa.types.is_list(_field.type):
        _SHAPE += [(None, 1, _name, 1), (None, 2, b"list", 1), (6, 1, b"element", None)]
    else:
        _SHAPE.append((_PHYSICAL[_field.type], 1, _name, None))
_PATHS = tuple(
    (field.name.encode(), *(_LEVELS if pa.types.is_list(field.type) else ())) for field in COLUMNS
)
_COMMIT_TIMES = (b"commit_us",)


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
    def of_file(cls, data: memoryview, stamp: Stamp | None) -> LogIndex | None:
        """Read the Parquet file from its bytes; None if it is not the index of the log with this stamp.

        Raises ValueError if it is not an index of this version, and where it would take more memory than the log
        justifies: others may have made both.
        """
        footer = Footer(lambda start, end: bytes(data[start:end]), len(data))
        if stamp is None or _stamp_of(footer) != stamp:
            return None
        _check_claims(footer, stamp.bytes)
        read = _read(footer, data, stamp.bytes)
        try:
            table = pa.table(
                [_spread(read[name], stamp.bytes) for name in read.column_names], read.column_names
            )
        except (pa.ArrowException, KeyError, TypeError) as error:
            raise ValueError(_DAMAGED) from error
        if not table.schema.equals(COLUMNS):
            raise ValueError("it has other columns")
        return cls(table, stamp)

    @staticmethod
    def committed_between(
        file: pa.NativeFile, stamp: Stamp, count: int, since_us: int | None, until_us: int | None
    ) -> int | None:
        """Return how many of the transactions in an index committed in [since_us, until_us); None if a time is not
        known, or if the index is not that of the log with a stamp and `count` transactions.

        It reads the column of times only where the least and the greatest time do not decide it, and never another
        one. Raises OSError, and ValueError as `of_file`.
        """
        footer = Footer(lambda start, end: bytes(file.read_at(end - start, start)), file.size())
        if _stamp_of(footer) != stamp or footer.rows != count:
            return None
        _check_claims(footer, stamp.bytes)
        bounds = _commit_bounds(footer)
        if bounds is None:
            return None
        least, most = bounds
        if (since_us is None or since_us <= least) and (until_us is None or most < until_us):
            return count
        if (since_us is not None and most < since_us) or (
            until_us is not None and until_us <= least
        ):
            return 0
        data = memoryview(bytearray(footer.start))
        for chunk in footer.chunks(_COMMIT_TIMES):
            # a ValueError if the file has become shorter
            data[chunk.start : chunk.end] = file.read_at(chunk.end - chunk.start, chunk.start)
        times = _read(footer, data, stamp.bytes, _COMMIT_TIMES)["commit_us"]
        if times.type != pa.int64():
            raise ValueError("it has other columns")
        inside = pc.greater_equal(times, scalar(least if since_us is None else since_us))
        if until_us is not None:
            inside = pc.and_(inside, pc.less(times, scalar(until_us)))
        return int(pc.sum(inside).as_py() or 0)

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


def _stamp_of(footer: Footer) -> Stamp:
    """Return the stamp in an index. Raises ValueError, also for another version."""
    try:
        about = json.loads(footer.metadata[_METADATA])
        if about["version"] != _VERSION:
            raise ValueError(f"its version is {about['version']}")
        return Stamp(about["log"], about["bytes"], about["head"], about["tail"])
    except (KeyError, TypeError, RecursionError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(_DAMAGED) from error


def _check_claims(footer: Footer, log_bytes: int) -> None:
    """Raise ValueError for a footer that does not describe an index, or claims more than a log of this length
    justifies. Pages may have any number of values for a few bytes, and Arrow reserves memory for all of them.
    """
    if footer.schema != _SHAPE or any(
        tuple(chunk.path for chunk in group) != _PATHS for group in footer.groups
    ):
        raise ValueError("it has other columns")
    if (
        footer.rows > log_bytes // _LEAST_TRANSACTION_BYTES
        or sum(chunk.values for chunk in footer.chunks() if len(chunk.path) > 1) > log_bytes
        or footer.start > _FREE_BYTES + 8 * log_bytes
    ):
        raise ValueError(_TOO_MUCH)
    if any(
        chunk.values < chunk.rows if len(chunk.path) > 1 else chunk.values != chunk.rows
        for chunk in footer.chunks()
    ):
        raise ValueError("its columns differ in their number of rows")
    if sum(chunk.end - chunk.start for chunk in footer.chunks()) > footer.start:
        raise ValueError(_DAMAGED)


def _read(
    footer: Footer, data: memoryview, log_bytes: int, path: tuple[bytes, ...] | None = None
) -> pa.Table:
    """Return the column of an index with a path, or all; texts as dictionaries. `data` are the bytes of the file; with
    a path, the others may be missing. Raises ValueError.
    """
    if footer.page_bytes(data, path) > _FREE_BYTES + 8 * log_bytes:
        raise ValueError(_TOO_MUCH)
    checked = pa.BufferReader(b"".join((data[: footer.start], footer.encoded())))
    names = None if path is None else [b".".join(path).decode()]
    try:
        with pq.ParquetFile(
            checked, page_checksum_verification=True, read_dictionary=_TEXTS
        ) as file:
            return file.read(names, use_threads=False)
    except (pa.ArrowException, OSError, KeyError, TypeError) as error:
        raise ValueError(_DAMAGED) from error


def _spread(column: pa.ChunkedArray, log_bytes: int) -> pa.ChunkedArray:
    """Return a column with its texts in full. Raises ValueError for a text that is too long to be a name or a GTID,
    and for more text than the log justifies: one text may stand for any number of values.
    """
    kind = column.type
    is_list = pa.types.is_list(kind)
    if not pa.types.is_dictionary(kind.value_type if is_list else kind):
        return column
    total = 0
    for chunk in column.chunks:
        values = chunk.flatten() if is_list else chunk
        lengths = pc.binary_length(values.dictionary)
        if (pc.max(lengths).as_py() or 0) > _MOST_TEXT_BYTES:
            raise ValueError("it contains a name that is too long")
        total += pc.sum(lengths.take(values.indices)).as_py() or 0
    if total > _FREE_BYTES + 8 * log_bytes:
        raise ValueError(_TOO_MUCH)
    return column.cast(pa.list_(pa.string()) if is_list else pa.string())


def _commit_bounds(footer: Footer) -> tuple[int, int] | None:
    """Return the least and the greatest commit time; None if one is not known."""
    bounds: list[int] = []
    for group in footer.groups:
        found = [chunk.bounds for chunk in group if chunk.path == _COMMIT_TIMES]
        if len(found) != 1 or found[0] is None or any(len(b) != _INT64_BYTES for b in found[0]):
            return None
        bounds += (int.from_bytes(each, "little", signed=True) for each in found[0])
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
