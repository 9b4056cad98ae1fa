"""The DDL and TRUNCATE statements of a log, collected while its runs pass to the decoder of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from binlake.events.common.query import QueryEvent
from binlake.stream.log_events import LogEvent, query_events
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Outcome, Run, Transaction
from binlake.stream.spread import ReaderWithRuns, ReadsRuns
from binlake.stream.sql.ddl import TakesDdl
from binlake.stream.sql.executed import executed_text
from binlake.stream.sql.statements import DDL, TRUNCATE, statement_kind
from binlake.values.position import ChainPosition

WATCHED_KINDS = frozenset((DDL, TRUNCATE))


class WatchedStatement(NamedTuple):
    """A statement with its event, and its place in the chain."""

    kind: str
    found: LogEvent
    event: QueryEvent
    position: ChainPosition


def watched_statements(run: Run) -> Iterator[WatchedStatement]:
    """Yield the statements of a committed transaction that the server executed, in full or in part. Raises BinlogError."""
    if not isinstance(run, Transaction) or run.outcome is not Outcome.COMMITTED:
        return
    if not any(s.kind in WATCHED_KINDS and not s.undone for s in run.statements):
        return
    for found in query_events(run):
        event = found.event
        if not isinstance(event, QueryEvent) or executed_text(event) is None:
            continue
        kind = statement_kind(event.sql_raw)
        if kind in WATCHED_KINDS:
            position = ChainPosition(run.start.ordinal, found.file, found.pos)
            yield WatchedStatement(kind, found, event, position)


def watched_reader(reader: LogReader, see: Callable[[Run], None]) -> ReadsRuns:
    """Return a reader that passes each run to `see` before the decoder gets it."""

    def runs(on_ddl: TakesDdl) -> Iterator[Run]:
        for run in reader.runs(on_ddl, WATCHED_KINDS):
            see(run)
            yield run

    return ReaderWithRuns(reader, runs)
