"""The statements on a table that stand between its row changes: DDL and TRUNCATE."""

from __future__ import annotations

from collections.abc import Mapping

from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Run, Transaction
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.ddl_targets import may_change, renaming, without_comments
from binlake.stream.sql.statements import TRUNCATE
from binlake.stream.watched_statements import WatchedReader, WatchedStatement, watched_statements
from binlake.table.row_history.entries import TableStatement, moment
from binlake.values.option_texts import possible_names

__all__ = ["StatementsOfTable"]

#: Ordinal of the file, and offset.
_Order = tuple[int, int]
_Move = tuple[tuple[str, str] | None, tuple[str, str] | None]


class StatementsOfTable:
    """Collects the statements on the tables that the name `DATABASE.TABLE` may mean, while a chain is read."""

    def __init__(self, name: str) -> None:
        self._names = possible_names(name)
        self._found: dict[_Order, tuple[TableStatement, list[tuple[str, str]]]] = {}
        self._moves: dict[tuple[_Order, str, str], _Move] = {}

    def of(self, database: str, table: str) -> dict[_Order, TableStatement]:
        """Return the statements on one of the tables, by place."""
        return {
            place: statement
            for place, (statement, tables) in self._found.items()
            if (database, table) in tables
        }

    def moves_of(self, database: str, table: str) -> dict[_Order, _Move]:
        """Return, for each statement that moves the name of a table, the old name of the table that gets it, and the new
        name of the table that had it; by place, in the order of the log.
        """
        return {
            place: move
            for (place, *name), move in sorted(self._moves.items())
            if tuple(name) == (database, table)
        }

    def watch(self, reader: LogReader) -> WatchedReader:
        """Return a reader of the same runs."""
        return WatchedReader(reader, self.see)

    def see(self, run: Run) -> None:
        """Take a run of the log. Raises BinlogError."""
        for statement in watched_statements(run):
            ddl = DdlStatement.of(statement.event, statement.position)
            if tables := self._concerned(ddl):
                place = (statement.position.ordinal, statement.position.offset)
                self._found[place] = (self._made(run, statement, ddl), tables)
                plain = ddl._replace(sql=without_comments(ddl.sql))
                for name in tables:
                    if (move := renaming(plain, name)) is not None:
                        self._moves[place, *name] = move

    def _made(self, run: Run, statement: WatchedStatement, ddl: DdlStatement) -> TableStatement:
        assert isinstance(run, Transaction), "only transactions have statements"
        kind, found, event, position = statement
        invoker = event.status_values.get("invoker")
        return TableStatement(
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

    def _concerned(self, ddl: DdlStatement) -> list[tuple[str, str]]:
        """The tables that a statement may be about."""
        return [name for name in self._names if may_change(ddl, *name)]
