"""The tables of a live server, as a snapshot needs them: their types, their keys, their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from binlake.errors import SchemaError, ServerError, SourceError, UnsupportedError
from binlake.format.sql_names import TableName, quoted_name
from binlake.snapshot.definition import definition_of
from binlake.snapshot.read_session import raw_definitions
from binlake.source.replica.answers import whole_number
from binlake.source.replica.connection import ServerConnection
from binlake.table.plan import TableTypes
from binlake.table.resolve import silent
from binlake.table.schema.create_table import parse_create_table
from binlake.table.schema.declared import DeclaredTable
from binlake.table.schema.defaults import shown_default
from binlake.table.schema.sql_tokens import UnreadableTableError
from binlake.table.types.base import Target
from binlake.values.builds import PickledByName
from binlake.values.charset_text import lower_case
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition
from binlake.values.table_filter import TableFilter
from binlake.values.table_names import full_name_of

#: The databases of the servers themselves, which are never mirrored.
SYSTEM_SCHEMAS = ("mysql", "information_schema", "performance_schema", "sys")
_TABLES = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE, COALESCE(TABLE_ROWS, 0), COALESCE(AVG_ROW_LENGTH, 0)"
    " FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')"
)
_KEY_COLUMNS = frozenset(("key_name", "column_name", "non_unique", "sub_part", "null"))
#: Every engine whose reads are of one moment, and whose commits the binary log orders, by flavour.
TRANSACTIONAL = {
    "mariadb": ("innodb", "rocksdb", "tokudb"),
    # a position on MySQL is one for which InnoDB alone was asked, see `read_session.settled_position`
    "mysql": ("innodb",),
}


@dataclass(frozen=True, slots=True)
class SourceTable(PickledByName):
    """A table of the source.

    `key`: names of the columns that identify a row, in key order: those of the primary key, or else of the
    first unique key whose columns are all NOT NULL and whole; () where there is none. `rows` and `row_bytes`,
    the average size of a row, are the server's estimates; 0 if it has none. `options` decide the types, as in `log.changes` (time, zero_date, invalid, columns).
    `engine` is in lower case. `key_collations` are those of the key's columns of text.
    """

    schema: str
    name: str
    definition: TableDefinition
    key: tuple[str, ...]
    engine: str = "innodb"
    rows: int = 0
    row_bytes: int = 0
    options: ReadOptions = field(default_factory=ReadOptions)
    key_collations: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The text of its name, see `full_name_of`."""
        return full_name_of(self.schema, self.name)

    @property
    def sql_name(self) -> str:
        """The name quoted for SQL."""
        return quoted_name(self.schema, self.name)

    @property
    def types(self) -> TableTypes:
        """The column types and plans, as the log's reader makes them. Raises OptionError."""
        return _types(self.definition, self.options)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow types of the rows: those that `log.changes` gives for the same columns."""
        return self.types.schema

    @property
    def is_transactional(self) -> bool:
        """Whether a consistent snapshot holds for the table's engine."""
        return self.engine in TRANSACTIONAL[self.definition.flavour]


@lru_cache(maxsize=512)
def _types(definition: TableDefinition, options: ReadOptions) -> TableTypes:
    return TableTypes.of(definition, options, Target.TYPED, silent)


def read_tables(
    server: ServerConnection,
    patterns: Sequence[str] = (),
    options: ReadOptions | None = None,
) -> list[SourceTable]:
    """The tables of a server that match one of the patterns (`shop.*`), all but the server's own without.

    `options` decide the types; their `exclude_table` leaves tables out. Raises SourceError where no table matches, UnsupportedError
    and SchemaError for a table that cannot be mirrored, and ServerError.
    """
    options = options or ReadOptions()
    chosen = TableFilter(replace(options, table=tuple(patterns)))
    wanted = [
        row
        for row in _listed(server)
        if row[0].lower() not in SYSTEM_SCHEMAS and chosen.wants(row[0], row[1])
    ]
    if not wanted:
        raise SourceError(
            f"{server.where} has no table that matches {', '.join(patterns) or '*.*'}",
            hint="the user of the URL sees only tables that it may SELECT from",
        )
    with raw_definitions(server):
        return [_table(server, row, options) for row in wanted]


def read_table(
    server: ServerConnection, name: TableName, options: ReadOptions
) -> SourceTable | None:
    """One table of a server; None if it has no such table, or its user may not read it.

    `options` decide the types. Raises UnsupportedError and SchemaError for a table that cannot be mirrored, and
    ServerError.
    """
    found = next((row for row in _listed(server, and_is_table(name)) if row[:2] == name), None)
    if found is None:
        return None
    with raw_definitions(server):
        return _table(server, found, options)


def has_transactions(server: ServerConnection, name: TableName) -> bool:
    """Whether a rollback takes back the changes of a table; False if the server has no such table. Its definition is not
    read. Raises ServerError.
    """
    engines = (row.engine for row in _listed(server, and_is_table(name)) if row[:2] == name)
    return next(engines, "") in TRANSACTIONAL[server.flavour]


class _Listed(NamedTuple):
    """A table in the list of the server."""

    schema: str
    name: str
    engine: str
    rows: int
    row_bytes: int


