"""Check the option columns against the tables of a read: a name that no table has is a mistake.

Several tables may be read with one list of names, and a table may get a column later. So a name is
wrong only if no definition of any table has it, which is known at the end.
"""

from __future__ import annotations

from collections.abc import Iterable

from binlake.errors import OptionError
from binlake.table.batches import Changes
from binlake.table.where.choosing import check_where_columns
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.similar_names import did_you_mean

_SHOWN_TABLES = 3


class ColumnCheck:
    """Watches the changes of a read."""

    def __init__(self, options: ReadOptions) -> None:
        self._wanted = options.columns
        self._where = options.where
        self._tables: dict[str, dict[str, None]] = {}

    def see(self, changes: Changes) -> None:
        """Remember which tables changed."""
        if self._wanted:
            for table in changes.tables:
                definition = table.types.definition
                self.note(definition.full_name, [column.name for column in definition.columns])

    def note(self, table: str, columns: Iterable[str]) -> None:
        """Remember the columns of a table."""
        self._tables.setdefault(table, {}).update(dict.fromkeys(columns))

    @property
    def lacks(self) -> str | None:
        """A wanted column that no table had so far; None if there is no such column, or no table."""
        known = {name.casefold() for names in self._tables.values() for name in names}
        missing = (name for name in self._wanted if name.casefold() not in known)
        return next(missing, None) if self._tables else None

    def check_names(self) -> None:
        """Raise OptionError for a wanted column that no table had."""
        if (name := self.lacks) is not None:
            raise unknown_column(name, self._tables)

    def finish(self, ledger: Ledger) -> None:
        """Raise OptionError for a name that no table had; if no table was read, there is no check."""
        check_where_columns(self._where, ledger)
        self.check_names()


def unknown_column(name: str, tables: dict[str, dict[str, None]]) -> OptionError:
    """Return the error for a column that none of some tables has; `tables`: names of columns by
    table.
    """
    question = did_you_mean(name, [n for names in tables.values() for n in names])
    listed = [f"{table} has {', '.join(names)}" for table, names in tables.items()]
    more = len(listed) - _SHOWN_TABLES
    which = (
        f"table {next(iter(tables))}" if len(tables) == 1 else "none of the tables in the result"
    )
    return OptionError(
        f"option columns: {which} has {'no' if len(tables) == 1 else 'a'} column {name!r}",
        name="columns",
        value=name,
        hint=f"{question} {'; '.join(listed[:_SHOWN_TABLES])}".lstrip()
        + (f"; and {more} more tables" if more > 0 else ""),
    )
