"""The tables of a server as DDL makes them, one statement after the other.

A table without an entry is one that no statement has been about: what `before` says of it (a
schema beside the log) is then what a statement changes. Of a table that a statement changed in
a way that nobody understood, nothing is known from then on; nothing is guessed.

With lower_case_table_names=1 or 2, which no log tells, a table may be spelled otherwise in every
statement, and TABLE_MAP has lower case. So a name that nobody has made means the only one that
differs in case, if there is one (`spelled`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from binlake.table.schema.declared import DeclaredColumn, DeclaredTable, LogPosition

__all__ = ["DROPPED", "Catalogue", "TableName"]

#: Database and table.
TableName = tuple[str, str]

DROPPED = "dropped"
# No log can make us hoard tables, databases, temporary tables, or columns of all tables.
_MOST_ENTRIES = 1 << 16
_MOST_COLUMNS = 1 << 19


class Catalogue:
    """Tables by database and name; `place` is that of the statement being applied.

    `before` gives the declaration, if any, that a table without an entry has at `place`.
    `changed` are the tables that the latest statements were about: to be cleared by who reads it.
    """

    def __init__(self, before: Callable[[str, str], DeclaredTable | None]) -> None:
        self._before = before
        self._tables: dict[TableName, DeclaredTable] = {}
        self._columns = 0  # of all of them
        self._spellings: dict[TableName, set[TableName]] = {}  # by the name in lower case
        self._charsets: dict[str, str] = {}
        self._temporary: dict[tuple[int, str, str], None] = {}
        self._with_foreign_keys: set[TableName] = set()
        self._noted: dict[TableName, dict[str, DeclaredColumn]] = {}
        self.place = LogPosition("", 0)
        self.changed: set[TableName] = set()

    def spelled(self, name: TableName) -> TableName:
        """The name under which a table is known that a statement, or TABLE_MAP, names so."""
        if name not in self._tables and self._before(*name) is None:
            known = [n for n in self._spellings.get(_lower(name), ()) if self._tables[n].columns]
            if len(known) == 1:
                return known[0]
        return name

    def entry(self, name: TableName) -> DeclaredTable | None:
        """What statements made of a table; None if none was about it."""
        return self._tables.get(name)

    def known(self, name: TableName) -> DeclaredTable | None:
        """The columns that a table has, if that is known."""
        found = self._tables.get(name)
        if found is None:
            found = self._before(*name)
        return found if found is not None and found.columns else None

    def note_columns(self, name: TableName, columns: Sequence[DeclaredColumn]) -> None:
        """A statement defines these columns of a table whose others are not known."""
        if columns and len(self._noted) < _MOST_ENTRIES:
            noted = self._noted.setdefault(name, {})
            noted.update({column.name.lower(): column for column in columns})
            self.changed.add(name)

    def noted_columns(self, name: TableName) -> Sequence[DeclaredColumn]:
        """What statements define of the columns of a table without an entry."""
        return () if name in self._tables else tuple(self._noted.get(name, {}).values())

    def with_foreign_keys(self) -> list[DeclaredTable]:
        """The tables that statements gave foreign keys."""
        return [self._tables[name] for name in sorted(self._with_foreign_keys)]

    def is_mute(self, name: TableName) -> bool:
        """Whether nobody, statement or schema, has said anything of a table."""
        return name not in self._tables and self._before(*name) is None

    def put(self, name: TableName, table: DeclaredTable) -> None:
        """The table is so from here on."""
        database, short = name
        self._take_out(name)
        self._tables[name] = replace(
            table, database=database, table=short, line=0, since=self.place
        )
        self._spellings.setdefault(_lower(name), set()).add(name)
        if table.foreign_keys:
            self._with_foreign_keys.add(name)
        self._columns += len(table.columns)
        while len(self._tables) > _MOST_ENTRIES or self._columns > _MOST_COLUMNS:
            self._take_out(next(iter(self._tables)))  # the one that changed longest ago
        self.changed.add(name)

    def _take_out(self, name: TableName) -> None:
        old = self._tables.pop(name, None)
        if old is not None:
            self._columns -= len(old.columns)
            self._with_foreign_keys.discard(name)
            spellings = self._spellings[_lower(name)]
            spellings.discard(name)
            if not spellings:
                del self._spellings[_lower(name)]

    def forget(self, name: TableName, why: str) -> None:
        """Its columns are not known from here on: it is dropped, or nobody understands why."""
        self.put(name, DeclaredTable(*name, (), missing=why))

    def rename(self, old: TableName, new: TableName) -> None:
        """One name takes the place of another."""
        self._rename_parent(old, new)
        if self.is_mute(old):
            if not self.is_mute(new):  # what was known of the new name was of another table
                self.forget(new, f"{old[0]}.{old[1]}, renamed to it, is not known")
            return
        table = self.known(old)
        entry = self.entry(old)
        self.forget(old, DROPPED)
        if table is not None:
            self.put(new, table)
        else:
            self.forget(new, entry.missing if entry is not None else DROPPED)

    def _rename_parent(self, old: TableName, new: TableName) -> None:
        """Foreign keys follow the table that they refer to."""
        for child in sorted(self._with_foreign_keys):
            keys = self._tables[child].foreign_keys
            if any(key.parent == old for key in keys):
                keys = tuple(
                    key._replace(parent=new if key.parent == old else key.parent) for key in keys
                )
                self.put(child, replace(self._tables[child], foreign_keys=keys))

    # -- databases -----------------------------------------------------------------------------

    def charset_of(self, database: str | None) -> str | None:
        """The default character set of a database, where a statement has told it."""
        return self._charsets.get(database or "")

    def put_database(self, database: str, charset: str | None) -> None:
        """A database has this default from here on; None: nobody knows which."""
        self._charsets.pop(database, None)
        if charset is not None:
            self._charsets[database] = charset
            if len(self._charsets) > _MOST_ENTRIES:
                del self._charsets[next(iter(self._charsets))]

    def drop_database(self, database: str) -> None:
        """It is gone, with its tables."""
        self._charsets.pop(database, None)
        for name in [name for name in self._tables if name[0] == database]:
            self.forget(name, DROPPED)

    # -- temporary tables: each hides, from its own connection, a table of the same name --------

    def put_temporary(self, thread_id: int, name: TableName) -> None:
        """A connection has made a temporary table."""
        self._temporary[(thread_id, *name)] = None
        if len(self._temporary) > _MOST_ENTRIES:
            del self._temporary[next(iter(self._temporary))]

    def drop_temporary(self, thread_id: int, name: TableName) -> None:
        """It is gone."""
        self._temporary.pop((thread_id, *name), None)

    def is_temporary(self, thread_id: int, name: TableName) -> bool:
        """Whether the name means, to this connection, a temporary table."""
        return (thread_id, *name) in self._temporary


def _lower(name: TableName) -> TableName:
    return name[0].lower(), name[1].lower()
