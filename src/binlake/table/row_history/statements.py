"""The statements on a table that stand between its row changes: DDL and TRUNCATE."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from binlake.events.common.query import QueryEvent
from binlake.stream.log_events import LogEvent, query_events
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import ChainPosition, Outcome, Run, Transaction
from binlake.stream.sql.ddl import DdlStatement, TakesDdl
from binlake.stream.sql.ddl_targets import may_change, names
from binlake.stream.sql.statements import DDL, TRUNCATE, statement_kind
from binlake.table.row_history.entries import TableStatement, moment

__all__ = ["StatementsOfTable"]

_KINDS = frozenset((DDL, TRUNCATE))
_DROPS_DATABASE = re.compile(r"\s*DROP\s+(?:DATABASE|SCHEMA)\b", re.IGNORECASE)
#: Ordinal of the file, and offset.
_Order = tuple[int, int]


class StatementsOfTable:
    """Collects the statements on one table while a chain is read; `found` has them by place."""

    def __init__(self, database: str, table: str) -> None:
        self._database = database
        self._table = table
        self.found: dict[_Order, TableStatement] = {}

    def watch(self, reader: LogReader) -> _WatchedReader:
        """Return a reader of the same runs."""
        return _WatchedReader(reader, self)

    def see(self, run: Run) -> None:
        """Take a run of the log. Raises BinlogError."""
        if not isinstance(run, Transaction) or run.outcome is not Outcome.COMMITTED:
            return
        if not any(s.kind in _KINDS and not s.undone for s in run.statements):
            return
        for found in query_events(run):
            event = found.event
            if isinstance(event, QueryEvent) and not event.error_code:
                self._take(run, found, event)

    def _take(self, run: Transaction, found: LogEvent, event: QueryEvent) -> None:
        kind = statement_kind(event.sql_raw)
        position = ChainPosition(run.start.ordinal, found.file, found.pos)
        if kind not in _KINDS or not self._concerns(ddl := DdlStatement.of(event, position)):
            return
        invoker = event.status_values.get("invoker")
        self.found[position.ordinal, position.offset] = TableStatement(
            op="truncate" if kind == TRUNCATE else "ddl",
            database=ddl.database,
            ts=moment(run.commit_us),
            gtid=run.gtid,
            server_id=run.server_id,
            file=position.file,
            pos=found.pos,
            end_pos=found.end_pos,
            thread_id=ddl.thread_id,
            user=f"{invoker['user']}@{invoker['host']}" if isinstance(invoker, Mapping) else None,
            query=ddl.sql,
        )

    def _concerns(self, ddl: DdlStatement) -> bool:
        if _DROPS_DATABASE.match(ddl.sql):
            return names(ddl.sql, self._database)
        return may_change(ddl, self._database, self._table)


class _WatchedReader:
    def __init__(self, reader: LogReader, statements: StatementsOfTable) -> None:
        self._reader = reader
        self._statements = statements

    def runs(self, on_ddl: TakesDdl) -> Iterator[Run]:
        for run in self._reader.runs(on_ddl, _KINDS):
            self._statements.see(run)
            yield run

    def ddl_before(self) -> Iterable[DdlStatement]:
        return self._reader.ddl_before()
