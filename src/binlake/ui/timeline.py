"""Row changes, bytes and transactions by time and table, in bounded memory.

    timeline = Timeline()
    timeline.add(transactions, changes, tables)      # columns, see table/counting/counted.py
    timeline.buckets(since_us, until_us, bars=300)

A cell is a table in a unit of time. The unit grows when there are too many cells, so memory does not
depend on the length of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import array, scalar
from binlake.source.grouping import COUNT, KEY, summed
from binlake.stream.statistics import UNITS

#: The sums of each bar.
MEASURES = ("transactions", "bytes", "inserts", "updates", "deletes")

_WHOLE, _OTHERS = 0, 1  # tables that stand for whole transactions, and for tables beyond the limit
_FIRST = 2

_MS, _SECOND, _MINUTE, _HOUR, _DAY = 1000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
#: The widths of bars, in microseconds. Each is a multiple of every unit that is not larger.
_WIDTHS = (
    *(10 * _MS, 20 * _MS, 50 * _MS, 100 * _MS, 200 * _MS, 500 * _MS),
    *(_SECOND, 2 * _SECOND, 5 * _SECOND, 10 * _SECOND, 15 * _SECOND, 30 * _SECOND),
    *(_MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 28 * _DAY, 91 * _DAY, 364 * _DAY),
)


class Timeline:
    """Measures by unit of time and table.

    The unit of time grows when there are more than `most_cells` cells. Tables beyond `most_tables`, in the
    order of the log, are counted together; two of that number stand for whole transactions and for these.
    """

    def __init__(self, *, most_cells: int = 1 << 18, most_tables: int = 1 << 12) -> None:
        self._most_cells = most_cells
        self._most_tables = most_tables
        self._units = list(UNITS.values())
        self._numbers: dict[str, int] = {}
        self._cells: list[pa.Table] = []
        self._held = 0
        self._compact = 0
        self._whole_seconds = True
        self.left_out = 0  # tables beyond the limit

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables with cells of their own."""
        return tuple(self._numbers)

    @property
    def unit_us(self) -> int:
        """The unit of time of the cells."""
        return self._units[0]

    # -- gathering -----------------------------------------------------------------------------

    def add(self, transactions: pa.Table, changes: pa.Table, tables: tuple[str, ...]) -> None:
        """Add a batch of counted transactions."""
        if not transactions.num_rows:
            return
        times = transactions["commit_us"]
        if self._whole_seconds:
            rest = pc.subtract(times, _floored(times, _SECOND))
            self._whole_seconds = not pc.any(pc.not_equal(rest, scalar(0))).as_py()
        pairs = self._by_transaction(changes, tables)
        whole = summed(pairs["transaction"], {name: pairs[name] for name in MEASURES[2:]})
        place = pc.index_in(
            array(range(transactions.num_rows), pa.int64()), whole[KEY].combine_chunks()
        )
        of_whole = {
            name: pc.fill_null(whole[name].combine_chunks().take(place), scalar(0))
            for name in MEASURES[2:]
        }
        count = transactions.num_rows
        self._keep(
            times, pa.repeat(scalar(_WHOLE), count),
            {"transactions": pa.repeat(scalar(1), count), "bytes": transactions["bytes"], **of_whole},
        )  # fmt: skip
        if pairs.num_rows:
            ones = pa.repeat(scalar(1), pairs.num_rows)
            measures = {"transactions": ones, **{name: pairs[name] for name in MEASURES[1:]}}
            self._keep(times.take(pairs["transaction"]), pairs["table"], measures)

    def _by_transaction(self, changes: pa.Table, tables: tuple[str, ...]) -> pa.Table:
        """Return the measures of each transaction in each table."""
        number = array([self._number(name) for name in tables], pa.int64())
        table = number.take(changes["table"].combine_chunks())
        key = pc.add(pc.multiply(changes["transaction"], scalar(self._most_tables)), table)
        rows, op = changes["rows"], changes["op"]
        columns = {"bytes": changes["bytes"]}
        for ordinal, name in enumerate(MEASURES[2:]):
            columns[name] = pc.if_else(pc.equal(op, scalar(ordinal)), rows, scalar(0))
        found = summed(key, columns)
        transaction, table = self._split(found[KEY])
        return found.append_column("transaction", transaction).append_column("table", table)

    def _split(self, key: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """Return the parts of a key: the part before the table, and the table."""
        before = pc.divide(key, scalar(self._most_tables))
        return before, pc.subtract(key, pc.multiply(before, scalar(self._most_tables)))

    def _number(self, name: str) -> int:
        known = self._numbers.get(name)
        if known is not None:
            return known
        if len(self._numbers) == self._most_tables - _FIRST:
            self.left_out += 1
            return _OTHERS
        self._numbers[name] = len(self._numbers) + _FIRST
        return self._numbers[name]

    def _keep(
        self, times: pa.ChunkedArray, tables: Any, measures: dict[str, pa.ChunkedArray]
    ) -> None:
        buckets = pc.divide(times, scalar(self.unit_us))
        key = pc.add(pc.multiply(buckets, scalar(self._most_tables)), tables)
        found = summed(key, measures).drop_columns([COUNT])
        self._cells.append(found)
        self._held += found.num_rows
        if self._held > self._compact + self._most_cells:
            self._settle()
            while self._held > self._most_cells and len(self._units) > 1:
                self._grow()
            self._compact = self._held

    def _settle(self) -> pa.Table:
        """Add up all cells, and return them."""
        if len(self._cells) > 1:
            whole = pa.concat_tables(self._cells)
            found = summed(whole[KEY], {name: whole[name] for name in MEASURES})
            self._cells = [found.drop_columns([COUNT])]
        self._held = sum(cells.num_rows for cells in self._cells)
        return self._cells[0] if self._cells else None

    def _grow(self) -> None:
        """Use the next longer unit of time."""
        cells = self._settle()
        times = scalar(self._units[1] // self._units[0])
        bucket, table = self._split(cells[KEY])
        key = pc.add(pc.multiply(pc.divide(bucket, times), scalar(self._most_tables)), table)
        found = summed(key, {name: cells[name] for name in MEASURES})
        self._cells = [found.drop_columns([COUNT])]
        self._held = found.num_rows
        del self._units[0]

    # -- results -------------------------------------------------------------------------------

    def width_us(self, span_us: int, bars: int) -> int:
        """Return the width of bars: the finest that makes at most `bars` of a span, whatever the unit is.

        Of a log whose times are whole seconds it is a second or more: finer bars would be single spikes.
        """
        least = _SECOND if self._whole_seconds else _WIDTHS[0]
        fitting = (width for width in _WIDTHS if width >= least and span_us // width < bars)
        return next(fitting, _WIDTHS[-1])

    def buckets(
        self,
        since_us: int | None = None,
        until_us: int | None = None,
        *,
        bars: int = 300,
        most_tables: int = 8,
        only: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Return the bars of a span, JSON-ready. `only` these tables, without them all.

        `starts` are the starts of bars, in microseconds since 1970; empty bars are missing. `total` has
        the measures of whole transactions, with `only` those of the chosen tables; `tables` those of
        the tables with the most changes, with the sum of the others last.
        """
        cells = self._settle()
        if cells is None or not cells.num_rows:
            return self._nothing()
        bucket, table = self._split(cells[KEY])
        start = pc.multiply(bucket, scalar(self.unit_us))
        cells = cells.append_column("start", start).append_column("table", table)
        cells = _within(cells, since_us, until_us, self.unit_us)
        if only is not None:
            chosen = [self._numbers[name] for name in only if name in self._numbers]
            cells = cells.filter(pc.is_in(cells["table"], value_set=array(chosen, pa.int64())))
        if not cells.num_rows:
            return self._nothing()
        ends = pc.min_max(cells["start"]).as_py()
        first = ends["min"] if since_us is None else since_us
        last = ends["max"] if until_us is None else until_us
        width = max(self.width_us(last - first, bars), self.unit_us)
        cells = cells.append_column("bar", _floored(cells["start"], width))
        starts = pc.unique(cells["bar"]).sort()
        is_whole = pc.equal(cells["table"], scalar(_WHOLE))
        sums = self._sums(cells.filter(pc.invert(is_whole)))
        return {
            "width_us": width,
            "starts": starts.to_pylist(),
            "total": _columns(cells.filter(is_whole) if only is None else cells, starts),
            "tables": list(self._series(cells, sums, starts, most_tables)),
            "sums": [{"table": name, **measures} for name, measures in sums],
        }

    def _nothing(self) -> dict[str, Any]:
        total: dict[str, list[int]] = {name: [] for name in MEASURES}
        return {"width_us": self.unit_us, "starts": [], "total": total, "tables": [], "sums": []}

    def _sums(self, cells: pa.Table) -> list[tuple[str, dict[str, int]]]:
        """Return the sums of each table in cells, those with the most row changes first."""
        names = {number: name for name, number in self._numbers.items()}
        names[_OTHERS] = f"{self.left_out:,} other tables"
        found = summed(cells["table"], {name: cells[name] for name in MEASURES})
        rows = [
            (names[row[KEY]], {name: row[name] for name in MEASURES}) for row in found.to_pylist()
        ]
        return sorted(rows, key=lambda row: (-_rows(row[1]), -row[1]["bytes"], row[0]))

    def _series(
        self,
        cells: pa.Table,
        sums: Sequence[tuple[str, dict[str, int]]],
        starts: pa.Array,
        most: int,
    ) -> Iterator[dict[str, Any]]:
        """Yield the bars of the largest tables, and of the others together."""
        numbers = {**self._numbers, f"{self.left_out:,} other tables": _OTHERS}
        shown = sums[:most]
        for name, _ in shown:
            mine = cells.filter(pc.equal(cells["table"], scalar(numbers[name])))
            yield {"table": name, **_columns(mine, starts)}
        if len(sums) > len(shown):
            taken = [_WHOLE, *(numbers[name] for name, _ in shown)]
            others = cells.filter(
                pc.invert(pc.is_in(cells["table"], value_set=array(taken, pa.int64())))
            )
            yield {
                "table": None,
                "count": len(sums) - len(shown) + self.left_out,
                **_columns(others, starts),
            }


def _rows(measures: dict[str, int]) -> int:
    return measures["inserts"] + measures["updates"] + measures["deletes"]


def _within(cells: pa.Table, since_us: int | None, until_us: int | None, unit_us: int) -> pa.Table:
    """Return the cells that overlap a span."""
    if since_us is not None:
        cells = cells.filter(pc.greater(cells["start"], scalar(since_us - unit_us)))
    if until_us is not None:
        cells = cells.filter(pc.less(cells["start"], scalar(until_us)))
    return cells


def _columns(cells: pa.Table, starts: pa.Array) -> dict[str, list[int]]:
    """Return the measures of each bar, 0 where a table has no cell."""
    found = summed(cells["bar"], {name: cells[name] for name in MEASURES})
    place = pc.index_in(starts, found[KEY].combine_chunks())
    return {
        name: pc.fill_null(found[name].combine_chunks().take(place), scalar(0)).to_pylist()
        for name in MEASURES
    }


def _floored(times: pa.ChunkedArray, width: int) -> pa.ChunkedArray:
    return pc.multiply(pc.divide(times, scalar(width)), scalar(width))
