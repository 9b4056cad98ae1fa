"""The tables of a server, built by applying DDL statement by statement.

A table without an entry is one that no statement has changed: then a statement changes the
declaration from `before` (a schema beside the log). After a statement that cannot be understood,
the columns of its table are unknown; binlake does not guess.

With lower_case_table_names=1 or 2, which no log records, every statement may spell a table
differently, and TABLE_MAP has lower case. So an unknown name means the only known name that
differs in case, if there is one (`spelled`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from binlake.format.sql_names import TableName, lower_name
from binlake.table.schema.declared import DeclaredColumn, DeclaredTable
from binlake.values.position import LogPosition

DROPPED = "dropped"
# Limits, so that no log can fill the memory with tables, databases, temporary tables, or columns
# of all tables.
_MOST_ENTRIES = 1 << 16
_MOST_COLUMNS = 1 << 19


class Catalogue:
    """Tables by database and name; `position` is the position of the current statement.

    `before` returns the declaration, if any, of a table without an entry at `position`. `changed` are
    the tables of the latest statements; the reader clears it. `most_entries` of each kind, and
    `most_columns` of all tables, are kept; the oldest go first. `follows_defaults`: a statement that changes only the
    default of a column changes its table.
    """

    def __init__(
        self,
        before: Callable[[str, str], DeclaredTable | None],
        most_entries: int = _MOST_ENTRIES,
        most_columns: int = _MOST_COLUMNS,
    ) -> None:
        self._most_entries = most_entries
        self._most_columns = most_columns
        self._before = before
        self._tables: dict[TableName, DeclaredTable] = {}
        self._columns = 0  # of all of them
        self._spellings: dict[TableName, set[TableName]] = {}  # by the name in lower case
        self._charsets: dict[str, str] = {}
        self._temporary: dict[tuple[int, str, str], None] = {}
        self._with_foreign_keys: set[TableName] = set()
        self._noted: dict[TableName, dict[str, DeclaredColumn]] = {}
        self.follows_defaults = False
        self.position = LogPosition("", 0)
        self.changed: set[TableName] = set()

    def spelled(self, name: TableName) -> TableName:
        """Return the known name of a table that a statement, or TABLE_MAP, names so."""
        if name not in self._tables and self._before(*name) is None:
            known = [
                n for n in self._spellings.get(lower_name(name), ()) if self._tables[n].columns
            ]
            if len(known) == 1:
                return known[0]
        return name

    def entry(self, name: TableName) -> DeclaredTable | None:
        """Return a table as statements made it; None if no statement was about it."""
        return self._tables.get(name)

    def known(self, name: TableName) -> DeclaredTable | None:
        """Return the columns of a table, if they are known."""
        found = self._tables.get(name)
        if found is None:
            found = self._before(*name)
        return found if found is not None and found.columns else None

    def note_columns(self, name: TableName, columns: Sequence[DeclaredColumn]) -> None:
        """Add the definitions of these columns of a table whose other columns are unknown."""
        if columns and len(self._noted) < self._most_entries:
            noted = self._noted.setdefault(name, {})
            noted.update({column.name.lower(): column for column in columns})
            self.changed.add(name)

    def noted_columns(self, name: TableName) -> Sequence[DeclaredColumn]:
        """Return the columns that statements define of a table without an entry."""
        return () if name in self._tables else tuple(self._noted.get(name, {}).values())

    def with_foreign_keys(self) -> list[DeclaredTable]:
        """Return the tables that statements gave foreign keys."""
        return [self._tables[name] for name in sorted(self._with_foreign_keys)]

    def is_mute(self, name: TableName) -> bool:
        """Whether no statement and no schema describes a table."""
        return name not in self._tables and self._before(*name) is None

    def put(self, name: TableName, table: DeclaredTable) -> None:
        """Set the definition of the table from this place on."""
        database, short = name
        self._take_out(name)
        self._tables[name] = replace(
            table, database=database, table=short, line=0, since=self.position
        )
        self._spellings.setdefault(lower_name(name), set()).add(name)
        if table.foreign_keys:
            self._with_foreign_keys.add(name)
        self._columns += len(table.columns)
        while len(self._tables) > self._most_entries or self._columns > self._most_columns:
            self._take_out(next(iter(self._tables)))  # the one with the oldest change
        self.changed.add(name)

    def _take_out(self, name: TableName) -> None:
        old = self._tables.pop(name, None)
        if old is not None:
            self._columns -= len(old.columns)
            self._with_foreign_keys.discard(name)
            spellings = self._spellings[lower_name(name)]
            spellings.discard(name)
            if not spellings:
                del self._spellings[lower_name(name)]

    def forget(self, name: TableName, why: str) -> None:
        """Mark its columns as unknown from this place on: it was dropped, or a statement is not
        understood.
        """
        self.put(name, DeclaredTable(*name, (), missing=why))

    def rename(self, old: TableName, new: TableName) -> None:
        """Rename a table."""
        self._rename_parent(old, new)
        if self.is_mute(old):
            if not self.is_mute(new):  # the old entry of the new name belonged to another table
                self.forget(new, f"{old[0]}.{old[1]}, which was renamed to it, is unknown")
            return
        table = self.known(old)
        entry = self.entry(old)
        if lower_name(old) == lower_name(new) and self._before(*old) is None:
            self._take_out(old)  # with lower_case_table_names=1, TABLE_MAP may have this spelling
        else:
            self.forget(old, DROPPED)
        if table is not None:
            self.put(new, table)
        else:
            self.forget(new, entry.missing if entry is not None else DROPPED)

    def _rename_parent(self, old: TableName, new: TableName) -> None:
        """Make foreign keys refer to the new name of their parent table."""
        for child in sorted(self._with_foreign_keys):
            keys = self._tables[child].foreign_keys
            if any(key.parent == old for key in keys):
                keys = tuple(
                    key._replace(parent=new if key.parent == old else key.parent) for key in keys
                )
                self.put(child, replace(self._tables[child], foreign_keys=keys))

    # -- databases -----------------------------------------------------------------------------

    def charset_of(self, database: str | None) -> str | None:
        """Return the default character set of a database, if a statement has set it."""
        return self._charsets.get(database or "")

    def put_database(self, database: str, charset: str | None) -> None:
        """Set the default of a database from this place on; None: unknown."""
        self._charsets.pop(database, None)
        if charset is not None:
            self._charsets[database] = charset
            if len(self._charsets) > self._most_entries:
                del self._charsets[next(iter(self._charsets))]

    def drop_database(self, database: str) -> None:
        """Remove a database and its tables."""
        self._charsets.pop(database, None)
        for name in [name for name in self._tables if name[0] == database]:
            self.forget(name, DROPPED)

    # -- temporary tables: each hides, from its own connection, a table of the same name --------

    def put_temporary(self, thread_id: int, name: TableName) -> None:
        """Note that a connection has created a temporary table."""
        self._temporary[(thread_id, *name)] = None
        if len(self._temporary) > self._most_entries:
            del self._temporary[next(iter(self._temporary))]

    def drop_temporary(self, thread_id: int, name: TableName) -> None:
        """Remove a temporary table."""
        self._temporary.pop((thread_id, *name), None)

    def is_temporary(self, thread_id: int, name: TableName) -> bool:
        """Whether the name means, for this connection, a temporary table."""
        return (thread_id, *name) in self._temporary
