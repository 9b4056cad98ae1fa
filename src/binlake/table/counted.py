"""Batches of counted transactions as columns: what is known of each, from its run alone."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.events.gtid_mariadb import MariadbGtidEvent
from binlake.events.gtid_mysql import GtidEvent
from binlake.events.query import QueryEvent
from binlake.format.event_types import (
    ANONYMOUS_GTID_LOG_EVENT,
    GTID_EVENT,
    GTID_LOG_EVENT,
    QUERY_EVENT,
    XID_EVENT,
)
from binlake.stream.event_at import event_at
from binlake.stream.runs import PlainRun, Run, Transaction
from binlake.table.stretches import plain_groups

if TYPE_CHECKING:
    from binlake.source.window import Window

__all__ = ["CHANGES", "FACTS", "TRANSACTIONS", "Batch", "CountedBatch", "column"]

#: Columns of `CountedBatch.transactions`, one row per transaction, in commit order. `pos` and
#: `end_pos` in `file`; `commit_us` since 1970 UTC; `duration_us` as `Transaction` has it; null: the log does not tell. `counted`: its rows could be
#: counted.
TRANSACTIONS = pa.schema(
    [
        ("file", pa.string()),
        ("pos", pa.int64()),
        ("end_pos", pa.int64()),
        ("bytes", pa.int64()),
        ("commit_us", pa.int64()),
        ("duration_us", pa.int64()),
        ("server_id", pa.int64()),
        ("thread_id", pa.int64()),
        ("gtid", pa.string()),
        ("counted", pa.bool_()),
    ]
)
#: Columns of `CountedBatch.changes`, one row per transaction, table and operation. `transaction`
#: is a row of `transactions`, `table` an index into `tables`, `op` one into OPERATIONS; `bytes`
#: are those of its rows events (inside a payload: inflated).
CHANGES = pa.schema(
    [
        ("transaction", pa.int64()),
        ("table", pa.int64()),
        ("op", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)

#: Columns of what the walker tells of plain transactions; `key` is their start in the file.
FACTS = pa.schema(
    [
        ("key", pa.int64()),
        ("commit_us", pa.int64()),
        ("thread_id", pa.int64()),
        ("gtid", pa.string()),
    ]
)

#: The same before they are complete: null where only the walker knows.
_PART = pa.schema(
    [
        ("key", pa.int64()),
        *(TRANSACTIONS.field(name) for name in ("file", "pos", "end_pos", "bytes", "commit_us")),
        ("begun_us", pa.int64()),
        ("ended_us", pa.int64()),
        *(TRANSACTIONS.field(name) for name in ("server_id", "thread_id", "gtid")),
        ("last_code", pa.uint8()),
    ]
)

# A batch is handed on when it has this many transactions. Runs keep windows in memory: they are
# settled when they are this many, or their bytes.
_BATCH_TRANSACTIONS = 1 << 16
_HELD_RUNS = 256
_HELD_BYTES = 64 << 20
_FEW_GROUPS = 16

_GTIDS = re.escape(bytes((GTID_LOG_EVENT, ANONYMOUS_GTID_LOG_EVENT, GTID_EVENT)))
_BEGIN_OR_COMMIT = re.escape(bytes((QUERY_EVENT,)))
_ENDS = re.escape(bytes((QUERY_EVENT, XID_EVENT)))
# The groups of a plain run: from GTID to GTID, or, where there are none, BEGIN to XID or COMMIT.
_GROUP = re.compile(
    b"[%b][^%b]*|%b[^%b]*[%b]" % (_GTIDS, _GTIDS, _BEGIN_OR_COMMIT, _ENDS, _ENDS), re.DOTALL
)


@dataclass(frozen=True, slots=True)
class CountedBatch:
    """Transactions, what they changed, and the names (`database.table`) of the tables."""

    transactions: pa.Table
    changes: pa.Table
    tables: tuple[str, ...]


class Batch:
    """Transactions of one file on their way to a CountedBatch.

    A transaction's key is its start in the file, or, of one that is not plain, a negative
    number: its rows may lie in another file. Runs are held until they are settled.
    """

    def __init__(self) -> None:
        self.file = ""
        self.count = 0
        self.uncounted: set[int] = set()
        self._parts: list[pa.Table] = []
        self._held: list[tuple[int, Run]] = []
        self._held_bytes = 0
        self._last_window: Window | None = None

    @property
    def is_full(self) -> bool:
        """Whether it is time to hand it on."""
        return self.count >= _BATCH_TRANSACTIONS

    @property
    def holds_much(self) -> bool:
        """Whether it is time to settle the runs."""
        return self._held_bytes >= _HELD_BYTES or len(self._held) >= _HELD_RUNS

    def append(self, run: Run) -> int:
        """Hold a run; returns the key if it is not a plain one."""
        self.count += run.groups if isinstance(run, PlainRun) else 1
        if isinstance(run, Transaction):
            self._held_bytes += run.bytes
        elif run.window is not self._last_window:  # which many runs may share
            self._held_bytes += len(run.window.data)
            self._last_window = run.window
        self._held.append((-self.count, run))
        return -self.count

    def held_transactions(self) -> Iterator[tuple[int, Run]]:
        """Every transaction that is not settled, by itself, and its key."""
        for key, run in self._held:
            if not isinstance(run, PlainRun):
                yield key, run
                continue
            starts = [*_starts(run), run.last]
            for first, last in pairwise(starts):
                offset = run.window.frame(first).offset
                size = run.window.block.end(last - 1) - offset
                yield offset, PlainRun(run.window, first, last, 1, size)

    def settle(self, facts: pa.Table) -> None:
        """Note what is known of the runs, and let go of them; `facts` (FACTS) of plain
        transactions with rows.
        """
        if not self._held:
            return
        places = _Places()
        parts: list[pa.Table] = []
        rows: list[dict[str, Any]] = []  # of transactions one by one, where arrays do not pay
        for key, run in self._held:
            if isinstance(run, Transaction):
                rows.append(_row_of_single(key, run))
                places.pass_over(1)
                continue
            starts = _starts(run)
            places.add(run, starts)
            if run.groups < _FEW_GROUPS:
                rows += (_row_of_plain(run, *ends) for ends in pairwise([*starts, run.last]))
                continue
            parts += [pa.Table.from_pylist(rows, _PART), _of_plain(run, starts)]
            rows = []
        parts.append(pa.Table.from_pylist(rows, _PART))
        self._parts.append(_completed(pa.concat_tables(parts), facts, places))
        self._held, self._held_bytes, self._last_window = [], 0, None

    def table(self) -> tuple[pa.Array, pa.Table]:
        """The keys, and the transactions (TRANSACTIONS), once all runs are settled."""
        whole = pa.concat_tables(self._parts)
        uncounted = pa.array(sorted(self.uncounted), pa.int64())
        counted = pc.invert(pc.is_in(whole["key"], value_set=uncounted))
        transactions = whole.append_column("counted", counted).select(TRANSACTIONS.names)
        return whole["key"].combine_chunks(), transactions.cast(TRANSACTIONS)


class _Places:
    """Which transaction of which plain run a row of a table is."""

    def __init__(self) -> None:
        self._rows = 0
        self._first_rows: list[int] = []
        self._runs: list[tuple[PlainRun, list[int]]] = []

    def pass_over(self, rows: int) -> None:
        self._rows += rows

    def add(self, run: PlainRun, starts: list[int]) -> None:
        self._first_rows.append(self._rows)
        self._runs.append((run, starts))
        self._rows += len(starts)

    def at(self, row: int) -> tuple[PlainRun, int, int]:
        """The run, and its frames [first, last)."""
        which = bisect_right(self._first_rows, row) - 1
        run, starts = self._runs[which]
        place = row - self._first_rows[which]
        last = starts[place + 1] if place + 1 < len(starts) else run.last
        return run, starts[place], last


def column(kind: pa.DataType, count: int, data: memoryview) -> pa.Array:
    """An array over `count` values that lie in a buffer."""
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def _starts(run: PlainRun) -> list[int]:
    """The first frames of the transactions of a plain run."""
    codes = bytes(run.window.block.type_code[run.first : run.last])
    starts = [run.first + match.start() for match in _GROUP.finditer(codes)]
    if len(starts) == run.groups:
        return starts
    return [group.first for group in plain_groups(run)]  # some have a GTID and some have not


def _of_plain(run: PlainRun, starts: list[int]) -> pa.Table:
    """What the headers tell of the transactions of a plain run."""
    block = run.window.block
    first = pa.array(starts, pa.int64())
    last = pa.array([start - 1 for start in starts[1:]] + [run.last - 1], pa.int64())
    offset, length, time, server, code = (
        column(kind, run.last, values[: run.last])
        for kind, values in (
            (pa.int64(), block.offset),
            (pa.uint32(), block.length),
            (pa.uint32(), block.timestamp),
            (pa.uint32(), block.server_id),
            (pa.uint8(), block.type_code),
        )
    )
    pos, unknown = offset.take(first), pa.nulls(len(starts), pa.int64())
    # BEGIN has the time of the first statement, the GTID event before it that of the commit
    begun = pc.min_element_wise(time.take(first), time.take(pc.add(first, 1)))
    columns = {
        "key": pos,
        "file": pa.array([run.window.file.name] * len(starts), pa.string()),
        "pos": pos,
        "end_pos": pc.add(offset.take(last), length.take(last).cast(pa.int64())),
        "commit_us": unknown,
        "begun_us": _microseconds(begun),
        "ended_us": _microseconds(time.take(last)),
        "server_id": server.take(first).cast(pa.int64()),
        "thread_id": unknown,
        "gtid": pa.nulls(len(starts), pa.string()),
        "last_code": code.take(last),
    }
    size = pc.subtract(columns["end_pos"], pos)
    return pa.table({**columns, "bytes": size}).select(_PART.names)


def _row_of_plain(run: PlainRun, first: int, last: int) -> dict[str, Any]:
    """The same of one transaction, frames [first, last)."""
    head, second, end = (run.window.frame(index) for index in (first, first + 1, last - 1))
    return {
        "key": head.offset,
        "file": run.window.file.name,
        "pos": head.offset,
        "end_pos": end.end,
        "bytes": end.end - head.offset,
        "begun_us": min(head.timestamp, second.timestamp) * 1_000_000,
        "ended_us": end.timestamp * 1_000_000,
        "server_id": head.server_id,
        "last_code": end.type_code,
    }


def _row_of_single(key: int, run: Transaction) -> dict[str, Any]:
    return {
        "key": key,
        "file": run.start.file,
        "pos": run.start.offset,
        "end_pos": run.end.offset,
        "bytes": run.bytes,
        "commit_us": run.commit_us,
        "begun_us": run.commit_us - run.duration_us,
        "ended_us": run.commit_us,
        "server_id": run.server_id,
        "thread_id": run.thread_id,
        "gtid": run.gtid,
        "last_code": 0,
    }


def _microseconds(seconds: pa.Array) -> pa.Array:
    return pc.multiply(seconds.cast(pa.int64()), 1_000_000)


def _completed(rows: pa.Table, facts: pa.Table, places: _Places) -> pa.Table:
    """The table (_PART) with commit times, threads and GTIDs of plain transactions, and
    durations.
    """
    rows = rows.combine_chunks()
    known = pc.index_in(rows["key"], facts["key"].combine_chunks())
    commit_us, thread, gtid = (
        pc.coalesce(rows[name], facts[name].take(known).combine_chunks()).combine_chunks()
        for name in ("commit_us", "thread_id", "gtid")
    )
    silent = pc.indices_nonzero(pc.is_null(commit_us)).to_pylist()
    if silent:
        told = {row: _told(*places.at(row)[:2]) for row in silent}
        commit_us, thread, gtid = (
            _filled(values, {row: facts[i] for row, facts in told.items()})
            for i, values in enumerate((commit_us, thread, gtid))
        )
    by_commit = pc.and_(pc.is_null(thread), pc.equal(rows["last_code"], QUERY_EVENT))
    commits = pc.indices_nonzero(by_commit).to_pylist()
    if commits:
        thread = _filled(thread, {row: _thread_of_commit(*places.at(row)) for row in commits})
    ended = pc.max_element_wise(
        pc.multiply(pc.divide(commit_us, 1_000_000), 1_000_000), rows["ended_us"]
    )
    duration = pc.max_element_wise(pc.subtract(ended, rows["begun_us"]), 0)
    values = {"commit_us": commit_us, "thread_id": thread, "gtid": gtid, "duration_us": duration}
    kept = [name for name in rows.column_names if name not in values]
    return pa.table({**{name: rows[name] for name in kept}, **values})


def _filled(values: pa.Array, told: dict[int, Any]) -> pa.Array:
    """The array with other values at some places."""
    filling: list[Any] = [None] * len(values)
    for row, value in told.items():
        filling[row] = value
    return pc.coalesce(values, pa.array(filling, values.type))


def _told(run: PlainRun, first: int) -> tuple[int, int | None, str | None]:
    """Commit time, thread and GTID of a transaction in which the walker found no rows."""
    event = event_at(run.window, first)
    commit_us = event.frame.timestamp * 1_000_000
    gtid = thread = None
    if isinstance(event, GtidEvent):
        commit_us = event.immediate_commit_us or commit_us
        gtid = event.gtid
        event = event_at(run.window, first + 1)
    elif isinstance(event, MariadbGtidEvent):
        gtid, thread = event.gtid, event.thread_id
    if isinstance(event, QueryEvent):
        thread = event.thread_id
    return commit_us, thread, gtid


def _thread_of_commit(run: PlainRun, first: int, last: int) -> int | None:
    """The thread that COMMIT tells, where it is a QUERY."""
    event = event_at(run.window, last - 1)
    return event.thread_id if isinstance(event, QueryEvent) else None
