"""Determine with the index of a log which bytes a read needs.

Skipped are the bytes of plain transactions that no filter wants (`log_index.py`).
"""

from __future__ import annotations

from array import array as machine_array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlake.format.magic import FIRST_EVENT
from binlake.source.arrays import array, int64_array, scalar
from binlake.stream.filters import TransactionFilter
from binlake.stream.index.log_index import LogIndex
from binlake.values.gtid_filter import GtidFilter
from binlake.values.intervals import inside, intervals
from binlake.values.table_filter import TableFilter

# Opening a file in the middle costs about as much as reading this many bytes.
_WORTH_A_JUMP_BYTES = 256 << 10
# Sets of more intervals are tested number by number.
_FEW_INTERVALS = 64


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
        # one that begins before what is behind us is not in order, which no index of ours has
        if pos < at or end - pos < _WORTH_A_JUMP_BYTES:
            continue
        if at < pos:
            yield Passage(at, pos, passed)
            passed = 0
        at, passed = end, passed + count
    yield Passage(at, stop, passed)


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """The parts of a log, file `ordinal` of its chain, that a read wants. `blocks` are those that the key index beside the log
    leaves.
    """

    filters: TransactionFilter
    ordinal: int
    tables: TableFilter | None = None
    blocks: ChosenBlocks | None = None

    def passages(
        self, index: LogIndex, start: int | None = None, stop: int | None = None
    ) -> Iterator[Passage]:
        """Return the ranges of the log that have to be read; near ranges are joined.

        The ranges lie in bytes [start, stop), both of which are between transactions, or the ends of the log. Raises
        ValueError for a damaged index.
        """
        skipped = (self._skipped(rows, start, stop) for rows in index.parts(self._columns))
        yield from passages_between(_stretches(skipped), start, stop)

    @property
    def _columns(self) -> list[str]:
        """The columns of the index that decide."""
        filters = self.filters
        is_wanted = {
            "commit_us": filters.since_us is not None or filters.until_us is not None,
            "server_id": bool(filters.server_ids),
            "thread_id": bool(filters.thread_ids),
            "gtid": (filters.gtids, filters.at_gtid, filters.excluded_gtids) != (None,) * 3,
            "tables": self.tables is not None or self.blocks is not None,
        }
        return ["pos", "end_pos", "plain", *(name for name, wanted in is_wanted.items() if wanted)]

    def _skipped(self, rows: pa.Table, start: int | None, stop: int | None) -> pa.Table:
        """Return the plain transactions that are not wanted, and whether each of them is `chosen`."""
        wanted = chosen = self._chosen(rows)
        if self.tables is not None or self.blocks is not None:
            wanted = pc.and_(chosen, self._changes(rows))
        skipped = pc.and_(rows["plain"], pc.invert(wanted))
        if start is not None:
            skipped = pc.and_(skipped, pc.greater_equal(rows["pos"], scalar(start)))
        if stop is not None:
            skipped = pc.and_(skipped, pc.less_equal(rows["end_pos"], scalar(stop)))
        places = rows.select(["pos", "end_pos"]).append_column("chosen", chosen)
        return places.filter(skipped)

    def _changes(self, rows: pa.Table) -> pa.Array:
        """Return for each transaction whether it changes such a table, in one of the blocks."""
        lists = rows["tables"].combine_chunks()
        names, parents = lists.flatten(), pc.list_parent_indices(lists)
        wanted = [
            name
            for name in pc.unique(names).to_pylist()
            if self.tables is None or self.tables.wants(*name.split(".", 1))
        ]
        hits = pc.is_in(names, value_set=array(wanted, pa.string()))
        if (blocks := self.blocks) is not None:
            block_of = _block_of(rows["pos"], blocks.starts).take(parents)
            for name in set(wanted).intersection(blocks.by_table):
                has = [bool(blocks.by_table[name] >> n & 1) for n in range(len(blocks.starts))]
                inside = array(has, pa.bool_()).take(block_of)
                other = pc.not_equal(names, scalar(name))
                hits = pc.and_(hits, pc.or_(other, inside))
        found = pc.unique(parents.filter(hits)).cast(pa.int64())
        return pc.is_in(
            int64_array(memoryview(machine_array("q", range(len(lists))))), value_set=found
        )

    def _chosen(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return for each transaction whether the filters by time, position, GTID, server and
        thread keep it.
        """
        filters, ordinal = self.filters, self.ordinal
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
                mask = pc.and_(mask, _gtids_in(gtids, rows["gtid"]))
        if filters.excluded_gtids is not None:
            mask = pc.and_(mask, pc.invert(_gtids_in(filters.excluded_gtids, rows["gtid"])))
        return mask


def _gtids_in(gtids: GtidFilter, column: pa.ChunkedArray) -> pa.Array:
    """Return for each GTID whether it is in a set."""
    column = column.combine_chunks()
    sources = pc.ascii_rtrim(column, characters="0123456789")  # with the sign before the number
    result = pc.and_(pc.is_valid(column), scalar(False))
    for source in pc.unique(sources.drop_null()).to_pylist():
        bounds = gtids.bounds_of(source[:-1]) if source[-1:] in (":", "-") else None
        if bounds:
            mine = pc.equal(sources, scalar(source)).fill_null(scalar(False))
            texts = column.filter(mine).cast(pa.binary())
            numbers = pc.binary_replace_slice(texts, 0, len(source.encode()), b"")
            found = _inside(numbers.cast(pa.string()).cast(pa.uint64()), bounds)
            result = pc.replace_with_mask(result, mine, found)
    return result


def _block_of(starts_of: pa.ChunkedArray, starts: Sequence[int]) -> pa.Array:
    """Return for each transaction the number of its block; for one between blocks that of the block before it,
    which has its keys, too.
    """
    after = pc.search_sorted(array(starts, pa.int64()), starts_of.combine_chunks(), side="right")
    return pc.max_element_wise(pc.subtract(after.cast(pa.int64()), scalar(1)), scalar(0))


def _inside(numbers: pa.Array, bounds: list[int]) -> pa.Array:
    if len(bounds) > 2 * _FEW_INTERVALS:
        return array([inside(bounds, number) for number in numbers.to_pylist()], pa.bool_())
    result = pa.repeat(scalar(False), len(numbers))
    for start, end in intervals(bounds):
        low = pc.greater_equal(numbers, scalar(start, pa.uint64()))
        high = pc.less_equal(numbers, scalar(end - 1, pa.uint64()))
        result = pc.or_(result, pc.and_(low, high))
    return result


def _stretches(parts: Iterable[pa.Table]) -> Iterator[tuple[int, int, int]]:
    """Return contiguous rows as (pos of the first, end_pos of the last, number of `chosen` rows)."""
    start = end = counts = 0
    for rows in parts:
        for pos, stop, chosen in _contiguous(rows):
            if pos != end:
                if end:
                    yield start, end, counts
                start, counts = pos, 0
            end = stop
            counts += chosen
    if end:
        yield start, end, counts


def _contiguous(rows: pa.Table) -> Iterator[tuple[int, int, int]]:
    """Do the same with the rows of one part."""
    pos, end, chosen = (rows[name].combine_chunks() for name in ("pos", "end_pos", "chosen"))
    edge = array([True], pa.bool_())
    breaks = pc.not_equal(pos[1:], end[:-1])
    is_last = pa.concat_arrays([breaks, edge])[: len(pos)]
    sums = pc.cumulative_sum(chosen.cast(pa.int64())).filter(is_last).to_pylist()
    counts = (after - before for before, after in pairwise([0, *sums]))
    starts = pos.filter(pa.concat_arrays([edge, breaks])[: len(pos)]).to_pylist()
    yield from zip(starts, end.filter(is_last).to_pylist(), counts, strict=True)
