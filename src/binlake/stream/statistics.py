"""Write volume by table, operation, time, server and thread: sums over transactions, in bounded
memory.

    statistics = Statistics(top=10)
    statistics.add(transactions, changes, tables)      # columns, see table/counting/counted.py
    statistics.to_json()

Sums by table, server, thread and time are exact while there are few keys. If there are very many,
the smallest are folded together, and the result reports that. Only the largest transactions are
kept.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import add
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlake.events.common.query import QueryEvent
from binlake.source.arrays import array, scalar
from binlake.source.grouping import COUNT, KEY, operations_summed, summed
from binlake.stream.log_events import LogEvent
from binlake.stream.runs import Transaction
from binlake.stream.sql.redaction import without_passwords
from binlake.stream.sql.statements import ACCOUNT, DDL, TRUNCATE, statement_kind
from binlake.values.ledger import Ledger
from binlake.values.times import utc_text

#: The units that time is divided into, finest first, in microseconds.
UNITS = {
    "10ms": 10_000,
    "100ms": 100_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}

_MOST_KEYS = 1 << 16
_SQL_CHARACTERS = 2000  # kept of a statement
_LISTED_KINDS = frozenset((DDL, TRUNCATE, ACCOUNT))
_OPERATIONS = ("inserts", "updates", "deletes")
_SUMMED = ("bytes", *_OPERATIONS)  # the fields of Measures beside the number of transactions
_UNKNOWN = -1  # a thread that the log does not contain
#: Lists of transactions: what is compared, and how much of it there must be at least.
_RANKS = {
    "largest_by_bytes": ("bytes", 1),
    "largest_by_rows": ("rows", 1),
    "longest": ("duration_us", 1_000_000),
}


class Measures(NamedTuple):
    """Sums over transactions: their number, their bytes in the log, and row changes.

    By table, `bytes` are those of its rows events, and a transaction counts for each of its
    tables.
    """

    transactions: int = 0
    bytes: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0

    @property
    def rows(self) -> int:
        """Row changes of all operations."""
        return self.inserts + self.updates + self.deletes

    def plus(self, other: Measures) -> Measures:
        """Both together."""
        return Measures(*map(add, self, other))

    def to_json(self) -> dict[str, int]:
        """JSON-ready."""
        return {**self._asdict(), "rows": self.rows}


class Tally:
    """Measures by key. If there are more than `most` keys, the smallest (by bytes) are folded into
    `rest`.

    `folded` counts those keys; a key that appears again starts from zero.
    """

    def __init__(self, most: int = _MOST_KEYS) -> None:
        self.by_key: dict[Any, Measures] = {}
        self.rest = Measures()
        self.folded = 0
        self._most = most

    def add(self, key: Any, measures: Measures) -> None:
        """Count under a key."""
        known = self.by_key.get(key)
        self.by_key[key] = measures if known is None else known.plus(measures)
        if len(self.by_key) > self._most:
            self._fold()

    def _fold(self) -> None:
        ordered = sorted(self.by_key.items(), key=lambda item: item[1].bytes)
        small = ordered[: len(ordered) // 2]
        for key, measures in small:
            self.rest = self.rest.plus(measures)
            del self.by_key[key]
        self.folded += len(small)

    def top(self, count: int) -> list[tuple[Any, Measures]]:
        """The keys with the most bytes; equal ones in the order of their names."""
        return heapq.nsmallest(
            count, self.by_key.items(), key=lambda item: (-item[1].bytes, str(item[0]))
        )

    def others(self, count: int) -> Measures:
        """Return everything that `top` leaves out."""
        total = self.rest
        for measures in self.by_key.values():
            total = total.plus(measures)
        for _, measures in self.top(count):
            total = Measures(*(a - b for a, b in zip(total, measures, strict=True)))
        return total

    def to_json(self, name: str, count: int) -> dict[str, Any]:
        """Return the `count` largest, and the sum of the others."""
        return {
            "count": len(self.by_key) + self.folded,
            "exact": not self.folded,
            "top": [{name: key, **measures.to_json()} for key, measures in self.top(count)],
            "others": self.others(count).to_json(),
        }


class Times:
    """Measures by time, in the finest unit that the span allows (`unit`).

    The unit grows as the span does, so that memory stays bounded: at most `most` times are kept of a
    unit of a minute or more, `most_short` of a shorter one.
    """

    def __init__(self, most: int = 1 << 16, most_short: int = 1 << 12) -> None:
        self._most = most
        self._most_short = most_short
        self.unit = next(iter(UNITS))
        self.by_start: dict[int, Measures] = {}

    def add(self, start_us: int, measures: Measures) -> None:
        """Count in the unit of time that contains a moment."""
        start = start_us - start_us % UNITS[self.unit]
        known = self.by_start.get(start)
        self.by_start[start] = measures if known is None else known.plus(measures)
        if len(self.by_start) > self._most_times():
            self._grow()

    def make_room(self, first_us: int, last_us: int) -> None:
        """Choose a unit in which all moments from `first_us` to `last_us` can be kept."""
        while (last_us - first_us) // UNITS[self.unit] > self._most_times():
            self._grow()

    def _most_times(self) -> float:
        """How many times of the unit are kept before the next longer unit is used."""
        if self.unit == "day":
            return float("inf")
        return self._most if UNITS[self.unit] >= UNITS["minute"] else self._most_short

    def _grow(self) -> None:
        names = list(UNITS)
        self.unit = names[names.index(self.unit) + 1]
        self.by_start = self.in_units(self.unit)

    def chosen_unit(self, wanted: str | None, bars: int) -> str:
        """Return the unit to show: the wanted one, but no finer than the counts; without a
        wanted one, the finest that makes fewer than `bars` bars.
        """
        names = list(UNITS)
        finest = names.index(self.unit)
        if wanted is None and all(start % UNITS["second"] == 0 for start in self.by_start):
            # Some servers record whole seconds only: finer bars would be single spikes.
            finest = max(finest, names.index("second"))
        if wanted is not None:
            return names[max(finest, names.index(wanted))]
        if not self.by_start:
            return names[finest]
        span = max(self.by_start) - min(self.by_start)
        fitting = (name for name in names[finest:] if span // UNITS[name] < bars)
        return next(fitting, "day")

    def in_units(self, unit: str) -> dict[int, Measures]:
        """Measures by the start of each unit of time, in order; those with nothing are missing."""
        result: dict[int, Measures] = {}
        for start, measures in sorted(self.by_start.items()):
            begun = start - start % UNITS[unit]
            result[begun] = result.get(begun, Measures()).plus(measures)
        return result


@dataclass(slots=True)
class Statistics:
    """The sums. `top` limits the length of each list, `unit` is the wanted unit of time (a key of
    UNITS; None: the finest that makes fewer than `bars` bars).

    `files` and the counts of the log itself are in the ledger, which `to_json` is given.
    """

    top: int = 10
    unit: str | None = None
    bars: int = 300
    total: Measures = field(default_factory=Measures)
    uncounted: int = 0  # transactions whose rows could not be counted
    first_us: int | None = None
    last_us: int | None = None
    tables: Tally = field(default_factory=Tally)
    servers: Tally = field(default_factory=Tally)
    threads: Tally = field(default_factory=Tally)
    times: Times = field(default_factory=Times)
    statements: Counter[str] = field(default_factory=Counter)
    ddl: list[dict[str, Any]] = field(default_factory=list)
    ddl_count: int = 0
    _ranked: dict[str, list[tuple[int, int, dict[str, Any]]]] = field(default_factory=dict)
    _number: int = 0

    # -- gathering -----------------------------------------------------------------------------

    def add(self, transactions: pa.Table, changes: pa.Table, tables: tuple[str, ...]) -> None:
        """Add a batch: the columns of `table.counted.TRANSACTIONS` and `CHANGES`."""
        if not transactions.num_rows:
            return
        rows = _with_rows(transactions, changes)
        ends = pc.min_max(rows["commit_us"]).as_py()
        self.first_us = ends["min"] if self.first_us is None else min(self.first_us, ends["min"])
        self.last_us = ends["max"] if self.last_us is None else max(self.last_us, ends["max"])
        self.uncounted += pc.sum(pc.invert(rows["counted"])).as_py()
        self.times.make_room(ends["min"], ends["max"])
        unit_us = scalar(UNITS[self.times.unit])
        begun = pc.multiply(pc.divide(rows["commit_us"], unit_us), unit_us)
        rows = rows.append_column("time", begun)
        sums = (pc.sum(rows[name]).as_py() for name in _SUMMED)
        self.total = self.total.plus(Measures(rows.num_rows, *sums))
        for key, measures in _sums(rows, rows["time"]):
            self.times.add(key, measures)
        for key, measures in _sums(rows, rows["server_id"]):
            self.servers.add(key, measures)
        for key, measures in _sums(rows, pc.fill_null(rows["thread_id"], scalar(_UNKNOWN))):
            self.threads.add(None if key == _UNKNOWN else key, measures)
        for number, measures in _sums_by_table(changes):
            self.tables.add(tables[number], measures)
        for rank in _RANKS:
            self._rank(rank, rows, changes, tables)

    def _rank(self, rank: str, rows: pa.Table, changes: pa.Table, names: tuple[str, ...]) -> None:
        """Keep the transactions that have most of something."""
        column, least = _RANKS[rank]
        heap = self._ranked.setdefault(rank, [])
        order = [(column, "descending"), ("ordinal", "ascending")]
        places = pc.select_k_unstable(rows, self.top, order)
        for place, row in zip(places.to_pylist(), rows.take(places).to_pylist(), strict=True):
            if row[column] < least or (len(heap) == self.top and row[column] <= heap[0][0]):
                continue
            mine = changes.filter(pc.equal(changes["transaction"], scalar(place)))
            touched = pc.unique(mine["table"]).to_pylist()
            row["tables"] = sorted(names[number] for number in touched)
            self._number += 1  # of equal ones the first stays
            entry = (row[column], -self._number, row)
            if len(heap) < self.top:
                heapq.heappush(heap, entry)
            else:
                heapq.heapreplace(heap, entry)

    def add_statements(self, transaction: Transaction, ddl: Iterable[dict[str, Any]]) -> None:
        """Count the statements that a transaction holds as text; `ddl` are the ones to list."""
        for statement in transaction.statements:
            self.statements[statement.kind] += 1
        for entry in ddl:
            self.ddl_count += 1
            if len(self.ddl) < max(self.top, 100):
                self.ddl.append(entry)

    # -- results -------------------------------------------------------------------------------

    def ranked(self, rank: str) -> list[dict[str, Any]]:
        """Return the transactions of `largest_by_bytes`, `largest_by_rows` or `longest`, largest
        first.
        """
        ordered = sorted(self._ranked.get(rank, ()), key=lambda entry: entry[:2], reverse=True)
        return [_transaction_json(row) for _, _, row in ordered]

    def to_json(self, ledger: Ledger) -> dict[str, Any]:
        """Return the document of `binlake stats --json`; `ledger` is the ledger of the read."""
        unit = self.times.chosen_unit(self.unit, self.bars)
        log = ledger.to_json()
        return {
            "first_ts": utc_text(self.first_us),
            "last_ts": utc_text(self.last_us),
            "total": self.total.to_json(),
            "uncounted_transactions": self.uncounted,
            "tables": self.tables.to_json("table", self.top),
            "servers": self.servers.to_json("server_id", self.top),
            "threads": self.threads.to_json("thread_id", self.top),
            "time": {
                "unit": unit,
                "buckets": [
                    {"ts": utc_text(start), **measures.to_json()}
                    for start, measures in self.times.in_units(unit).items()
                ],
            },
            **{rank: self.ranked(rank) for rank in _RANKS},
            "statements": dict(self.statements.most_common()),
            "ddl": {"count": self.ddl_count, "list": self.ddl},
            "log": {
                name: log[name]
                for name in ("files", "bytes", "events", "checksum", "transactions", "unshown", "skipped")
            },
            "remarks": ledger.remarks(),
        }  # fmt: skip


def holds_ddl(transaction: Transaction) -> bool:
    """Whether a transaction has entries for the list of DDL."""
    return any(statement.kind in _LISTED_KINDS for statement in transaction.statements)


def ddl_of(transaction: Transaction, events: Iterator[LogEvent]) -> Iterator[dict[str, Any]]:
    """Return the entries for the list of DDL among the events of a transaction. Raises
    FormatError.
    """
    for found in events:
        event = found.event
        if not isinstance(event, QueryEvent):
            continue
        kind = statement_kind(event.sql_raw)
        if kind in _LISTED_KINDS:
            yield {
                "ts": utc_text(found.frame.timestamp * 1_000_000 + (event.microseconds or 0)),
                "kind": kind,
                "database": event.database or None,
                "sql": without_passwords(event.sql[:_SQL_CHARACTERS]),
                "user": event.user,
                "thread_id": event.thread_id,
                "server_id": found.frame.server_id,
                "error_code": event.error_code,
                "gtid": transaction.gtid,
                "outcome": transaction.outcome.value,
                "file": found.window.file.shown,
                "pos": found.pos,
            }


def _with_rows(transactions: pa.Table, changes: pa.Table) -> pa.Table:
    """Return the transactions with their inserts, updates, deletes and rows."""
    count = transactions.num_rows
    for name, counts in zip(_OPERATIONS, operations_summed(changes, count), strict=True):
        transactions = transactions.append_column(name, counts)
    rows = pc.add(pc.add(transactions["inserts"], transactions["updates"]), transactions["deletes"])
    ordinals = array(range(count), pa.int64())
    return transactions.append_column("rows", rows).append_column("ordinal", ordinals)


def _sums(rows: pa.Table, key: pa.ChunkedArray) -> Iterator[tuple[int, Measures]]:
    # columns as lists: a short unit of time makes thousands of keys
    sums = summed(key, {name: rows[name] for name in _SUMMED})
    measures = (sums[name].to_pylist() for name in (COUNT, *_SUMMED))
    return zip(sums[KEY].to_pylist(), map(Measures, *measures), strict=True)


def _sums_by_table(changes: pa.Table) -> Iterator[tuple[int, Measures]]:
    operations = scalar(len(_OPERATIONS))
    place = pc.add(pc.multiply(changes["table"], operations), changes["op"])
    sums = summed(place, {"rows": changes["rows"], "bytes": changes["bytes"]})
    by_table: dict[int, list[int]] = {}
    for found in sums.to_pylist():
        table, op = divmod(found[KEY], len(_OPERATIONS))
        entry = by_table.setdefault(table, [0, 0, 0, 0])
        entry[0] += found["bytes"]
        entry[1 + op] += found["rows"]
    transactions = _transactions_by_table(changes)
    for table, entry in by_table.items():
        yield table, Measures(transactions[table], *entry)


def _transactions_by_table(changes: pa.Table) -> dict[int, int]:
    """Return how many transactions change each table."""
    if not changes.num_rows:
        return {}
    tables = pc.max(changes["table"]).as_py() + 1
    place = pc.add(pc.multiply(changes["transaction"], scalar(tables)), changes["table"])
    pairs = summed(place, {})[KEY]
    table = pc.subtract(pairs, pc.multiply(pc.divide(pairs, scalar(tables)), scalar(tables)))
    counts = summed(table, {})
    return dict(zip(counts[KEY].to_pylist(), counts[COUNT].to_pylist(), strict=True))


def _transaction_json(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "gtid": row["gtid"],
        "file": row["file"],
        "pos": row["pos"],
        "end_pos": row["end_pos"],
        "bytes": row["bytes"],
        "commit_ts": utc_text(row["commit_us"]),
        "duration_seconds": row["duration_us"] // 1_000_000,
        "server_id": row["server_id"],
        "thread_id": row["thread_id"],
        **{name: row[name] if row["counted"] else None for name in (*_OPERATIONS, "rows")},
        "tables": row["tables"],
    }
