"""One open transaction group: what its events so far contain, and when it ends.

The grammar, over the servers' versions (sources: MySQL sql/binlog.cc and sql/log_event.cc, MariaDB
sql/log.cc):

    group     = [GTID] BEGIN body end             MySQL; 5.0 to 5.6 without GTID events
              | GTID body end                     MariaDB 10.0 and newer: its GTID stands for BEGIN
              | [GTID] XA START body XA END XA_PREPARE
              | [GTID] {prefix} statement         a statement outside a transaction: it commits itself
              | [GTID] XA COMMIT | XA ROLLBACK    decides an XA transaction prepared earlier
              | GTID PAYLOAD                      any of the above after its GTID, compressed
              | [GTID] INCIDENT
              | {TABLE_MAP} {ROWS} ROWS(STMT_END) rows without BEGIN: some 5.1 servers and log tools
    end       = XID | COMMIT | ROLLBACK | XA ROLLBACK

- A group that ends in ROLLBACK is rolled back. A server logs one only because it also changed
  non-transactional tables. Its row events hold the changes of transactional engines, which were
  rolled back; row-format changes of other engines have groups of their own, with COMMIT. Its
  statements may have changed non-transactional tables, so they are counted. In a log of MariaDB, a
  DROP TABLE on its own commits nevertheless: the server writes one with ROLLBACK after a failed
  CREATE OR REPLACE TABLE.
- `SAVEPOINT` … `ROLLBACK TO` takes back the events in between.
- XA_PREPARE leaves the group prepared, unless it says one-phase, which commits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlake.core.events.control_text import text_step
from binlake.core.events.plain_groups import commit_time_us
from binlake.core.events.steps import Steps
from binlake.errors import BinlogError
from binlake.events.common.query import QueryEvent
from binlake.events.common.xa_prepare import XaPrepareEvent
from binlake.events.common.xid import XidEvent
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.format.event_types import (
    EXECUTE_LOAD_QUERY_EVENT,
    QUERY_COMPRESSED_EVENT,
    QUERY_EVENT,
)
from binlake.format.flags import FL_ROLLBACK_ALTER, FL_STANDALONE, FL_START_ALTER
from binlake.stream.event_at import event_at
from binlake.stream.groups.transaction_frames import HELD_BYTES, TransactionFrames
from binlake.stream.runs import Outcome, Statement
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.dml_targets import DmlTarget, target_of
from binlake.stream.sql.executed import executed_text
from binlake.stream.sql.statements import (
    DDL,
    DML,
    INCIDENT,
    LOAD_DATA,
    MAINTENANCE,
    TRUNCATE,
    Xid,
    statement_kind,
    xid_of_statement,
)
from binlake.values.frame import Frame
from binlake.values.position import ChainPosition
from binlake.values.step import Step

if TYPE_CHECKING:
    from binlake.source.window import Window

_DROP_TABLE = re.compile(r"\s*DROP\s+TABLE\b", re.IGNORECASE)

#: Steps of events that name a transaction, and of statements that begin one.
GTID_STEPS = frozenset((Step.GTID, Step.GTID_OPEN, Step.GTID_OTHER))
BEGIN_STEPS = frozenset((Step.BEGIN, Step.XA_START))
#: Steps that start a transaction, and so end one that is still open.
OPENING = GTID_STEPS | BEGIN_STEPS
#: Flags of a GTID whose ALTER TABLE has not been executed yet, or never will be.
NO_ALTER_YET = FL_START_ALTER | FL_ROLLBACK_ALTER


class Group:
    """An open group. `take` adds a frame and returns the outcome once the group has ended.

    The frames hold at most `held_bytes` of windows.
    """

    __slots__ = (
        "_fresh",
        "_has_rows",
        "_savepoints",
        "at",
        "begun",
        "begun_us",
        "ddl",
        "decides",
        "end",
        "file",
        "file_bytes",
        "first_us",
        "frames",
        "gtid_event",
        "last_us",
        "outer",
        "server_id",
        "start",
        "statements",
        "thread_id",
        "truncates",
        "undone",
        "warnings",
        "xid",
        "xid_event",
    )  # fmt: skip

    def __init__(self, window: Window, index: int, held_bytes: int = HELD_BYTES) -> None:
        frame = window.frame(index)
        self.file = window.file
        self.start = ChainPosition(window.file.ordinal, window.file.name, frame.offset)
        self.end = self.start
        self.file_bytes = 0
        self.at = 0  # ordinal of the byte after the current frame, in the frames
        self.outer: Frame | None = None  # the payload event whose events are taken
        self.first_us = frame.timestamp * 1_000_000
        self.last_us = self.first_us
        # A GTID event has the time of the COMMIT; what follows it that of the first statement.
        self.begun_us = self.first_us
        self.server_id = frame.server_id
        self.frames = TransactionFrames(held_bytes)
        self.gtid_event: GtidEvent | MariadbGtidEvent | None = None
        self.xid_event: XidEvent | None = None
        self.thread_id: int | None = None
        self.begun = False  # BEGIN, XA START or a GTID that stands for BEGIN
        self.statements: list[Statement] = []
        self.ddl: list[DdlStatement] = []
        self.truncates: list[DdlStatement] = []
        self.undone: list[tuple[int, int]] = []
        self.xid: Xid | None = None  # of a prepared group
        # an XA COMMIT or XA ROLLBACK of a transaction prepared earlier, and how it ends that
        self.decides: tuple[Xid | None, Outcome] | None = None
        self.warnings: list[str] = []
        self._fresh = True  # nothing but GTID and neutral events
        self._has_rows = False  # may be true of a group that has none
        self._savepoints: dict[bytes, int] = {}

    @property
    def gtid(self) -> str | None:
        """The GTID in the notation of its flavour, or None."""
        return self.gtid_event.gtid if self.gtid_event is not None else None

    @property
    def commit_us(self) -> int:
        """Commit time: see `Transaction.commit_us`."""
        event = self.gtid_event
        immediate_us = event.immediate_commit_us if isinstance(event, GtidEvent) else None
        return commit_time_us(immediate_us or 0, self.first_us // 1_000_000)

    def interrupted_by(self, step: int) -> bool:
        """Whether a frame of this step starts another transaction, so that this one is torn."""
        return step in GTID_STEPS or (step in BEGIN_STEPS and not self._fresh)

    def note_time(self, window: Window, index: int) -> None:
        """Add frame `index` to the group. It may be older than the frames before it."""
        self.begun_us = min(self.begun_us, window.frame(index).timestamp * 1_000_000)

    def pass_body(self) -> None:
        """Note that frames of the body were added which `take` need not see."""
        self._fresh = False
        self._has_rows = True

    def take(self, step: int, window: Window, index: int, steps: Steps) -> Outcome | None:
        """Apply frame `index`, which the frames of the group already hold, to the state of the
        group.

        Returns the outcome if the group ends with this frame. Raises FormatError.
        """
        if step in GTID_STEPS:
            self._gtid(window, index, step)
            return None
        if step != Step.NEUTRAL:
            self._fresh = False
        handler = _HANDLERS.get(step)
        return handler(self, window, index, steps) if handler is not None else None

    # -- one method per step; each returns the outcome if the group ends with it ---------------

    def _gtid(self, window: Window, index: int, step: int) -> None:
        event = event_at(window, index)
        if isinstance(event, MariadbGtidEvent):
            self.begun = not event.flags & FL_STANDALONE
            self.thread_id = event.thread_id
            self.gtid_event = event
        elif isinstance(event, GtidEvent):
            self.gtid_event = event

    def _begin(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        self.begun = True
        self._thread(window, index, steps)
        return None

    def _commit(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        event = event_at(window, index)
        self.xid_event = event if isinstance(event, XidEvent) else None
        return Outcome.COMMITTED

    def _commit_text(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        self._thread(window, index, steps)
        return Outcome.COMMITTED

    def _rollback(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        self._thread(window, index, steps)
        return Outcome.COMMITTED if self._only_drops_tables() else Outcome.ROLLED_BACK

    def _only_drops_tables(self) -> bool:
        """Whether the group is the one that MariaDB writes after a failed CREATE OR REPLACE TABLE."""
        if not isinstance(self.gtid_event, MariadbGtidEvent) or self._has_rows or self.undone:
            return False
        if not self.ddl or len(self.ddl) != len(self.statements):
            return False
        return all(_DROP_TABLE.match(ddl.sql) for ddl in self.ddl)

    def _xa_prepare(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        event = event_at(window, index)
        if isinstance(event, XaPrepareEvent):
            if event.one_phase:
                return Outcome.COMMITTED
            self.xid = (event.format_id, event.gtrid, event.bqual)
        else:
            self.xid = self._named_xid(window, index, steps)
        return Outcome.PREPARED

    def _xa_commit(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        return self._decide(window, index, steps, Outcome.COMMITTED)

    def _xa_rollback(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        return self._decide(window, index, steps, Outcome.ROLLED_BACK)

    def _decide(self, window: Window, index: int, steps: Steps, outcome: Outcome) -> Outcome | None:
        self._thread(window, index, steps)
        if not self.begun:  # else it ends the XA transaction that this very group holds
            self.decides = (self._named_xid(window, index, steps), outcome)
        return outcome

    def _statement(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        type_code = window.frame(index).type_code
        kind = LOAD_DATA  # what all other statement events do
        target = None
        if type_code in (QUERY_EVENT, QUERY_COMPRESSED_EVENT):
            self._thread(window, index, steps)
            kind = statement_kind(_text(window, index, steps))
            target = _target(window, index) if kind == DML else None
        elif type_code == EXECUTE_LOAD_QUERY_EVENT:
            target = _target(window, index)
        kind = self._record(window, index, kind, target)
        taken = {DDL: self.ddl, TRUNCATE: self.truncates}.get(kind)
        if taken is not None:
            self._take_text(window, index, taken)
        return None if self.begun else Outcome.COMMITTED

    def _incident(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        self._record(window, index, INCIDENT)
        return None if self.begun else Outcome.COMMITTED

    def _load_failed(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        return None if self.begun else Outcome.ROLLED_BACK

    def _rows(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        self._has_rows = True
        return None

    def _rows_end(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        self._has_rows = True
        return None if self.begun else Outcome.COMMITTED

    def _savepoint(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        name = text_step(_text(window, index, steps))[1]
        self._savepoints.pop(name, None)  # set again: the savepoint moves and becomes the latest
        self._savepoints[name] = self.at
        return None

    def _rollback_to(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        name = text_step(_text(window, index, steps))[1]
        low = self._savepoints.get(name)
        if low is None:
            # servers before 5.5 could lose the SAVEPOINT that a ROLLBACK TO names
            self.warnings.append(
                f"{self._position(window, index)}: ROLLBACK TO SAVEPOINT"
                f" {name.decode('utf-8', 'replace')}, which the log does not set, takes"
                " nothing back"
            )
            return None
        self._forget_savepoints_after(name)
        while self.undone and self.undone[-1][0] >= low:
            self.undone.pop()
        self.undone.append((low, self.at))
        self.statements = [s if s.at < low else s._replace(undone=True) for s in self.statements]
        return None

    def _release(self, window: Window, index: int, steps: Steps) -> Outcome | None:
        name = text_step(_text(window, index, steps))[1]
        if name in self._savepoints:
            self._forget_savepoints_after(name)
            del self._savepoints[name]
        return None

    def _forget_savepoints_after(self, name: bytes) -> None:
        names = list(self._savepoints)
        for later in names[names.index(name) + 1 :]:
            del self._savepoints[later]

    # -- facts --------------------------------------------------------------------------------

    def _position(self, window: Window, index: int) -> ChainPosition:
        """The position of an event in its file; for an event inside a payload, the position of the payload event."""
        frame = self.outer if self.outer is not None else window.frame(index)
        return ChainPosition(window.file.ordinal, window.file.name, frame.offset)

    def noted_statements(self) -> tuple[Statement, ...]:
        """The statements of the group, when it has ended."""
        if not self._has_rows and len(self.statements) == 1:
            return tuple(self.statements)
        # other changes of the group may come before the one that empties the table, or after it
        return tuple(s._replace(empties=False) if s.empties else s for s in self.statements)

    def _record(
        self, window: Window, index: int, kind: str, target: DmlTarget | None = None
    ) -> str:
        """Note a statement; return its kind in this group."""
        event = self.gtid_event
        if isinstance(event, MariadbGtidEvent) and (event.flags_extra or 0) & NO_ALTER_YET:
            kind = MAINTENANCE  # START ALTER, ROLLBACK ALTER: what COMMIT ALTER does is counted
        noted = Statement(self._position(window, index), kind, self.at, False)
        if target is not None:
            noted = noted._replace(table=target.table, empties=target.empties)
        self.statements.append(noted)
        return kind

    def _take_text(self, window: Window, index: int, into: list[DdlStatement]) -> None:
        position = self._position(window, index)
        try:
            event = event_at(window, index)
        except BinlogError as error:
            error.context["event_pos"] = position.offset
            raise
        if isinstance(event, QueryEvent) and executed_text(event) is not None:
            into.append(DdlStatement.of(event, position))

    def _thread(self, window: Window, index: int, steps: Steps) -> None:
        if self.thread_id is None and window.frame(index).type_code == QUERY_EVENT:
            self.thread_id = steps.query_thread(index)

    def _named_xid(self, window: Window, index: int, steps: Steps) -> Xid | None:
        xid = xid_of_statement(_text(window, index, steps))
        if xid is None:
            self.warnings.append(f"{self._position(window, index)}: an XA statement without an XID")
        return xid


def _text(window: Window, index: int, steps: Steps) -> bytes:
    """The text of a QUERY event, compressed or not."""
    frame = window.frame(index)
    try:
        if frame.type_code == QUERY_EVENT and window.format.binlog_version >= 4:
            return steps.query_text(index)
        event = event_at(window, index)
        return event.sql_raw if isinstance(event, QueryEvent) else b""
    except BinlogError as error:
        raise error.at(file=window.file.name, event_pos=frame.offset) from None


def _target(window: Window, index: int) -> DmlTarget | None:
    """The table that a statement of a QUERY event, or a LOAD DATA, changes, if that is certain."""
    try:
        event = event_at(window, index)
    except BinlogError:
        return None  # the event is only counted, for which nothing of it has to be decoded
    return target_of(event) if isinstance(event, QueryEvent) else None


_HANDLERS = {
    int(step): handler
    for step, handler in {
        Step.BEGIN: Group._begin,
        Step.XA_START: Group._begin,
        Step.XID: Group._commit,
        Step.COMMIT: Group._commit_text,
        Step.ROLLBACK: Group._rollback,
        Step.STATEMENT: Group._statement,
        Step.SAVEPOINT: Group._savepoint,
        Step.ROLLBACK_TO: Group._rollback_to,
        Step.RELEASE: Group._release,
        Step.XA_PREPARE: Group._xa_prepare,
        Step.XA_COMMIT: Group._xa_commit,
        Step.XA_ROLLBACK: Group._xa_rollback,
        Step.ROWS: Group._rows,
        Step.ROWS_END: Group._rows_end,
        Step.INCIDENT: Group._incident,
        Step.LOAD_FAILED: Group._load_failed,
    }.items()
}
