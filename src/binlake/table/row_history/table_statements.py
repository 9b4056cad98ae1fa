"""The statements on a table that stand between its row changes: DDL and TRUNCATE."""

from __future__ import annotations

from typing import NamedTuple

from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Run, Transaction
from binlake.stream.spread import ReadsRuns
from binlake.stream.sql.comments import without_comments
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.ddl_targets import changed_tables, dropped_database, may_change, takes_name
from binlake.stream.sql.statements import TRUNCATE
from binlake.stream.watched_statements import (
    WatchedStatement,
    watched_reader,
    watched_statements,
)
from binlake.table.row_history.entries import TableStatement
from binlake.table.schema.ddl_effects import brings_rows
from binlake.values.option_texts import possible_names
from binlake.values.times import utc_moment

#: Ordinal of the file, and offset.
_Order = tuple[int, int]
_UNCLEAR_TEXT = "its text does not determine that"
_UNLOGGED_ROWS = "it may give the table other rows, which the log does not contain"
_UNCLEAR_SPELLING = (
    "names that differ only in case are one name with lower_case_table_names=1, and no log contains"
    " this setting"
)


class TableEnd(NamedTuple):
    """A statement after which no row of the table lives on under its name, by its place in the log. `doubt` is the
    reason why this is not certain, or "".
    """

    place: _Order
    statement: TableStatement
    doubt: str


class StatementsOfTable:
    """Collects the statements on the tables that the name `DATABASE.TABLE` may mean, while a chain is read."""

    def __init__(self, name: str) -> None:
        self._names = possible_names(name)
        self._found: dict[_Order, tuple[TableStatement, list[tuple[str, str]]]] = {}
        self._ends: dict[tuple[str, str], list[TableEnd]] = {name: [] for name in self._names}

    def of(self, database: str, table: str) -> dict[_Order, TableStatement]:
        """Return the statements on one of the tables, by place."""
        return {
            place: statement
            for place, (statement, tables) in self._found.items()
            if (database, table) in tables
        }

    def ends_of(self, database: str, table: str) -> list[TableEnd]:
        """Return the statements that empty one of the tables, drop it or give its name away, in the order of the log."""
        return sorted(self._ends[database, table], key=lambda end: end.place)

    def watch(self, reader: LogReader) -> ReadsRuns:
        """Return a reader of the same runs."""
        return watched_reader(reader, self.see)

    def see(self, run: Run) -> None:
        """Take a run of the log. Raises BinlogError."""
        for statement in watched_statements(run):
            ddl = DdlStatement.of(statement.event, statement.position)
            if tables := [name for name in self._names if may_change(ddl, *name)]:
                place = (statement.position.ordinal, statement.position.offset)
                made = self._made(run, statement, ddl)
                self._found[place] = (made, tables)
                plain = without_comments(ddl)
                for name in tables:
                    if (end := _end(place, made, plain, name)) is not None:
                        self._ends[name].append(end)

    def _made(self, run: Run, statement: WatchedStatement, ddl: DdlStatement) -> TableStatement:
        assert isinstance(run, Transaction), "only transactions have statements"
        kind, found, event, position = statement
        return TableStatement(
            op="truncate" if kind == TRUNCATE else "ddl",
            database=ddl.database,
            ts=utc_moment(run.commit_us),
            gtid=run.gtid,
            server_id=run.server_id,
            file=position.file,
            pos=found.pos,
            end_pos=found.end_pos,
            thread_id=ddl.thread_id,
            user=event.user,
            query=ddl.sql,
        )


def _end(
    place: _Order, made: TableStatement, ddl: DdlStatement, name: tuple[str, str]
) -> TableEnd | None:
    """The end of the table of this name; None if the statement is certainly none."""
    if not may_change(ddl, *name):
        return None
    if brings_rows(ddl.sql):
        return TableEnd(place, made, _UNLOGGED_ROWS)
    is_end = True if made.ends_rows else takes_name(ddl, name)
    return None if is_end is False else TableEnd(place, made, _doubt(ddl, name, is_end))


def _doubt(ddl: DdlStatement, name: tuple[str, str], end: bool | None) -> str:
    """The reason why a statement may not be the end of a table: it must be about a table of exactly this spelling."""
    changed, dropped = changed_tables(ddl), dropped_database(ddl)
    if changed is None and dropped is None:
        return _UNCLEAR_TEXT
    is_spelled = name in (changed or ()) or dropped == name[0]
    return "" if end and is_spelled else _UNCLEAR_SPELLING
