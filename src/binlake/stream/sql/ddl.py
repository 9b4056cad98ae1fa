"""DDL statements of a log, as those take them who follow how tables change.

This room knows where a statement stands and whether it counts: one that a server says to have
failed does not, nor one of a transaction that was rolled back; of MariaDB's two-phase ALTER only
COMMIT ALTER does. What a statement means to a table is decided in `table/schema/history.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from binlake.events.body.texts import collation_text
from binlake.events.common.query import QueryEvent
from binlake.format.collations import COLLATIONS
from binlake.stream.runs import ChainPosition
from binlake.stream.sql.statements import without_set_statement

__all__ = ["DdlStatement", "TakesDdl", "nobody"]

_NO_BACKSLASH_ESCAPES = 1 << 20  # sql_mode; the same bit in both flavours


class DdlStatement(NamedTuple):
    """A CREATE, ALTER, DROP, RENAME or TRUNCATE that a server executed.

    `position` is the place of its event (of the payload event, for one inside a payload), `database`
    the current one, `thread_id` whose temporary tables it sees, `server_charset` the name of
    the character set of new databases, None when it is not logged.
    `sql` is without MariaDB's SET STATEMENT … FOR; bytes that are no text are U+FFFD.
    """

    position: ChainPosition
    database: str
    sql: str
    thread_id: int
    server_charset: str | None
    no_backslash_escapes: bool

    @classmethod
    def of(cls, event: QueryEvent, position: ChainPosition) -> DdlStatement:
        """The statement of a QUERY event at `position`."""
        values = event.status_values
        charset = values.get("charset")
        collation = None if charset is None else COLLATIONS.get(charset["server"])
        return cls(
            position,
            event.database,
            _text(event),
            event.thread_id,
            None if collation is None else collation.charset,
            bool(values.get("sql_mode", 0) & _NO_BACKSLASH_ESCAPES),
        )


def _text(event: QueryEvent) -> str:
    raw = without_set_statement(event.sql_raw)
    text = collation_text(event.client_collation, raw)
    # what is no text comes in hex; of a definition most can be told all the same
    return raw.decode("utf-8", "replace") if text == f"0x{raw.hex()}" else text


#: Told of every DDL statement that counts, in commit order, before what follows it in the log.
TakesDdl = Callable[[DdlStatement], None]


def nobody(_ddl: DdlStatement) -> None:
    """The `TakesDdl` of those who do not care."""
