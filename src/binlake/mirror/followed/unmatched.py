"""Patterns of the options that match no table, or no column, of the server: they may be misspelled."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from binlake.errors import OptionError
from binlake.format.sql_names import unquoted_name
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.followed.wanted import WantedTables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.selection import (
    TableSelection,
    check_selects,
    is_pattern,
    matches,
    question_about,
    view_instead,
)
from binlake.values.column_patterns import has_comma, matches_column
from binlake.values.similar_names import did_you_mean, question_of, similar_names
from binlake.values.table_names import full_name_of, table_name

# The last part of a pattern of columns, which may be in backticks.
_COLUMN = re.compile(r"(?:`(?:[^`]|``)+`|[^.`]*)$")
# Tables whose names are at least so similar may be meant: shop.custmers and shop.customers, but not shop.suppliers.
_SIMILAR_TABLES = 0.7


@dataclass(frozen=True, slots=True)
class UnmatchedPatterns:
    """Reports such patterns to `note`, or as errors. `selection` is the current one: users change it while the mirror runs."""

    source: WantedTables
    options: MirrorOptions
    rules: ColumnRules
    selection: TableSelection
    note: Callable[[str], None]

    def check_selection(self, known: Iterable[str]) -> None:
        """Raise OptionError if the options select no table of the server, and none of the `known` ones, which the lake has."""
        if not any(self.source.wants(*table_name(name)) for name in known):
            visible = [full_name_of(*name) for name in self.source.visible()]
            check_selects(self.selection, visible, self._views)

    def _views(self) -> list[str]:
        return [full_name_of(*name) for name in self.source.views()]

    def note_tables(self, known: Collection[str], there: Iterable[str]) -> None:
        """Report the patterns of tables that match none. `known` tables are in the lake; the server had, or has, those that are
        `there`.
        """
        flags_noted = set()
        try:
            self.check_selection(known)
        except OptionError as error:
            self.note(f"{error}; the mirror waits for such a table")
            flags_noted.add("--table")
        visible = {full_name_of(*name) for name in self.source.visible()}
        names = visible.union(there)
        views: list[str] | None = None
        for flag, pattern in self.options.table_patterns():
            if flag not in flags_noted and not any(matches(pattern, name) for name in names):
                views = self._views() if views is None else views
                question = view_instead((pattern,), views).removesuffix(";")
                question = question or question_about(pattern, visible)
                note = f"{flag} {pattern} matches no table of the server"
                self.note(f"{note}; {question}" if question else note)

    def note_additions(self, patterns: Iterable[str]) -> None:
        """Report the added patterns that match no table."""
        given = sorted(patterns)
        names = [full_name_of(*name) for name in self.source.names()] if given else []
        for pattern in given:
            if not any(matches(pattern, name) for name in names):
                view = view_instead((pattern,), self._views()).removesuffix(";")
                note = f"{pattern} was added, but matches no table of the server"
                self.note(f"{note}; {view}" if view else note)

    def check_columns(self, *, is_first_start: bool) -> None:
        """Report the patterns of columns that match none, before a copy shows what they should leave out or hash.

        Raises OptionError at the first start for a pattern that is likely to be misspelled.
        """
        if not (self.rules.exclude or self.rules.hash):
            return
        columns = self.source.columns()
        for pattern in self.rules.unmatched(columns):
            hint = self._why_misspelled(pattern, columns) if is_first_start else None
            if hint is not None:
                excludes = pattern in self.rules.exclude
                raise OptionError(
                    f"the server has no column {pattern}",
                    name="exclude_columns" if excludes else "hash_columns",
                    value=pattern,
                    hint=f"{hint} nothing has been copied yet".lstrip(),
                )
            self.note(f"{pattern} matches no column of the mirrored tables")

    def _why_misspelled(self, pattern: str, columns: Sequence[tuple[str, str, str]]) -> str | None:
        """The hint for a pattern that matches no column and is likely to be misspelled; None if it is not.

        A name may be that of a column of a table to come, unless a table with such a column has a similar name.
        """
        if has_comma(pattern):
            return (
                "repeat the option, or separate whole patterns, DATABASE.TABLE.COLUMN, with commas;"
            )
        if is_pattern(pattern):
            return None
        of_table = _COLUMN.sub("*", pattern)
        if any(matches_column((of_table,), *column) for column in columns):
            return did_you_mean(pattern, sorted(map(".".join, columns)), most=3)
        if any(matches_column((of_table,), *name, "") for name in self.source.visible()):
            return None  # a table that the options do not select
        if similar := self._similar_columns(pattern, columns):
            return f"{question_of(similar)} a pattern with a wildcard may be about a table to come;"
        return None

    def _similar_columns(self, pattern: str, columns: Sequence[tuple[str, str, str]]) -> list[str]:
        """Columns of the same name that the lake would show, in tables with similar names."""
        of_table = _COLUMN.sub("", pattern).removesuffix(".")
        same = unquoted_name(pattern.removeprefix(f"{of_table}.")).casefold()
        found = {
            full_name_of(database, table): f"{database}.{table}.{column}"
            for database, table, column in columns
            if column.casefold() == same
            and self.rules.treatment(database, table, column) == "shown"
        }
        names = similar_names(of_table, sorted(found), most=3, similarity=_SIMILAR_TABLES)
        return [found[name] for name in names]
