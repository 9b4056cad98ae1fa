"""Patterns of the options that match no table, or no column, of the server: they may be misspelled."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from binlake.errors import OptionError
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.followed.wanted import WantedTables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.selection import (
    TableSelection,
    check_selects,
    is_pattern,
    matches,
    question_about,
)
from binlake.values.column_patterns import matches_column
from binlake.values.similar_names import did_you_mean
from binlake.values.table_names import full_name_of, table_name

# The last part of a pattern of columns, which may be in backticks.
_COLUMN = re.compile(r"(?:`(?:[^`]|``)+`|[^.`]*)$")


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
            check_selects(self.selection, visible)

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
        for flag, pattern in self.options.table_patterns():
            if flag not in flags_noted and not any(matches(pattern, name) for name in names):
                question = question_about(pattern, visible)
                note = f"{flag} {pattern} matches no table of the server"
                self.note(f"{note}; {question}" if question else note)

    def note_additions(self, patterns: Iterable[str]) -> None:
        """Report the added patterns that match no table."""
        given = sorted(patterns)
        names = [full_name_of(*name) for name in self.source.names()] if given else []
        for pattern in given:
            if not any(matches(pattern, name) for name in names):
                self.note(f"{pattern} was added, but matches no table of the server")

    def check_columns(self, *, is_first_start: bool) -> None:
        """Report the patterns of columns that match none, before a copy shows what they should leave out or hash.

        Raises OptionError at the first start for the name of a column that a table of the server does not have.
        """
        if not (self.rules.exclude or self.rules.hash):
            return
        columns = self.source.columns()
        for pattern in self.rules.unmatched(columns):
            of_table = _COLUMN.sub("*", pattern)
            has_table = any(matches_column((of_table,), *column) for column in columns)
            if is_first_start and has_table and not is_pattern(pattern):
                question = did_you_mean(pattern, sorted(map(".".join, columns)), most=3)
                excludes = pattern in self.rules.exclude
                raise OptionError(
                    f"the server has no column {pattern}",
                    name="exclude_columns" if excludes else "hash_columns",
                    value=pattern,
                    hint=f"{question} nothing has been copied yet".lstrip(),
                )
            self.note(f"{pattern} matches no column of the mirrored tables")
