"""Find how far a batch reaches: the transaction boundaries after a position in a log.

    scan = BoundaryScan(Limits(bytes=64 << 20), GtidProgress(position.gtid_set))
    scan.through(log, start)         # a finished file: to its end, or until a limit is reached
    scan.as_far_as(log, start)       # the newest file: what is still being written stays for later
    scan.offset, scan.full, scan.gtids.text, scan.commit_us

A boundary is the first byte of a file, and every byte after a whole transaction, or after an event
between transactions. The scan reads headers, with the same grouper as readers. It decodes no rows,
and counts them only for a limit on rows.

Limits count everything in the log, and never cut a transaction: a transaction that is larger than
a limit is a batch of its own. If a file ends inside a transaction and another file follows, a
crash ended it. That transaction never committed, and the boundary is the end of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from binlake.core.events.plain_groups import GroupMask
from binlake.errors import TruncatedError
from binlake.format.magic import FIRST_EVENT
from binlake.source.log_file import Damage, LogFile
from binlake.source.reader import TORN_TAIL
from binlake.stream.groups.grouper import Ended, Grouper
from binlake.stream.groups.transaction_of import transaction_of
from binlake.stream.positions.compressed_events import CompressedEvents
from binlake.stream.positions.gtid_progress import GtidProgress
from binlake.stream.positions.log_fingerprint import LogFingerprint
from binlake.stream.runs import Outcome, PlainRun, Run
from binlake.stream.sql.ddl import DdlStatement
from binlake.values.ledger import Ledger

if TYPE_CHECKING:
    from binlake.source.window import Window
    from binlake.stream.groups.group import Group

_LARGEST_WINDOW = 8 << 20
_SMALLEST_WINDOW = 64 << 10


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one batch: `bytes` of the log, `rows` changed, and `inflated_bytes`: bytes of the log if MySQL's compressed
    transactions and MariaDB's compressed events were not compressed. None means no limit.
    """

    bytes: int | None = None
    rows: int | None = None
    transactions: int | None = None
    inflated_bytes: int | None = None

    @classmethod
    def of_memory(cls, log_bytes: int) -> Limits:
        """Return limits for a batch that is decoded in memory, as if nothing in the log were compressed."""
        return cls(bytes=log_bytes, inflated_bytes=log_bytes)

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return self != UNLIMITED


UNLIMITED = Limits()

#: Keeps the wanted transactions of a plain run.
Keeps = Callable[[GroupMask], object]
#: Whether another transaction is wanted.
Wants = Callable[["Group"], bool]


class CountsRows(Protocol):
    """Counts the row changes of runs, and receives the DDL in between."""

    def count(self, run: Run) -> Sequence[tuple[int, int]]:
        """Return (start of a transaction in its file, its row changes) in order, for transactions
        with row changes. Raises FormatError.
        """
        ...

    def on_ddl(self, statement: DdlStatement) -> None:
        """Note that the scan passed a committed DDL statement."""
        ...


