"""The results of one pass over logs for the page: sums, the timeline, and the location of each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import scalar
from binlake.stream.runs import Transaction
from binlake.stream.statistics import Statistics
from binlake.ui.timeline import Timeline
from binlake.values.ledger import Ledger

#: A part of a log is not cut further below this many bytes.
_SEGMENT_BYTES = 4 << 20


class Segment(NamedTuple):
    """A part of a log: the transactions that start in [start, end) committed between two times."""

    file: str
    start: int
    end: int
    first_us: int
    last_us: int

    def overlaps(self, since_us: int | None, until_us: int | None) -> bool:
        """Whether a transaction of it may have committed in a span."""
        return (since_us is None or self.last_us >= since_us) and (
            until_us is None or self.first_us < until_us
        )


class Overview:
    """Sums over logs: a `TakesCounts`. One thread may fill it while others read it."""

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics
        self.timeline = Timeline()
        self.segments: list[Segment] = []
        self.lock = Lock()

    def add(self, transactions: pa.Table, changes: pa.Table, tables: tuple[str, ...]) -> None:
        """Add a batch of counted transactions."""
        with self.lock:
            self.statistics.add(transactions, changes, tables)
            self.timeline.add(transactions, changes, tables)
            for segment in _segments(transactions):
                self._append(segment)

    def add_statements(self, transaction: Transaction, ddl: Iterable[dict[str, Any]]) -> None:
        """Add the statements of a transaction."""
        with self.lock:
            self.statistics.add_statements(transaction, ddl)

    def _append(self, segment: Segment) -> None:
        last = self.segments[-1] if self.segments else None
        if last is None or last.file != segment.file or last.end - last.start >= _SEGMENT_BYTES:
            self.segments.append(segment)
            return
        self.segments[-1] = Segment(
            segment.file,
            min(last.start, segment.start),
            max(last.end, segment.end),
            min(last.first_us, segment.first_us),
            max(last.last_us, segment.last_us),
        )


def _segments(transactions: pa.Table) -> Iterator[Segment]:
    for file in pc.unique(transactions["file"]).to_pylist():
        mine = transactions.filter(pc.equal(transactions["file"], scalar(file)))
        times = pc.min_max(mine["commit_us"]).as_py()
        start, end = pc.min(mine["pos"]).as_py(), pc.max(mine["end_pos"]).as_py()
        yield Segment(file, start, end, times["min"], times["max"])


def document(overview: Overview, ledger: Ledger, *, bars: int) -> dict[str, Any]:
    """Return the document of the page's first view: the document of `binlake stats --json`, with the
    timeline by table in the place of `time`.
    """
    with overview.lock:
        found = overview.statistics.to_json(ledger)
        del found["time"]
        found["timeline"] = overview.timeline.buckets(bars=bars)
        return found
