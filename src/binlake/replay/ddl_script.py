"""The statements of a log that are no row changes, for their places in a script of row changes.

    -- 2026-11-21T07:09:00.123456Z, 3e11fa47-…:5, binlog.000001:1234
    use `shop`;
    SET …;                                      the session's variables, as the log tells them
    ALTER TABLE orders ADD COLUMN note TEXT;

DDL, TRUNCATE and account management are executed where the log has them. Triggers and events wait for
the end (`deferred.py`). Statements that follow each other share a block, which leaves the session's variables
as they were.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from binlake.errors import IncompleteError, UnsupportedError
from binlake.events.common.query import QueryEvent
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.printable import printable
from binlake.replay.client import delimited
from binlake.replay.database_names import with_databases
from binlake.replay.deferred import BY_OTHER_MEANS, Deferring, sql_bytes
from binlake.replay.event_text import DELIMITER
from binlake.replay.mentioned_tables import mentioned_tables, tables_to_change
from binlake.replay.programs import stores_text
from binlake.replay.replay_session import MariadbSession, MysqlSession, ReplaySession
from binlake.stream.log_events import LogEvent, query_events
from binlake.stream.runs import Outcome, Run, Transaction
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.executed import executed_text, with_if_exists
from binlake.stream.sql.statements import ACCOUNT, DDL, TRUNCATE, statement_kind
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition
from binlake.values.table_filter import TableFilter
from binlake.values.times import utc_text

#: The kinds of statements that are part of the script.
SHOWN_KINDS = frozenset((DDL, TRUNCATE, ACCOUNT))

# MySQL logs CREATE TABLE … SELECT as one transaction of the table and its rows; a server would take no
# INSERT after such a statement
_TABLE_OF_ROWS = re.compile(
    rb"\A(CREATE TABLE .*?\n\)) START TRANSACTION(?=\s|\Z)", re.DOTALL | re.IGNORECASE
)
_KEPT = {
    "mysql": ("foreign_key_checks", "unique_checks", "autocommit"),
    "mariadb": (
        *("foreign_key_checks", "unique_checks", "autocommit", "check_constraint_checks"),
        *("sql_if_exists", "system_versioning_insert_history"),
    ),
}
_KEEPS_COMMENTS = (
    "the script creates triggers, events or routines with comments: run it with the client's option --comments,"
    " without which clients of MariaDB and of older MySQL remove these comments"
)
_SESSIONS: Mapping[str, type[ReplaySession]] = {"mysql": MysqlSession, "mariadb": MariadbSession}


class _Said(NamedTuple):
    """A statement of the script: its event, its text now, and the comment about its place.

    `stores_text`: the server stores a part of the statement as it is.
    """

    event: QueryEvent
    sql: bytes
    place: str
    position: ChainPosition
    stores_text: bool


class DdlScript:
    """Makes the text of one log's statements; `printed` counts them.

    `databases` gives new names to databases of the log. Statements that stay out of the script (of other
    tables than the wanted ones, or that failed on the server) are counted in `ledger`, or refused, as changes
    that are not shown.
    """

    def __init__(self, options: ReadOptions, databases: Mapping[str, str], ledger: Ledger) -> None:
        self._options = options
        self._databases = databases
        self._ledger = ledger
        self._tables = TableFilter(options)
        self._deferring = Deferring()
        self._waiting: dict[int, _Said] = {}
        self._session: ReplaySession | None = None  # of the block that is open
        self._kept: tuple[str, ...] = ()
        self.printed = 0

    def before(self, run: Run) -> bytes:
        """Return the statements to execute before the row changes of a run; b"" if there are none.

        Raises BinlogError.
        """
        if not isinstance(run, Transaction) or not self.may_concern(run):
            return b""
        said = [s for event in query_events(run) if (s := self._taken(run, event)) is not None]
        return self._block(said)

    @staticmethod
    def may_concern(run: Run) -> bool:
        """Whether `before` may have something for a run; changes nothing here."""
        if not isinstance(run, Transaction) or run.outcome is not Outcome.COMMITTED:
            return False
        return any(s.kind in SHOWN_KINDS and not s.undone for s in run.statements)

    def leave(self) -> bytes:
        """Return the SQL that stands between statements and row changes; b"" if none is needed."""
        if self._session is None:
            return b""
        self._session = None
        restored = ", ".join(f"{name} = @binlake_{name}" for name in self._kept)
        return b"DELIMITER ;\n" + f"SET timestamp = DEFAULT, {restored};\n".encode()

    def closing(self) -> bytes:
        """Return the statements that waited for the end, and the end of the script."""
        said = []
        for waiting in self._deferring:
            one = self._waiting[waiting.number]
            with _at(one.position):
                said.append(one._replace(sql=waiting.text(one.sql, one.event.client_charset)))
        return self._block(said) + self.leave()

    # -- choosing ------------------------------------------------------------------------------

    def _taken(self, run: Transaction, found: LogEvent) -> _Said | None:
        event = found.event
        if not isinstance(event, QueryEvent):
            return None
        kind = statement_kind(event.sql_raw)
        if kind not in SHOWN_KINDS:
            return None
        position = ChainPosition(run.start.ordinal, found.file, found.pos)
        ddl = DdlStatement.of(event, position)
        why = self._left_out(event, kind, ddl)
        if why is not None:
            self._count(kind, position, why)
            return None
        gtid = f", {run.gtid}" if run.gtid else ""
        place = f"{utc_text(run.commit_us)}{gtid}, {printable(str(position))}"
        text = executed_text(event) or event.sql_raw
        if isinstance(run.gtid_event, MariadbGtidEvent):
            text = with_if_exists(text)  # its log names tables that did not exist, too
        text = _TABLE_OF_ROWS.sub(rb"\1", text)
        said = _Said(event, text, place, position, stores_text(ddl.sql))
        with _at(position):
            fate = self._deferring.take(ddl)
        if fate is None:
            return said
        if isinstance(fate, str):
            if not fate:
                return None
            with _at(position):
                text = sql_bytes(fate, event.client_charset)
            return said._replace(sql=text)
        self._waiting[fate.number] = said
        return None

    def _left_out(self, event: QueryEvent, kind: str, ddl: DdlStatement) -> str | None:
        """Why a statement is not part of the script, None if it is."""
        if executed_text(event) is None:
            return f"failed on the server with error {event.error_code}"
        if self._options.table or self._options.exclude_table:
            return None if self._is_wanted(kind, ddl) else ""
        return None

    def _is_wanted(self, kind: str, ddl: DdlStatement) -> bool:
        """Whether a statement may concern a wanted table.

        Without the option table, all tables but the excluded ones are wanted, and so is a statement that changes no
        table (CREATE DATABASE, CREATE VIEW, GRANT): unless it mentions an excluded table.
        """
        changed = tables_to_change(ddl, kind)
        if changed or self._options.table:
            return any(self._tables.may_want(*name) for name in changed)
        return all(self._tables.may_want(*name) for name in mentioned_tables(ddl, kind))

    def _count(self, kind: str, position: ChainPosition, why: str) -> None:
        if why and self._options.on_unshown == "error":
            raise IncompleteError(
                f"a statement ({kind}) {why}: the log does not show which part of it was executed",
                file=position.file,
                event_pos=position.offset,
                hint="on_unshown=count leaves it out and counts it",
            )
        if why:
            self._ledger.warn(f"{position}: a statement ({kind}) {why}, and is left out")
        self._ledger.unshown[kind] += 1
        self._ledger.unshown_of_others += not why

    # -- text ----------------------------------------------------------------------------------

    def _block(self, said: list[_Said]) -> bytes:
        """Statements, in order."""
        if not said:
            return b""
        self.printed += len(said)
        lines: list[bytes] = []
        if self._session is None:
            flavour = said[0].event.flavour
            self._kept = _KEPT[flavour]
            self._session = _SESSIONS[flavour](short_form=False)
            kept = ", ".join(f"@binlake_{name} = @@{name}" for name in self._kept)
            lines = [f"SET {kept};\n".encode(), b"DELIMITER " + DELIMITER + b"\n"]
        for one in said:
            lines += self._statement(one, self._session)
        return b"".join(lines)

    def _statement(self, said: _Said, session: ReplaySession) -> Iterator[bytes]:
        event, position = said.event, said.position
        yield f"\n-- {said.place}\n".encode()
        yield from session.prepare(event, self._databases.get(event.database, event.database))
        with _at(position):
            sql = with_databases(said.sql, self._databases)
        lexer = session.lexer(event.flavour)
        problem = lexer.misreading(sql)
        if problem is not None:
            raise UnsupportedError(
                f"a command-line client would misread the statement, because {problem}",
                file=position.file,
                event_pos=position.offset,
                hint=BY_OTHER_MEANS,
            )
        if said.stores_text and lexer.has_comments(sql):
            self._ledger.warn(_KEEPS_COMMENTS)
        yield delimited(sql)


@contextmanager
def _at(position: ChainPosition) -> Iterator[None]:
    """Add a position to errors about the statement there."""
    try:
        yield
    except UnsupportedError as error:
        raise error.at(file=position.file, event_pos=position.offset) from None
