"""The tables of the server that a mirror wants, and their current definitions."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from binlake.errors import (
    ConnectionLostError,
    OptionError,
    ServerError,
    UnsupportedError,
)
from binlake.follow.server_logs import patiently
from binlake.format.sql_names import TableName, lower_name, quoted_name
from binlake.mirror.options import MirrorOptions
from binlake.mirror.selection import TableSelection
from binlake.mirror.source.host import SourceHost
from binlake.mirror.source.refusals import AlteredError
from binlake.mirror.table_rules import check_lake_name
from binlake.snapshot.definition import definition_of
from binlake.snapshot.read_session import open_session, raw_definitions
from binlake.snapshot.tables import (
    SYSTEM_SCHEMAS,
    SourceTable,
    and_is_table,
    declared_table,
    has_transactions,
    read_table,
)
from binlake.source.replica.connection import ServerConnection
from binlake.source.replica.health_settings import LogFilters
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.ddl_targets import changed_tables
from binlake.table.schema.declared import DeclaredTable
from binlake.table.schema.schema_text import create_table_text, text_with_default
from binlake.values.position import Position
from binlake.values.table_names import full_name_of

T = TypeVar("T")

_LIST = (
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
    " WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')"
)
_LIST_VIEWS = (
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'VIEW'"
)
_COLUMNS = "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS"
_MAKES_TABLE = re.compile(
    r"\b(?:CREATE\s+(?:OR\s+REPLACE\s+)?TABLE|RENAME|CONVERT\s+PARTITION)\b", re.IGNORECASE
)


class WantedTables:
    """The tables of a server that a mirror follows. Raises ServerError.

    `selection` returns the current selection; by default it is that of the options. While the server is not available,
    lists of its tables wait for it for `patience_s` seconds, or until `stop` is set.
    """

    def __init__(
        self,
        host: SourceHost,
        options: MirrorOptions,
        selection: Callable[[], TableSelection] | None = None,
        patience_s: float = 0.0,
        stop: threading.Event | None = None,
    ) -> None:
        self._patience_s = patience_s
        self._stop = stop
        self._host = host
        self._options = options
        self._accept_cascades = options.on_cascade != "quarantine"
        self._selection = selection or (lambda: TableSelection.of(options))
        self._case_settings: dict[str, str] = {}  # by the URL of the host

    def wants(self, database: str, table: str) -> bool:
        """Whether the mirror follows a table of this name."""
        return database.lower() not in SYSTEM_SCHEMAS and self._selection().wants(database, table)

    def names(self) -> list[tuple[str, str]]:
        """The wanted tables that the server has, database and table."""
        return [name for name in self.visible() if self.wants(*name)]

    def visible(self) -> list[tuple[str, str]]:
        """All tables that the user of the URL sees, wanted or not, without system tables: database and table."""
        names = self._patiently(self._listed)
        return [name for name in names if name[0].lower() not in SYSTEM_SCHEMAS]

    def views(self) -> list[tuple[str, str]]:
        """The views that the user of the URL sees: database and name."""
        return self._patiently(lambda: self._listed(of=_LIST_VIEWS))

    def columns(self) -> list[tuple[str, str, str]]:
        """The columns of the wanted tables that the server has: database, table and column."""
        wanted = set(self.names())
        return [column for column in self._patiently(self._listed_columns) if column[:2] in wanted]

    def _listed_columns(self) -> list[tuple[str, str, str]]:
        with open_session(self._host.url()) as server:
            rows = server.rows(_COLUMNS, 3)
        return [(row[0] or "", row[1] or "", row[2] or "") for row in rows]

    def _patiently(self, ask: Callable[[], T]) -> T:
        return patiently(ask, self._patience_s, started="mirror", stop=self._stop)

    def _listed(self, condition: str = "", of: str = _LIST) -> list[tuple[str, str]]:
        with open_session(self._host.url()) as server:
            rows = server.rows(f"{of}{condition} ORDER BY 1, 2", 2)
        return [(database or "", table or "") for database, table in rows]

    def has(self, name: TableName) -> bool:
        """Whether the server has a wanted table now."""
        return self.wants(*name) and name in self._patiently(
            lambda: self._listed(and_is_table(name))
        )

    def refusal(self, name: TableName) -> ServerError | None:
        """The error with which the server refuses to read a table; None if it reads the table, or a view of this name.

        The list of tables lacks both the tables that do not exist and those that the user may not read.
        """
        return self._patiently(lambda: self._refusal(name))

    def _refusal(self, name: TableName) -> ServerError | None:
        with open_session(self._host.url()) as server:
            try:
                server.rows(f"SELECT 1 FROM {quoted_name(*name)} LIMIT 0")
            except ConnectionLostError:
                raise
            except ServerError as error:
                return error
        return None

    def end_beyond_archive(self) -> Position | None:
        """The end of the server's log if the mirror reads the log of an archive, which may not reach it yet; else None."""
        if not self._host.has_archive:
            return None
        return self._patiently(self._end)

    def is_reached(self, log: Position, position: Position) -> bool:
        """Whether a log that ends at `log` has all changes before a position of the server (`SourceHost.is_reached`)."""
        return self._host.is_reached(log, position)

    def _end(self) -> Position:
        with open_session(self._host.url()) as server:
            return Position(server.identity, *server.end())

    def may_be_new(self, ddl: DdlStatement) -> bool:
        """Return whether a statement may create a table that is wanted. With lower_case_table_names=1, the server lists it in lower
        case, and the log has the statement as written.
        """
        if not _MAKES_TABLE.search(ddl.sql):
            return False
        names = changed_tables(ddl)
        return names is None or any(
            self.wants(*one) for name in names for one in (name, lower_name(name))
        )

    def read(self, name: TableName) -> tuple[SourceTable, str]:
        """A table as it is now, and the CREATE TABLE of it.

        Raises AlteredError where there is none, or if it was altered meanwhile, UnsupportedError and SchemaError for one that
        cannot be mirrored.
        """
        full_name = full_name_of(*name)
        self._check_name(name)
        with open_session(self._host.url()) as server:
            _check_case(server, name)
            _check_filters(server, name)
            table = read_table(server, name, self._options.read_options())
            if table is None:
                # listed a moment ago: if it is there again, the copy begins again
                raise AlteredError(f"the server had no table {full_name} when it was read")
            with raw_definitions(server):
                declared = declared_table(server, table.schema, table.name)
            accepts_cascades = self._accept_cascades or _logs_cascades(server)
        columns = definition_of(replace(declared, database=table.schema), server.flavour).columns
        if (
            columns != table.definition.columns
        ):  # the copy would have other types than its definition
            raise AlteredError(f"{full_name} was altered while its definition was read")
        if not accepts_cascades:
            refuse_cascades(full_name, declared)
        made = replace(declared, database=table.schema)
        return table, create_table_text(made, text_with_default)

    def accepts_cascades(self) -> bool:
        """Whether a table may have foreign keys that change rows: the log contains these rows, or the options accept that
        it does not.
        """
        if self._accept_cascades:
            return True
        return self._patiently(self._logs_cascades)

    def accepts_added_cascades(self, ddl: DdlStatement) -> bool:
        """Whether a statement may add foreign keys that change rows: also the log after the statement contains these rows, which an
        earlier server may have written.
        """
        return self._accept_cascades or (ddl.logs_cascades and self.accepts_cascades())

    def distinguishes_case(self) -> bool:
        """Whether the server has two tables `t` and `T` (lower_case_table_names=0), so that each statement spells the names
        of tables exactly.
        """
        return self._patiently(self._case_setting) == "0"

    def has_lower_case_names(self) -> bool:
        """Whether the names of all tables of the server are in lower case (lower_case_table_names=1)."""
        return self._patiently(self._case_setting) == "1"

    def _case_setting(self) -> str:
        url = self._host.url()
        if url not in self._case_settings:
            with open_session(url) as server:
                self._case_settings[url] = server.variable("lower_case_table_names") or ""
        return self._case_settings[url]

    def has_transactions(self, name: TableName) -> bool:
        """Whether a rollback takes back the changes of a table; False if the server no longer has the table."""
        return self._patiently(lambda: self._has_transactions(name))

    def _has_transactions(self, name: TableName) -> bool:
        with open_session(self._host.url()) as server:
            return has_transactions(server, name)

    def _logs_cascades(self) -> bool:
        with open_session(self._host.url()) as server:
            return _logs_cascades(server)

    def _check_name(self, name: TableName) -> None:
        """Raise UnsupportedError for a table whose name in the lake is no name of a directory, whose database has a period,
        or to which the options give several modes.
        """
        check_lake_name(*self._options.lake_name(*name))
        try:
            self._options.mode(*name)
        except OptionError as error:
            raise UnsupportedError(f"{full_name_of(*name)}: {error.message}") from None
        if "." in name[0]:  # a pattern for its tables may match those of another database, too
            raise UnsupportedError(
                f"{full_name_of(*name)}: the name of the database contains a period",
                hint=f"leave out the tables of this database with --exclude-table '{quoted_name(name[0])}.*'",
            )


