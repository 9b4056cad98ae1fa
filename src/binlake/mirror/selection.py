"""Which tables of the server a mirror follows: those of its options, and what users have changed since.

    selection = TableSelection.of(options, added=("shop.returns",), removed=("shop.tmp_*",))
    selection.wants("shop", "returns")

A removed table is not followed, whatever else matches it. An added one is followed unless --exclude-table
excludes it: the reads of the log leave such a table out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from binlake.errors import OptionError
from binlake.mirror.options import MirrorOptions
from binlake.mirror.table_names import table_name
from binlake.mirror.table_patterns import patterns_of
from binlake.values.option_texts import parse_table_pattern
from binlake.values.similar_names import did_you_mean


@dataclass(frozen=True, slots=True)
class TableSelection:
    """Patterns of table names, as in the option --table, see `table_patterns`."""

    tables: tuple[str, ...]
    exclude_tables: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, options: MirrorOptions, added: tuple[str, ...] = (), removed: tuple[str, ...] = ()
    ) -> TableSelection:
        """The tables of the options, with those that users have added and removed."""
        return cls(options.tables, options.exclude_tables, added, removed)

    def wants(self, database: str, table: str) -> bool:
        """Whether the mirror follows a table of this name."""
        wanted = (*self.tables, *self.added)
        if patterns_of((*self.exclude_tables, *self.removed)).match(database, table):
            return False
        return not wanted or patterns_of(wanted).match(database, table)


def checked_patterns(patterns: Sequence[str]) -> set[str]:
    """Return patterns of table names. Raises OptionError for one that is none, and if there are none."""
    if isinstance(patterns, str) or not patterns:
        raise OptionError(f"expected patterns of table names, not {patterns!r}", name="tables")
    for text in patterns:
        try:
            parse_table_pattern(text)
        except ValueError as error:
            raise OptionError(f"table {text!r}: {error}", name="tables", value=text) from None
    return set(patterns)


def check_addition(patterns: set[str], selection: TableSelection) -> None:
    """Raise OptionError for a pattern to add that something still excludes."""
    for pattern in sorted(patterns):
        for excluding in selection.exclude_tables:
            if matches(excluding, pattern):
                raise OptionError(
                    f"table {pattern}: --exclude-table {excluding} excludes it",
                    name="tables",
                    value=pattern,
                    hint="start the mirror without that option",
                )
        for excluding in {*selection.removed} - patterns:
            if matches(excluding, pattern):
                raise OptionError(
                    f"table {pattern}: {excluding} is removed, and matches it",
                    name="tables",
                    value=pattern,
                    hint=f"add {excluding!r}",
                )


def is_pattern(text: str) -> bool:
    """Whether a text that names tables has wildcards; else it is the name of one table."""
    return "*" in text or "?" in text


def check_known(texts: Iterable[str], known: Collection[str]) -> None:
    """Raise OptionError for a name without wildcards that is not one of the `known` tables."""
    listed = "`binlake mirror status` lists the tables"
    for text, question in unknown_names(texts, known).items():
        raise OptionError(
            f"the mirror has no table {text}",
            name="tables",
            value=text,
            hint=f"{question} {listed}".lstrip(),
        )


def unknown_names(texts: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return the names without wildcards that are not `known` tables, and for each of them a question with the known
    names that are similar, which is empty if there are none.
    """
    unknown = [text for text in sorted(texts) if not is_pattern(text) and text not in known]
    return {text: did_you_mean(text, sorted(known), most=3) for text in unknown}


def matches(pattern: str, full_name: str) -> bool:
    """Whether a pattern matches a table, whose text `full_name_of` has made."""
    return patterns_of((pattern,)).match(*table_name(full_name))
