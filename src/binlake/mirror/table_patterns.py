"""Patterns of the server's tables, in the options and the commands of a mirror.

    TablePatterns(["shop.*"]).match("shop", "orders")     # True
    TablePatterns(["`a.b`.*"]).match("a", "b.c")          # False: only tables of the database a.b match

A text without wildcards is the name of one table, see `table_names`. In a pattern, `*` matches any characters and `?` matches
one. Database and table are compared separately if the database is in backticks, else together, with the period between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from binlake.values.options import ReadOptions
from binlake.values.table_filter import TableFilter
from binlake.values.table_names import table_name

# A character that no name of the servers has: the end of the database.
_END = "\0"


class TablePatterns:
    """Several patterns, which a table matches if it matches one of them."""

    def __init__(self, patterns: Iterable[str]) -> None:
        given = set(patterns)
        wild = {text for text in given if "*" in text or "?" in text}
        bare = bare_patterns(wild)
        self._names = {table_name(text) for text in given - wild}
        self._bare = _filter(bare)
        self._quoted = _filter(_END.join(table_name(text)) + "." for text in wild.difference(bare))

    def match(self, database: str, table: str) -> bool:
        """Whether a table matches."""
        return (
            (database, table) in self._names
            or (self._bare is not None and self._bare.wants(database, table))
            or (self._quoted is not None and self._quoted.wants(f"{database}{_END}{table}", ""))
        )


@lru_cache(maxsize=1024)
def patterns_of(texts: tuple[str, ...]) -> TablePatterns:
    """The patterns of an option, which many tables are compared with."""
    return TablePatterns(texts)


def bare_patterns(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns whose database is not in backticks. `TableFilter` reads them in the same way."""
    return tuple(text for text in texts if ".".join(table_name(text)) == text)


def _filter(patterns: Iterable[str]) -> TableFilter | None:
    """The filter for tables that match one of the patterns; None if there are none."""
    given = tuple(patterns)
    return TableFilter(ReadOptions(table=given)) if given else None