def _check_case(server: ServerConnection, name: TableName) -> None:
    """Raise UnsupportedError for a name that the log spells in another way than the server lists it."""
    if name != lower_name(name) and server.variable("lower_case_table_names") == "2":
        raise UnsupportedError(
            f"{full_name_of(*name)}: the server has lower_case_table_names=2, and its log has the name in lower case",
            hint="rename the database and the table on the server to names in lower case, or leave the table out",
        )


def _check_filters(server: ServerConnection, name: TableName) -> None:
    """Raise UnsupportedError for a table whose rows the server does not log, unless the user may not see that. The check of
    the server at the start does not know tables that are created or selected later.
    """
    try:
        filters = LogFilters.of(server)
    except ServerError as error:
        if error.retryable:
            raise
        return
    if not filters.logs(name[0]):
        found = "; ".join(map(str, filters.findings()))
        raise UnsupportedError(
            f"{full_name_of(*name)}: the server's log lacks the changes of the table: {found}",
            hint="leave the table out, or run `binlake mirror resync` for it when you have corrected the setting",
        )


def _logs_cascades(server: ServerConnection) -> bool:
    """Return whether the log contains the rows that foreign keys change: only the log of MySQL 9.6 and later does."""
    if server.flavour != "mysql" or server.version < (9, 6):
        return False
    return (server.variable("innodb_native_foreign_keys") or "OFF").upper() in ("OFF", "0")


def refuse_cascades(full_name: str, declared: DeclaredTable) -> None:
    """Raise UnsupportedError for a foreign key whose changes of rows the log does not have."""
    for key in declared.foreign_keys:
        if key.actions:
            raise UnsupportedError(
                f"{full_name}: the server does not log the rows that foreign key {key.name} changes "
                f"({', '.join(sorted(key.actions))})",
                hint="leave the table out, or accept the difference with --on-cascade ignore and run `binlake mirror resync`",
            )
