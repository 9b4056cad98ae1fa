"""Checks of an undo: side effects that the log lacks, and rows that have changed since.

A guard sees every undone row change (`row_sql.Undo`) before anything is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from binlake.errors import BinlogError, SchemaError, ServerError, UnsupportedError
from binlake.format.sql_names import quoted_name
from binlake.source.replica.answers import whole_number
from binlake.table.schema.declared import PASSIVE, ForeignKey, References
from binlake.table.sql.row_sql import Shape, SqlTable
from binlake.table.text.sql_text import SESSION
from binlake.values.quantities import counted

if TYPE_CHECKING:
    from binlake.source.replica.connection import ServerConnection
    from binlake.source.replica.url import ServerUrl

_MOST_ROWS = 1_000_000
_ROWS_A_QUERY = 100
_SHOWN_ROWS = 20
# The statement of the script for each change, which is also the event of the triggers that it fires.
_REVERSED = {"insert": "DELETE", "update": "UPDATE", "delete": "INSERT"}


class Cascades:
    """Refuses to undo a change whose foreign keys changed rows of other tables without a log
    record.

    MySQL before 9.6 and MariaDB do not log the effect of ON DELETE and ON UPDATE actions on child
    rows, so an undo cannot restore them. The exception is ON UPDATE CASCADE, which runs again,
    backwards, when the parent's key gets its old value. With `warn` the guard reports such changes
    instead of refusing them.
    """

    def __init__(self, references: References, warn: Callable[[str], None] | None) -> None:
        self._references = references
        self._warn = warn

    def see(self, table: SqlTable, shapes: Sequence[Shape]) -> None:
        """Raises UnsupportedError."""
        for shape in shapes:
            if shape.operation == "insert":
                continue
            for child, key in self._references(table.database, table.table):
                event, action = self._action(table, shape, key)
                if self._is_restored(event, action, child, key, frozenset()):
                    continue
                sentence = (
                    f"{table.full_name}: foreign key {key.name} of {child} is ON {event}"
                    f" {action}, and"
                    " the server does not log its effect: the rows of"
                    f" {child} cannot be restored"
                )
                if self._warn is None:
                    raise UnsupportedError(
                        sentence, hint="use --force to print the undo of everything else"
                    )
                self._warn(sentence)

    def _is_restored(
        self, event: str, action: str, child: str, key: ForeignKey, seen: frozenset[str]
    ) -> bool:
        """Whether the opposite change of the parent restores the effect of an action on a child."""
        if action in PASSIVE:
            return True
        database, _, table = child.partition(".")
        if event != "UPDATE" or action != "CASCADE" or "." in table:
            return False
        if child in seen:
            return True
        changed = {name.casefold() for name in key.columns}
        return all(
            self._is_restored(event, below.on_update, grandchild, below, seen | {child})
            for grandchild, below in self._references(database, table)
            if changed & {name.casefold() for name in below.parent_columns}
        )

    @staticmethod
    def _action(table: SqlTable, shape: Shape, key: ForeignKey) -> tuple[str, str]:
        """Return the event of a change, and the foreign key's action for it."""
        if shape.operation == "delete":
            return "DELETE", key.on_delete
        parents = {name.casefold() for name in key.parent_columns}
        for ordinal, kind in table.columns.items():
            old, new = shape.before.get(ordinal), shape.after.get(ordinal)
            if kind.column.name.casefold() not in parents or new is None:
                continue
            if old is None or pc.any(pc.not_equal(old.literals, new.literals)).as_py():
                return "UPDATE", key.on_update
        return "UPDATE", "NO ACTION"