class BoundaryScan:
    """Scans file after file. `offset` is the boundary reached in the last file.

    `bytes`, `rows` and `transactions` are those in the batch so far, `commit_us` the commit time
    of the last transaction (None if there is none). `full` is true if a limit ended the scan.
    `gtids` is valid for `offset`. With a limit on rows, `rows` needs a counter.
    """

    def __init__(
        self,
        limits: Limits,
        gtids: GtidProgress,
        counter: CountsRows | None = None,
        on_damage: Damage = Damage.STOP,
    ) -> None:
        if limits.rows is not None and counter is None:
            raise ValueError("a limit on rows needs a counter")
        self.gtids = gtids
        self.offset = FIRST_EVENT
        self.bytes = self.rows = self.transactions = 0
        self._saved_bytes = 0  # by compression of transactions, and of events in earlier files
        self._compressed = CompressedEvents()
        self.commit_us: int | None = None
        self.full = False
        self._fingerprint: LogFingerprint | None = None
        self._limits = limits
        self._counter = counter if limits.rows is not None else None
        self._on_damage = on_damage
        self._start = FIRST_EVENT
        self._bytes_before = 0

    @property
    def fingerprint(self) -> LogFingerprint | None:
        """The events right before `offset`; None if the scan passed none in that file."""
        fingerprint = self._fingerprint
        return fingerprint if fingerprint is not None and fingerprint.end == self.offset else None

    def through(self, log: LogFile, start: int, stop: int | None = None) -> None:
        """Scan a finished file from the boundary `start` to its end, or to `stop`, or until a limit is
        reached. If `stop` is inside of a transaction, the boundary is before it. Raises BinlogError.
        """
        grouper, window = self._scan(log, start, stop)
        opened = grouper.open
        if opened is not None and window is not None and not self.full:
            goes_on = stop is not None and grouper.goes_on(self._windows(log, stop, None))
            self._reach(opened.start.offset if goes_on else opened.end.offset)
            self._leave_trail(window)

    def as_far_as(self, log: LogFile, start: int, stop: int | None = None) -> None:
        """Scan the newest file from the boundary `start`; an incomplete transaction at its end stays for later.

        Raises BinlogError.
        """
        try:
            grouper, _ = self._scan(log, start, stop)
        except TruncatedError as error:
            if error.kind != TORN_TAIL:
                raise
            return
        if grouper.open is not None and not self.full:
            self._reach(grouper.open.start.offset)

    # -- walking --------------------------------------------------------------------------------

    def _scan(self, log: LogFile, start: int, stop: int | None) -> tuple[Grouper, Window | None]:
        """Return the grouper with the transaction that is open at the end of the walk, and the last window."""
        self._saved_bytes += self._compressed.saved_bytes(self.offset)
        self._compressed = CompressedEvents()
        self._start = self.offset = start
        self._fingerprint = None
        self._bytes_before = self.bytes
        grouper = Grouper()
        window = None
        for window in self._windows(log, start, stop):
            self.gtids.pass_head(window)
            if self._limits.inflated_bytes is not None:
                self._compressed.enter(window)
            for item in grouper.window(window):
                if isinstance(item, Ended):
                    self._take_group(item)
                else:
                    self._take_run(item)
                if self.full:
                    self._leave_trail(window)
                    return grouper, window
            opened = grouper.open
            self._reach(window.end if opened is None else opened.start.offset)
            self._leave_trail(window)
            if opened is not None and self._too_much(opened, window):
                self.full = True
                return grouper, window
        return grouper, window

    def _windows(self, log: LogFile, start: int, stop: int | None) -> Iterator[Window]:
        size = _LARGEST_WINDOW
        if self._limits.bytes is not None:
            size = min(size, max(self._limits.bytes, _SMALLEST_WINDOW))
        return log.windows(
            start, stop, verify=False, ledger=Ledger(), on_damage=self._on_damage, window_bytes=size
        )

    def _leave_trail(self, window: Window) -> None:
        """Note the events before the boundary, if the boundary lies in this window."""
        if window.start < self.offset <= window.end:
            self._fingerprint = LogFingerprint.before(window, self.offset)

    def _reach(self, offset: int) -> None:
        self.offset = offset
        self.bytes = self._bytes_before + offset - self._start

    def _too_much(self, opened: Group, window: Window) -> bool:
        """Whether a transaction whose end is not reached yet already exceeds the limits of the
        batch.
        """
        limit = self._limits.bytes
        return (
            limit is not None
            and self.transactions > 0
            and self.bytes + window.end - opened.start.offset > limit
        )

    # -- taking ---------------------------------------------------------------------------------

    def _room(self, end: int, rows: int, transactions: int, saved_bytes: int = 0) -> bool:
        """Whether the batch may include bytes up to `end` of the file, and the given additional
        counts.
        """
        limits = self._limits
        size = self._bytes_before + end - self._start
        inflated = size + self._saved_bytes + saved_bytes + self._compressed.saved_bytes(end)
        return (
            (limits.bytes is None or size <= limits.bytes)
            and (limits.inflated_bytes is None or inflated <= limits.inflated_bytes)
            and (limits.rows is None or self.rows + rows <= limits.rows)
            and (
                limits.transactions is None
                or self.transactions + transactions <= limits.transactions
            )
        )

    def _note(self, end: int, rows: int, transactions: int) -> None:
        self._reach(end)
        self.rows += rows
        self.transactions += transactions
        limits = self._limits
        self.full = (
            self.bytes == limits.bytes
            or self.rows == limits.rows
            or self.transactions == limits.transactions
        )

    def _take_group(self, ended: Ended) -> None:
        group, outcome = ended
        rows = 0
        if self._counter is not None and outcome is not Outcome.TORN:
            counted = self._counter.count(transaction_of(group, outcome, group))
            rows = sum(count for _, count in counted)
        saved_bytes = max(0, group.frames.size - (group.end.offset - group.start.offset))
        if self.transactions and not self._room(group.end.offset, rows, 1, saved_bytes):
            self._reach(group.start.offset)
            self.full = True
            return
        if outcome is Outcome.COMMITTED and self._counter is not None:
            for statement in group.ddl:
                self._counter.on_ddl(statement)
        if outcome is not Outcome.TORN:
            self.gtids.add(group.gtid_event)
            self.commit_us = group.commit_us
        self._saved_bytes += saved_bytes
        self._note(group.end.offset, rows, 1)

    def _take_run(self, run: PlainRun) -> None:
        plain = run.plain
        rows_at = self._counter.count(run) if self._counter is not None else ()
        rows = sum(count for _, count in rows_at)
        if self._room(run.end, rows, run.groups):
            self._take_plain(run, rows)
            return
        high, rows = run.low, 0
        by_start = dict(rows_at)
        while high < run.high:
            more = by_start.get(plain.start(high), 0)
            fits = self._room(plain.end(high), rows + more, high + 1 - run.low)
            if not fits and (high > run.low or self.transactions):
                break
            high, rows = high + 1, rows + more
            if not fits:
                break
        if high > run.low:
            self._take_plain(run.part(run.low, high), rows)
        else:
            self._reach(run.start)
        self.full = True

    def _take_plain(self, run: PlainRun, rows: int) -> None:
        self.gtids.add_plain(run)
        self.commit_us = run.plain.commit_us[run.high - 1]
        self._note(run.end, rows, run.groups)


def seek(log: LogFile, gtids: GtidProgress, keep: Keeps, wants: Wants) -> int | None:
    """Return where the first wanted transaction of a file starts; None if a whole file has none.

    `gtids` receives the transactions before that position. Raises BinlogError.
    """
    grouper = Grouper()
    try:
        for window in log.windows(verify=False):
            gtids.pass_head(window)
            for item in grouper.window(window):
                if isinstance(item, Ended):
                    if wants(item.group):
                        return item.group.start.offset
                    if item.outcome is not Outcome.TORN:
                        gtids.add(item.group.gtid_event)
                    continue
                mask = item.mask
                keep(mask)
                wanted = mask.stretches()
                if not wanted:
                    gtids.add_plain(item)
                    continue
                first = wanted[0][0]
                if first > item.low:
                    gtids.add_plain(item.part(item.low, first))
                return item.plain.start(first)
    except TruncatedError as error:
        if error.kind != TORN_TAIL:
            raise
    return None