def and_is_table(name: TableName) -> str:
    """The condition of a query of information_schema.TABLES that has one already, so that the server looks at one table only:
    MySQL 5.7 and MariaDB open each table that they list. The result can contain tables whose names differ in case.

    It is empty for a name that no table of a server can have.
    """
    if any(character > "\uffff" or "\ud800" <= character < "\ue000" for character in "".join(name)):
        return ""
    schema, table = (f"_utf8mb4 X'{part.encode().hex()}'" for part in name)
    return f" AND TABLE_SCHEMA = {schema} AND TABLE_NAME = {table}"


def _listed(server: ServerConnection, condition: str = "") -> list[_Listed]:
    """The tables of the server. Raises ServerError."""
    found = [
        _Listed(
            schema or "",
            name or "",
            (engine or "").lower(),
            whole_number(rows, "TABLE_ROWS"),
            whole_number(row_bytes, "AVG_ROW_LENGTH"),
        )
        for schema, name, engine, rows, row_bytes, *_ in server.rows(
            f"{_TABLES}{condition} ORDER BY 1, 2", 5
        )
    ]
    if len({row[:2] for row in found}) < len(found):
        raise ServerError(f"{server.where} lists a table twice")
    return found


def _table(server: ServerConnection, listed: _Listed, options: ReadOptions) -> SourceTable:
    schema, name = listed[:2]
    declared = declared_table(server, schema, name)
    if (
        declared.table.lower() != name.lower()
    ):  # as the server stores names, it may change their case
        raise ServerError(
            f"{server.where} answers with the definition of {declared.table} instead of {name}"
        )
    definition = definition_of(replace(declared, database=schema), server.flavour)
    key = _key(server.table(f"SHOW KEYS FROM {quoted_name(schema, name)}"), definition)
    ordinals = {column.name: column.ordinal for column in definition.columns}
    definition = replace(definition, primary_key=tuple(ordinals[part] for part in key))
    collations: tuple[str, ...] = ()
    if any(definition.columns[ordinals[part]].collation_id is not None for part in key):
        listed_columns = server.table(f"SHOW FULL COLUMNS FROM {quoted_name(schema, name)}")
        collations = _collations(listed_columns, key)
    return SourceTable(
        schema,
        name,
        definition,
        key,
        listed.engine,
        listed.rows,
        listed.row_bytes,
        options,
        collations,
    )


def _collations(
    listed: tuple[list[str], Iterable[tuple[str | None, ...]]], key: Sequence[str]
) -> tuple[str, ...]:
    """The collation of each column of a key; "" for one that is no text."""
    names = [name.lower() for name in listed[0]]
    if not {"field", "collation"} <= {*names}:
        raise ServerError("the server answers SHOW FULL COLUMNS without the collations")
    rows = (dict(zip(names, row, strict=True)) for row in listed[1])
    found = {lower_case(row["field"] or ""): row["collation"] or "" for row in rows}
    return tuple(found.get(lower_case(name), "") for name in key)


def declared_table(server: ServerConnection, schema: str, name: str) -> DeclaredTable:
    """A table by its CREATE TABLE; the session must send raw definitions. Raises SchemaError, UnsupportedError, ServerError."""
    text = server.row(f"SHOW CREATE TABLE {quoted_name(schema, name)}", 2)[1] or ""
    try:
        declared = parse_create_table(text, schema, {}, 1)
    except UnreadableTableError as error:
        raise SchemaError(f"{schema}.{name}: its definition cannot be read: {error}") from None
    if declared is None:
        raise UnsupportedError(f"{schema}.{name} has no columns")
    columns = (replace(c, default=shown_default(c.default, c.sql, c.charset)) for c in declared.columns)  # fmt: skip
    return replace(declared, columns=tuple(columns))


def _key(
    listed: tuple[list[str], Iterable[tuple[str | None, ...]]], definition: TableDefinition
) -> tuple[str, ...]:
    """The columns of the primary key, or else of the first unique key that no NULL can enter."""
    names = [name.lower() for name in listed[0]]
    if listed[1] and not _KEY_COLUMNS.issubset(names):
        raise ServerError(f"the server answers SHOW KEYS without {', '.join(sorted(_KEY_COLUMNS))}")
    spelled = {lower_case(column.name): column.name for column in definition.columns}
    keys: dict[str, list[str]] = {}
    unfit = set()
    for row in listed[1]:
        part = dict(zip(names, row, strict=True))
        key, column = part["key_name"] or "", lower_case(part["column_name"] or "")
        keys.setdefault(key, []).append(spelled.get(column, ""))
        if (
            part["non_unique"] != "0"
            or part["sub_part"]  # unique in its beginning only
            or (part["null"] or "").upper() == "YES"
            or column not in spelled  # an expression, or a hidden column
        ):
            unfit.add(key)
    fit = {key: tuple(columns) for key, columns in keys.items() if key not in unfit}
    if "PRIMARY" in fit:
        return fit["PRIMARY"]
    if "PRIMARY" in keys and all(keys["PRIMARY"]):
        # unique in the beginnings of its columns, hence also in the whole columns
        return tuple(keys["PRIMARY"])
    return next(iter(fit.values()), ())
