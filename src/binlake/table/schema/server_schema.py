"""The current definitions of a live server: the last source for facts that a log lacks.

TABLE_MAP, the DDL of the log and a schema file have priority. The server knows only the current
form of a table; binlake ignores a definition that does not fit the log, and reports it. It asks
for a table once, when it meets a table that the log does not fully describe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import Lock

from binlake.errors import BinlogError, SchemaError, ServerError
from binlake.format.sql_names import quoted_name
from binlake.source.replica.connection import ServerConnection, connect_any
from binlake.source.replica.url import ServerUrl, is_server_url
from binlake.table.schema.create_table import parse_create_table
from binlake.table.schema.declared import (
    DeclaredSchema,
    DeclaredTable,
    ForeignKey,
    Lacks,
    charset_conflict,
    completed,
    lacks_something,
    misfit,
)
from binlake.table.schema.sql_tokens import UnreadableTableError
from binlake.table.text.sql_text import string_text
from binlake.values.plan import NameSource, TableDefinition

_NO_SUCH_TABLE = (1049, 1146)
_REFERENCES = (
    "SELECT CONCAT(k.TABLE_SCHEMA, '.', k.TABLE_NAME), k.CONSTRAINT_NAME, k.COLUMN_NAME,"
    " k.REFERENCED_COLUMN_NAME, r.DELETE_RULE, r.UPDATE_RULE"
    " FROM information_schema.KEY_COLUMN_USAGE k"
    " JOIN information_schema.REFERENTIAL_CONSTRAINTS r ON r.CONSTRAINT_SCHEMA ="
    " k.CONSTRAINT_SCHEMA"
    " AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME AND r.TABLE_NAME = k.TABLE_NAME"
    " WHERE k.REFERENCED_TABLE_SCHEMA = {} AND k.REFERENCED_TABLE_NAME = {}"
    " ORDER BY 1, 2, k.ORDINAL_POSITION"
)


class ServerSchema(DeclaredSchema):
    """The declarations `tables`, completed by the first server of `urls` that answers."""

    def __init__(self, urls: Sequence[ServerUrl], tables: Iterable[DeclaredTable] = ()) -> None:
        super().__init__(tables)
        self._urls = [url.log("") for url in urls]
        self._server: ServerConnection | None = None
        self._known: dict[tuple[str, str], DeclaredTable | str] = {}
        self._references: dict[tuple[str, str], list[tuple[str, ForeignKey]]] = {}
        self._lock = Lock()  # threads that decode ask about tables

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = None

    @property
    def _where(self) -> str:
        return (self._urls[0] if self._server is None else self._server.url).where

    def complete(
        self, definition: TableDefinition, lacks: Lacks = lacks_something
    ) -> tuple[TableDefinition, str | None]:
        """Complete a table definition; binlake queries the server for what is missing."""
        definition, problem = super().complete(definition, lacks)
        if not lacks(definition):
            return definition, problem
        found = self._declared(definition.database, definition.table)
        if isinstance(found, str):
            return definition, problem or f"{definition.full_name}: {found}"
        why = misfit(definition, found)
        if why is not None:
            return definition, problem or (
                f"{definition.full_name}: the current definition on {self._where} does not "
                f"fit the log: {why}; it is ignored"
            )
        return (
            completed(definition, found, NameSource.SCHEMA),
            charset_conflict(definition, found),
        )

    def references(self, database: str, table: str) -> Sequence[tuple[str, ForeignKey]]:
        """The foreign keys that refer to a table on the server now. Raises BinlogError."""
        name = (database, table)
        with self._lock:
            if name not in self._references:
                self._references[name] = _foreign_keys(
                    self._rows(_REFERENCES.format(*map(string_text, name)), 6), name
                )
            return self._references[name]

    def _declared(self, database: str, table: str) -> DeclaredTable | str:
        """Return the server's declaration, or the reason why there is none."""
        name = (database, table)
        with self._lock:
            if name not in self._known:
                self._known[name] = self._asked(database, table)
            return self._known[name]

    def _asked(self, database: str, table: str) -> DeclaredTable | str:
        try:
            text = self._row(f"SHOW CREATE TABLE {quoted_name(database, table)}")
        except ServerError as error:
            if error.code in _NO_SUCH_TABLE:
                return f"{self._where} has no such table any more"
            return f"cannot get its definition: {error.message}"
        except BinlogError as error:
            return f"cannot get its definition: {error.message}"
        try:
            declared = parse_create_table(text, database, {}, 1)
        except (UnreadableTableError, SchemaError) as error:
            return f"cannot read its definition from {self._where}: {error}"
        if declared is None:
            return f"{self._where} has no table of that name"
        return replace(declared, database=database)

    def _row(self, sql: str) -> str:
        """Return the second column of one row."""
        rows = self._rows(sql, 2)
        return rows[0][1] or "" if rows else ""

    def _rows(self, sql: str, columns: int) -> list[tuple[str | None, ...]]:
        """Return the rows of a query, which is repeated if the connection was lost meanwhile."""
        if self._server is not None:
            try:
                return self._server.rows(sql, columns)
            except ServerError as error:
                if not error.retryable:
                    raise
        self._server = connect_any(self._urls)
        self._server.lift_row_limits()
        self._server.execute("SET SESSION sql_mode = '', sql_quote_show_create = 1")
        return self._server.rows(sql, columns)


def _foreign_keys(
    rows: Iterable[tuple[str | None, ...]], parent: tuple[str, str]
) -> list[tuple[str, ForeignKey]]:
    """Return foreign keys from the rows of `_REFERENCES`, one for each of their columns."""
    keys: dict[tuple[str, str], ForeignKey] = {}
    for row in rows:
        child, name, column, parent_column, on_delete, on_update = (
            value or "" for value in row[:6]
        )
        known = keys.get((child, name))
        columns, parents = ((), ()) if known is None else (known.columns, known.parent_columns)
        keys[(child, name)] = ForeignKey(
            name, (*columns, column), parent, (*parents, parent_column), on_delete, on_update
        )
    return [(child, key) for (child, _), key in keys.items()]


class SourceSchema(ServerSchema):
    """The declarations `tables`, completed by the server from which a log is read."""

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
