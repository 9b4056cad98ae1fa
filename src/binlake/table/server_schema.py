"""The definitions that a live server has now: the hint of lowest order for what a log lacks.

What TABLE_MAP says, what the DDL of the log says and what a schema file says comes first. The
server knows only how a table is today; a definition that does not fit the log is not used, and
that is said. A table is asked for once, when it is met and the log does not tell all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from binlake.errors import BinlogError, SchemaError, ServerError
from binlake.source.replica.connection import ServerConnection, connect_any
from binlake.source.replica.url import ServerUrl, is_server_url
from binlake.table.create_table import UnreadableTableError, parse_create_table
from binlake.table.declared import (
    DeclaredSchema,
    DeclaredTable,
    charset_conflict,
    completed,
    lacks_something,
    misfit,
)
from binlake.values.plan import NameSource, TableDefinition

__all__ = ["ServerSchema", "SourceSchema"]

_NO_SUCH_TABLE = (1049, 1146)


class ServerSchema(DeclaredSchema):
    """The declarations `tables`, and behind them what the first of `urls` that answers says."""

    def __init__(self, urls: Sequence[ServerUrl], tables: Iterable[DeclaredTable] = ()) -> None:
        super().__init__(tables)
        self._urls = [url.log("") for url in urls]
        self._server: ServerConnection | None = None
        self._known: dict[tuple[str, str], DeclaredTable | str] = {}

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = None

    @property
    def _where(self) -> str:
        return (self._urls[0] if self._server is None else self._server.url).where

    def complete(self, definition: TableDefinition) -> tuple[TableDefinition, str | None]:
        """As of a file; what is still open is asked of the server."""
        definition, problem = super().complete(definition)
        if not lacks_something(definition):
            return definition, problem
        found = self._declared(definition.database, definition.table)
        if isinstance(found, str):
            return definition, problem or f"{definition.full_name}: {found}"
        why = misfit(definition, found)
        if why is not None:
            return definition, problem or (
                f"{definition.full_name}: the definition that {self._where} has now does not "
                f"fit the log: {why}; not used"
            )
        return (
            completed(definition, found, NameSource.SCHEMA),
            charset_conflict(definition, found),
        )

    def _declared(self, database: str, table: str) -> DeclaredTable | str:
        """The server's declaration, or why there is none."""
        name = (database, table)
        if name not in self._known:
            self._known[name] = self._asked(database, table)
        return self._known[name]

    def _asked(self, database: str, table: str) -> DeclaredTable | str:
        quoted = ".".join("`" + part.replace("`", "``") + "`" for part in (database, table))
        try:
            text = self._row(f"SHOW CREATE TABLE {quoted}")
        except ServerError as error:
            if error.code in _NO_SUCH_TABLE:
                return f"{self._where} has no such table any more"
            return f"its definition could not be asked for: {error.message}"
        except BinlogError as error:
            return f"its definition could not be asked for: {error.message}"
        try:
            declared = parse_create_table(text, database, {}, 1)
        except (UnreadableTableError, SchemaError) as error:
            return f"what {self._where} says of it cannot be read: {error}"
        if declared is None:
            return f"{self._where} has no table of that name"
        return replace(declared, database=database)

    def _row(self, sql: str) -> str:
        """The second column of one row; asked again where the connection was lost meanwhile."""
        if self._server is not None:
            try:
                return self._server.rows(sql)[0][1] or ""
            except ServerError as error:
                if not error.retryable:
                    raise
        self._server = connect_any(self._urls)
        self._server.execute("SET SESSION sql_mode = '', sql_quote_show_create = 1")
        return self._server.rows(sql)[0][1] or ""


class SourceSchema(ServerSchema):
    """The declarations `tables`, and behind them what the server says that a log is read from."""

    def __init__(self, urls: Sequence[ServerUrl], tables: Iterable[DeclaredTable] = ()) -> None:
        super().__init__(urls, tables)
        self._others: dict[ServerUrl, ServerSchema] = {}

    def of_logs(self, inputs: Iterable[str]) -> DeclaredSchema:
        named = next((path for path in inputs if is_server_url(path)), None)
        if named is None:
            return DeclaredSchema(self.tables)
        urls = [url.log("") for url in ServerUrl.parse_all(named)]
        if urls[0] in self._urls:
            return self
        return self._others.setdefault(urls[0], ServerSchema(urls, self.tables))

    def close(self) -> None:
        super().close()
        for other in self._others.values():
            other.close()
