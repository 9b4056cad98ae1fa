"""Batches of counted transactions as columns, with the facts that their runs contain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.counting.run_facts import FACTS, run_facts
from binlake.core.text.gtid_texts import gtid_texts
from binlake.source.arrays import array, scalar, table
from binlake.stream.runs import PlainRun, Run, Transaction

if TYPE_CHECKING:
    from binlake.source.window import Window

#: Columns of `CountedBatch.transactions`, one row per transaction, in commit order. `pos` and
#: `end_pos` in `file`; `commit_us` since 1970 UTC; `duration_us` as `Transaction` has it; null: the log does not contain it. `counted`: its rows could be
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

#: The same columns before it is known which were counted; `key` as in `Batch`.
_PART = pa.schema(
    [("key", pa.int64()), *(field for field in TRANSACTIONS if field.name != "counted")]
)
_EMPTY, _NO_TEXT = scalar(""), scalar(None, pa.string())
_ZERO, _NO_THREAD = scalar(0), scalar(None, pa.int64())


@dataclass(frozen=True, slots=True)
class CountingLimits:
    """How much `RunCounter` combines.

    A batch is yielded when it has `batch_transactions`, or when there are names of more than `tables`. Runs keep
    windows in memory: they are settled when there are `held_runs`, or `held_bytes` of them. Runs of fewer than
    `few_groups` transactions are counted one by one, because arrays do not pay for them.
    """

    batch_transactions: int = 1 << 16
    held_runs: int = 256
    held_bytes: int = 16 << 20
    few_groups: int = 16
    tables: int = 1 << 14


#: The limits of every read.
LIMITS = CountingLimits()


@dataclass(frozen=True, slots=True)
class CountedBatch:
    """Transactions, their changes, and the names (`database.table`) of the tables."""

    transactions: pa.Table
    changes: pa.Table
    tables: tuple[str, ...]


class Batch:
    """Transactions of one file that will become a CountedBatch.

    A transaction's key is its start in the file. A transaction that is not plain has a negative
    number: its rows may lie in another file. Runs are held until they are settled.
    """

    def __init__(self, limits: CountingLimits = LIMITS) -> None:
        self._limits = limits
        self.file = ""
        self.count = 0
        self.uncounted: set[int] = set()
        self._parts: list[pa.Table] = []
        self._held: list[tuple[int, Run]] = []
        self._held_bytes = 0
        self._last_window: Window | None = None

    @property
    def is_full(self) -> bool:
        """Whether to yield it now."""
        return self.count >= self._limits.batch_transactions

    @property
    def holds_much(self) -> bool:
        """Whether to settle the runs now."""
        most = self._limits
        return self._held_bytes >= most.held_bytes or len(self._held) >= most.held_runs

    def append(self, run: Run) -> int:
        """Hold a run; return the key if it is not a plain one."""
        self.count += run.groups if isinstance(run, PlainRun) else 1
        if isinstance(run, Transaction):
            self._held_bytes += run.bytes
        elif run.window is not self._last_window:  # which many runs may share
            self._held_bytes += len(run.window.data)
            self._last_window = run.window
        self._held.append((-self.count, run))
        return -self.count

    def held_transactions(self) -> Iterator[tuple[int, Run]]:
        """Yield every transaction that is not settled, and its key."""
        for key, run in self._held:
            if isinstance(run, PlainRun):
                yield from ((one.start, one) for one in run.each())
            else:
                yield key, run

    def settle(self) -> None:
        """Note the facts about the runs, and release them."""
        rows: list[dict[str, Any]] = []  # for single transactions, where arrays do not pay
        for key, run in self._held:
            if isinstance(run, Transaction):
                rows.append(_row_of_single(key, run))
            elif run.groups < self._limits.few_groups:
                rows += (_row_of_plain(one) for one in run.each())
            else:
                self._parts += [table(rows, _PART), _of_plain(run)]
                rows = []
        self._parts.append(table(rows, _PART))
        self._held, self._held_bytes, self._last_window = [], 0, None

    def table(self) -> tuple[pa.Array, pa.Table]:
        """Return the keys, and the transactions (TRANSACTIONS), once all runs are settled."""
        whole = pa.concat_tables(self._parts)
        uncounted = array(sorted(self.uncounted), pa.int64())
        counted = pc.invert(pc.is_in(whole["key"], value_set=uncounted))
        transactions = whole.append_column("counted", counted).select(TRANSACTIONS.names)
        return whole["key"].combine_chunks(), transactions.cast(TRANSACTIONS)


def _of_plain(run: PlainRun) -> pa.Table:
    """Return the facts about the transactions of a plain run."""
    facts, without_thread = run_facts(run.plain, run.low, run.high)
    values, count = pa.py_buffer(facts), run.groups
    columns = {
        name: pa.Array.from_buffers(pa.int64(), count, [None, values], offset=place * count)
        for place, name in enumerate(FACTS)
    }
    if without_thread:
        thread = columns["thread_id"]
        columns["thread_id"] = pc.if_else(pc.less(thread, _ZERO), _NO_THREAD, thread)
    columns["key"] = columns["pos"]
    columns["file"] = pa.repeat(scalar(run.window.file.shown), count)
    columns["gtid"] = _gtids(run)
    return pa.Table.from_arrays([columns[name] for name in _PART.names], schema=_PART)


def _gtids(run: PlainRun) -> pa.Array:
    """Return the GTIDs of a plain run, null where there is none."""
    offsets, text, without = gtid_texts(run.plain, run.low, run.high)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    gtids = pa.Array.from_buffers(pa.string(), run.groups, buffers)
    return gtids if not without else pc.if_else(pc.equal(gtids, _EMPTY), _NO_TEXT, gtids)


def _row_of_plain(run: PlainRun) -> dict[str, Any]:
    """Return the same for a run of one transaction."""
    plain, group = run.plain, run.low
    commit_us, thread = plain.commit_us[group], plain.thread_id[group]
    ended_us = run.window.frame(run.last - 1).timestamp * 1_000_000
    ended_us = max(commit_us - commit_us % 1_000_000, ended_us)
    return {
        "key": run.start,
        "file": run.window.file.shown,
        "pos": run.start,
        "end_pos": run.end,
        "bytes": run.bytes,
        "commit_us": commit_us,
        "duration_us": max(0, ended_us - plain.begun_us[group]),
        "server_id": run.window.frame(run.first).server_id,
        "thread_id": None if thread < 0 else thread,
        "gtid": plain.gtid(group),
    }


def _row_of_single(key: int, run: Transaction) -> dict[str, Any]:
    return {
        "key": key,
        "file": run.file.shown,
        "pos": run.start.offset,
        "end_pos": run.end.offset,
        "bytes": run.bytes,
        "commit_us": run.commit_us,
        "duration_us": run.duration_us,
        "server_id": run.server_id,
        "thread_id": run.thread_id,
        "gtid": run.gtid,
    }
