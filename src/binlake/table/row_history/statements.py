"""The statements on a table that stand between its row changes: DDL and TRUNCATE."""

from __future__ import annotations

import re
from collections.abc import Mapping

from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Run, Transaction
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.ddl_targets import may_change, names
from binlake.stream.sql.statements import TRUNCATE
from binlake.stream.watched_statements import WatchedReader, WatchedStatement, watched_statements
from binlake.table.row_history.entries import TableStatement, moment
from binlake.values.option_texts import possible_names

__all__ = ["StatementsOfTable"]

_DROPS_DATABASE = re.compile(r"\s*DROP\s+(?:DATABASE|SCHEMA)\b", re.IGNORECASE)
#: Ordinal of the file, and offset.
_Order = tuple[int, int]


class StatementsOfTable:
    """Collects the statements on one table, `DATABASE.TABLE`, while a chain is read; `found` has them by place."""

    def __init__(self, name: str) -> None:
        self._names = possible_names(name)
        self.found: dict[_Order, TableStatement] = {}

    def watch(self, reader: LogReader) -> WatchedReader:
        """Return a reader of the same runs."""
        return WatchedReader(reader, self.see)

    def see(self, run: Run) -> None:
        """Take a run of the log. Raises BinlogError."""
        for statement in watched_statements(run):
            ddl = DdlStatement.of(statement.event, statement.position)
            if self._concerns(ddl):
                self._take(run, statement, ddl)

    def _take(self, run: Run, statement: WatchedStatement, ddl: DdlStatement) -> None:
        assert isinstance(run, Transaction), "only transactions have statements"
        kind, found, event, position = statement
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
            return any(names(ddl.sql, database) for database, _ in self._names)
        return any(may_change(ddl, *name) for name in self._names)
