"""Plain runs and single transactions: the input of row decoders.

Most of a row-format log consists of back-to-back plain transactions. They form one `PlainRun` per
window and are decoded natively, with no Python per transaction. Everything else is a `Transaction`
of its own, whose `pieces()` are the frames with its row changes: DDL, a statement, XA, a rolled
back or compressed transaction, one cut by the end of a window.

    for run in reader.runs():
        if isinstance(run, PlainRun):
            decode(run.window, run.first, run.last)          # GTID, commit time: in the frames
        else:
            for piece in run.pieces():                       # GTID, commit time: in the run
                decode(piece.window, piece.first, piece.last)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from binlake.core.events.plain_groups import GroupMask, PlainGroups
from binlake.errors import BinlogError
from binlake.format.sql_names import TableName
from binlake.values.frame import Frame
from binlake.values.position import ChainPosition

if TYPE_CHECKING:
    from binlake.events.mariadb.gtid import MariadbGtidEvent
    from binlake.events.mysql.gtid import GtidEvent
    from binlake.source.window import OpenLog, Window


class Outcome(StrEnum):
    """How a transaction ended, as far as the input shows."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"  # ROLLBACK, XA ROLLBACK
    PREPARED = "prepared"  # XA PREPARE, and no XA COMMIT or XA ROLLBACK in the input
    TORN = "torn"  # the log ends, or another transaction starts, before its end


@dataclass(frozen=True, slots=True)
class PlainRun:
    """Whole committed transactions, back to back: frames `first` to `last - 1` of `window`.

    They are the transactions [low, high) of `plain`, the plain transactions of the window, whose
    columns contain everything about them that headers and GTID events record.
    """

    window: Window
    plain: PlainGroups
    low: int
    high: int

    @property
    def first(self) -> int:
        """The first frame of the first transaction."""
        return int(self.plain.first[self.low])

    @property
    def last(self) -> int:
        """The frame after the last one of the last transaction."""
        return int(self.plain.last[self.high - 1])

    @property
    def groups(self) -> int:
        """How many transactions there are."""
        return self.high - self.low

    @property
    def start(self) -> int:
        """File offset of the first byte."""
        return self.plain.start(self.low)

    @property
    def end(self) -> int:
        """File offset of the byte after the last."""
        return self.plain.end(self.high - 1)

    @property
    def bytes(self) -> int:
        """The bytes of all of them."""
        return self.end - self.start

    @property
    def needs_file(self) -> bool:
        """Whether decoding reads the file again: for relay logs, to get the names of the source's
        logs.
        """
        return self.window.file.is_relay

    @property
    def mask(self) -> GroupMask:
        """Return a mask over its transactions, all true."""
        return GroupMask(self.plain, self.low, self.high)

    def part(self, low: int, high: int) -> PlainRun:
        """The transactions [low, high) of `plain`, which are in this run."""
        return replace(self, low=low, high=high)

    def each(self) -> Iterator[PlainRun]:
        """Yield its transactions, one by one."""
        return (self.part(group, group + 1) for group in range(self.low, self.high))


@dataclass(frozen=True, slots=True)
class Piece:
    """Frames `first` to `last - 1` of `window`, in order, all to be decoded.

    `outer` is None, or the frame of the TRANSACTION_PAYLOAD event they came out of: its
    offset and end are the position of their rows, whose ordinals go on from piece to piece of
    one payload, and `inner` is the ordinal inside the payload of the first frame. The window
    of such a piece counts offsets from the start of the inflated payload.
    """

    window: Window
    first: int
    last: int
    outer: Frame | None = None
    inner: int = 0

    def part(self, first: int, last: int) -> Piece:
        """Frames `first` to `last - 1` of these."""
        inner = self.inner + first - self.first if self.outer is not None else 0
        return Piece(self.window, first, last, self.outer, inner)

    def locate(self, error: BinlogError) -> BinlogError:
        """Return an error in these frames, with its position in the file: that of the payload
        event, for frames inside a payload.
        """
        if self.outer is not None:
            error.context["event_pos"] = self.outer.offset
        return error.at(file=self.window.file.name)


class Statement(NamedTuple):
    """A statement that a transaction holds as text: its position and its effect.

    `kind` is one of `stream.statements.KINDS`, or INCIDENT. `at` is the ordinal of the byte after
    it among the transaction's bytes. `undone` is true if a ROLLBACK TO undid it. `table` is the
    only table that statement-format DML or LOAD DATA changes, where that is certain (see `stream.sql.dml_targets`),
    else None. `empties`: it removes all rows of `table`, and is the only change of the transaction.
    """

    position: ChainPosition
    kind: str
    at: int
    undone: bool
    table: TableName | None = None
    empties: bool = False


@dataclass(slots=True)
class Transaction:
    """One transaction group that is not part of a plain run.

    `gtid_event` is its GTID event, if the log has one; `gtid` is in the notation of its flavour,
    or None. `commit_us`: microseconds since 1970 UTC, of the GTID event's immediate commit
    timestamp, else of the first event (whole seconds). For an XA transaction ended by a later XA
    COMMIT or XA ROLLBACK these, and `decided`, are those of that later group (the changes became
    visible there), while `start`, `end` and the positions of the rows are those of the group that
    holds them.

    `start` is the first byte of the group (its GTID event, or BEGIN, or the prefix of a
    statement), `end` the byte after its last event, in the file where it ends (relay logs: a group
    may go on in the next file). `decided` is the start of the group that decides: the sort key of
    commit order. `thread_id` is None if the log does not contain it. `bytes` in the file. `xid` is the
    number that an XID event commits, `xa_xid` the name of an XA transaction as servers write it.
    `duration_us` is in whole seconds, because event headers are: from the earliest time that its
    events have (a GTID event has that of the COMMIT, BEGIN that of the first statement) to the
    second of the commit time, or to the last event's time where that is later; the true duration
    is less than a second longer or shorter.

    `is_remarked`: the ledger has a warning about it. `needs_file`: decoding it reads the file
    again, because its frames are not all in memory, or for the reason in `PlainRun.needs_file`.
    `held_bytes` is the size of its frames, payloads inflated.
    """

    outcome: Outcome
    start: ChainPosition
    end: ChainPosition
    decided: ChainPosition
    commit_us: int
    server_id: int
    thread_id: int | None
    file: OpenLog
    statements: tuple[Statement, ...]
    bytes: int
    gtid_event: GtidEvent | MariadbGtidEvent | None
    xid: int | None
    xa_xid: str | None
    duration_us: int
    is_remarked: bool
    needs_file: bool
    held_bytes: int
    _pieces: Callable[[], Iterator[Piece]]

    @property
    def gtid(self) -> str | None:
        """The GTID in the notation of its flavour; None if the log gives it none."""
        return self.gtid_event.gtid if self.gtid_event is not None else None

    def pieces(self) -> Iterator[Piece]:
        """Yield the frames whose changes the transaction made, in order.

        Frames that a ROLLBACK TO SAVEPOINT undid are left out (unless the reader shows uncommitted
        changes). Frames that were dropped to bound memory are read again, payloads inflated as a
        stream, so you can iterate more than once (not over a pipe, which keeps the bytes until the
        next run is requested).
        """
        return self._pieces()


Run = PlainRun | Transaction
