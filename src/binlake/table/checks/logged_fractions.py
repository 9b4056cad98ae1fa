"""Find how many digits MariaDB's old temporal columns have, from the DDL of the logs, for
`verify`.

Until 10.1, and later with mysql56_temporal_format=OFF, MariaDB stores fractions of TIME, DATETIME
and TIMESTAMP in formats whose width no row event records. `verify` walks over the events of a
file, not over transactions, so it takes DDL in that order. It cannot check columns without a
declaration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlake.errors import BinlogError
from binlake.events.common.query import QueryEvent
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.format.event_types import GTID_EVENT, QUERY_COMPRESSED_EVENT, QUERY_EVENT
from binlake.stream.event_at import event_at
from binlake.stream.groups.group import NO_ALTER_YET
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.executed import executed_text
from binlake.stream.sql.statements import DDL, statement_kind
from binlake.table.schema.declared import OLD_TEMPORAL, DeclaredSchema
from binlake.table.schema.history import SchemaHistory
from binlake.values.plan import NameSource, TableDefinition
from binlake.values.position import ChainPosition

if TYPE_CHECKING:
    from binlake.source.window import Window

_QUERIES = (QUERY_EVENT, QUERY_COMPRESSED_EVENT)


class LoggedFractions:
    """The facts about such columns in the DDL of the files so far; for one check, over all its
    files.

    The logs of a directory with one base name belong to one server. `declared` are definitions for
    tables without DDL in the logs.
    """

    def __init__(self, declared: DeclaredSchema | None = None) -> None:
        self._declared = declared if declared is not None else DeclaredSchema()
        self._histories: dict[tuple[str, str], SchemaHistory] = {}
        self._history = SchemaHistory(self._declared)
        self._untold: set[int] = set()

    def statements(self, window: Window) -> list[int]:
        """Return the events of a window that contain a statement: `take` them in order."""
        if window.format.flavour != "mariadb":
            return []
        codes = bytes(window.block.type_code[: len(window)])
        return [index for index, code in enumerate(codes) if code in _QUERIES]

    def take(self, window: Window, index: int) -> bool:
        """Take a statement; return whether it may have changed a table."""
        try:
            event = event_at(window, index)
            before = event_at(window, index - 1) if _follows_gtid(window, index) else None
        except BinlogError:  # a separate problem
            return False
        if not isinstance(event, QueryEvent) or executed_text(event) is None:
            return False
        if isinstance(before, MariadbGtidEvent) and (before.flags_extra or 0) & NO_ALTER_YET:
            return False
        if statement_kind(event.sql_raw) is not DDL:
            return False
        file = window.file
        position = ChainPosition(file.ordinal, file.name, window.frame(index).offset)
        self._of(file.path, file.name).note(DdlStatement.of(event, position))
        return True

    def complete(self, event: TableMapEvent, definition: TableDefinition) -> TableDefinition:
        """Return the definition, with digits where they are open and DDL declares them."""
        self._untold.discard(event.table_id)
        if definition.flavour != "mariadb":
            return definition
        if all(column.type_code not in OLD_TEMPORAL for column in definition.columns):
            return definition
        found, _ = self._history.complete(definition)
        if found.name_source == NameSource.NONE or found is definition:
            self._untold.add(event.table_id)
        return found

    def is_untold(self, window: Window, index: int) -> bool:
        """Whether the rows of an event may be sound although they do not decode."""
        if not self._untold:
            return False
        event = event_at(window, index)
        return isinstance(event, RowsEvent) and event.table_id in self._untold

    def begin(self, window: Window) -> None:
        """Note that the following windows belong to this file."""
        self._history = self._of(window.file.path, window.file.name)

    def _of(self, path: str, name: str) -> SchemaHistory:
        key = (path.rpartition("/")[0], name.rpartition(".")[0])
        return self._histories.setdefault(key, SchemaHistory(self._declared))


def _follows_gtid(window: Window, index: int) -> bool:
    return index > 0 and window.block.type_code[index - 1] == GTID_EVENT
