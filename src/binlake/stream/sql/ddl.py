"""DDL statements of a log, for code that follows how tables change.

This module knows where a statement stands and whether it counts. A statement that failed on the
server counts only if the log shows the part of it that took effect. One in a transaction that was
rolled back does not count, and of MariaDB's two-phase ALTER only COMMIT ALTER counts.
`table/schema/history.py` decides what a statement means for a table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from binlake.events.body.collated_text import collation_text
from binlake.events.common.query import QueryEvent
from binlake.format.collations import charset_of
from binlake.format.flags import MODE_NO_BACKSLASH_ESCAPES
from binlake.stream.sql.executed import executed_text
from binlake.stream.sql.statements import without_set_statement
from binlake.values.position import ChainPosition


class DdlStatement(NamedTuple):
    """A CREATE, ALTER, DROP, RENAME or TRUNCATE that a server executed.

    `position` is the position of its event (of the payload event, for one inside a payload),
    `database` the current one. `thread_id` is the thread whose temporary tables it sees.
    `server_charset` is the name of the character set of new databases, None when it is not logged.
    `sql_mode` is the value that the log has for it, 0 if it has none. `connection_charset` is the
    character set to which the server converted the quoted texts of the statement, None when it is
    not logged. `sql` is without MariaDB's SET STATEMENT … FOR; invalid bytes are U+FFFD. If the
    statement failed, `sql` is the part that took effect. `flavour` is mysql or mariadb, "" if it is not known.
    `logs_cascades`: whether the server that wrote the log also logs the rows that actions of foreign keys change.
    """

    position: ChainPosition
    database: str
    sql: str
    thread_id: int
    server_charset: str | None
    sql_mode: int
    connection_charset: str | None = None
    flavour: str = ""
    logs_cascades: bool = False

    @property
    def no_backslash_escapes(self) -> bool:
        """Whether a backslash in a quoted text is a character like any other."""
        return bool(self.sql_mode & MODE_NO_BACKSLASH_ESCAPES)

    @classmethod
    def of(cls, event: QueryEvent, position: ChainPosition) -> DdlStatement:
        """The statement of a QUERY event at `position`."""
        values = event.status_values
        collations = values.get("charset", {})
        return cls(
            position,
            event.database,
            _text(event),
            event.thread_id,
            charset_of(collations.get("server")),
            values.get("sql_mode", 0),
            charset_of(collations.get("connection")),
            event.flavour,
            event.logs_cascades,
        )


def _text(event: QueryEvent) -> str:
    raw = without_set_statement(executed_text(event) or event.sql_raw)
    text = collation_text(event.client_collation, raw)
    # bytes that are not text are written as hex; most of a definition can still be read
    return raw.decode("utf-8", "replace") if text == f"0x{raw.hex()}" else text


#: Receives every DDL statement that counts, in commit order, before the events that follow it in
#: the log.
TakesDdl = Callable[[DdlStatement], None]


def ignore_ddl(_ddl: DdlStatement) -> None:
    """The `TakesDdl` for callers that ignore DDL."""