class ServerComparison:
    """Compares undone rows with the current rows of a server.

    The last change of each row counts: the row must equal its after-image, or be absent after a
    DELETE. After `conflicts`, `triggers` are sentences about triggers that the script fires.
    """

    def __init__(self, urls: Sequence[ServerUrl]) -> None:
        self._urls = urls
        self._conditions: dict[tuple[SqlTable, str], tuple[str, bool]] = {}
        self._statements: dict[str, set[str]] = {}
        self.triggers: list[str] = []

    def see(self, table: SqlTable, shapes: Sequence[Shape]) -> None:
        """Keep the condition of each row. Raises SchemaError if there are too many."""
        if table.is_sequence:
            return
        statements = self._statements.setdefault(table.full_name, set())
        statements.update(_REVERSED[shape.operation] for shape in shapes)
        found: list[tuple[int, str, tuple[str, bool]]] = []
        for shape in shapes:
            is_there = shape.operation != "delete"
            now = {**shape.before, **shape.after} if is_there else shape.before
            keys = table.identity(now).to_pylist()
            conditions = table.exactly(now).to_pylist() if is_there else keys
            held = [(condition, is_there) for condition in conditions]
            found += zip(shape.rows.to_pylist(), keys, held, strict=True)
            if shape.operation == "update":  # there is no row with the old key any more
                old = table.identity(shape.before).to_pylist()
                found += [
                    (row, was, (was, False))
                    for row, was, key in zip(shape.rows.to_pylist(), old, keys, strict=True)
                    if was != key and table.has_key(shape.before)
                ]
        for _, key, held_now in sorted(found, key=lambda one: one[0]):
            self._conditions[(table, key)] = held_now
        if len(self._conditions) > _MOST_ROWS:
            raise SchemaError(
                f"--verify compares at most {_MOST_ROWS:,} rows",
                hint="undo fewer rows at a time with --start, --stop or --table",
            )

    def conflicts(self) -> Iterator[str]:
        """Return a sentence for each table that differs, after asking the server. Raises
        BinlogError.
        """
        from binlake.source.replica.connection import connect_any  # loads ssl

        with connect_any([url.log("") for url in self._urls]) as server:
            server.lift_row_limits()
            for statement in SESSION:
                server.execute(statement)
            by_table: dict[str, list[tuple[str, str, bool]]] = {}
            for (table, key), (condition, is_there) in self._conditions.items():
                by_table.setdefault(table.full_name, []).append((key, condition, is_there))
            names = {table.full_name: table.name for table, _ in self._conditions}
            for full_name, rows in by_table.items():
                differing = list(_differing(server, names[full_name], rows))
                if differing:
                    shown = "; ".join(differing[:_SHOWN_ROWS])
                    more = "; …" if len(differing) > _SHOWN_ROWS else ""
                    differ = "differs" if len(differing) == 1 else "differ"
                    yield (
                        f"{full_name}: {counted(len(differing), 'row')} on {server.where}"
                        f" {differ} from the state after the log: {shown}{more}"
                    )
            tables = {table for table, _ in self._conditions}
            self.triggers = list(_triggers(server, tables, self._statements))


def _triggers(
    server: ServerConnection,
    tables: Iterable[SqlTable],
    statements: Mapping[str, Container[str]],
) -> Iterator[str]:
    """Return a sentence for each table whose triggers the statements of a script fire, as far as the user may see
    them.
    """
    by_database: dict[str, dict[str, SqlTable]] = {}
    for table in tables:
        database = table.name.removesuffix(f".{quoted_name(table.table)}")
        by_database.setdefault(database, {})[table.table] = table
    for database, wanted in sorted(by_database.items()):
        found: dict[str, list[str]] = {}
        try:
            rows = list(server.rows(f"SHOW TRIGGERS IN {database}", 3))
        except ServerError as error:
            yield (
                f"binlake does not know the triggers of {database}, which fire when the script runs: {error.message}"
            )
            continue
        for trigger, event, name, *_ in rows:
            if trigger is None or event is None or name not in wanted:
                continue
            full_name = wanted[name].full_name
            if event.upper() in statements[full_name]:
                found.setdefault(full_name, []).append(trigger)
        for full_name, triggers in sorted(found.items()):
            yield (
                f"{full_name}: its triggers fire when the script runs, although the script reverses the rows that they"
                f" changed: {', '.join(sorted(triggers))}. Drop them first"
            )


def _differing(
    server: ServerConnection, table: str, rows: Sequence[tuple[str, str, bool]]
) -> Iterator[str]:
    """Return the keys of rows that are missing, or that exist but should not."""
    for first in range(0, len(rows), _ROWS_A_QUERY):
        part = rows[first : first + _ROWS_A_QUERY]
        query = " UNION ALL ".join(
            f"SELECT {number}, COUNT(*) FROM {table} WHERE {condition}"
            for number, (_, condition, _) in enumerate(part)
        )
        try:
            counts = {
                whole_number(number, "the number of a row"): whole_number(count, "COUNT(*)")
                for number, count, *_ in server.rows(query, 2)
            }
        except BinlogError as error:
            hint = "--verify needs the privilege SELECT, and tables with the logged columns"
            raise error.hinted(hint) from None
        for number, (key, _, is_there) in enumerate(part):
            if is_there != bool(counts.get(number)):
                yield f"{key} {'has changed or is gone' if is_there else 'exists'}"
