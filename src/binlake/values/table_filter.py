"""The options table and exclude_table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from binlake.values.options import ReadOptions

__all__ = ["TableFilter"]


class TableFilter:
    """The options table and exclude_table: which tables are wanted.

    In a pattern, `*` matches any characters, `?` matches one, and every other character matches itself.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._wanted = [_pattern(text) for text in options.table]
        self._excluded = [_pattern(text) for text in options.exclude_table]
        lower = [tuple(map(str.lower, names)) for names in (options.table, options.exclude_table)]
        self._lower_wanted, self._lower_excluded = (list(map(_pattern, names)) for names in lower)

    def wants(self, database: str, table: str) -> bool:
        """Whether `database.table` matches a wanted pattern, if there are any, and no excluded one."""
        return _matches(f"{database}.{table}", self._wanted, self._excluded)

    def may_want(self, database: str, table: str) -> bool:
        """Like `wants`, for names from a statement, whose case may differ."""
        return self.wants(database, table) or _matches(
            f"{database}.{table}".lower(), self._lower_wanted, self._lower_excluded
        )


def _matches(
    name: str, wanted: Sequence[re.Pattern[str]], excluded: Sequence[re.Pattern[str]]
) -> bool:
    if any(pattern.fullmatch(name) for pattern in excluded):
        return False
    return not wanted or any(pattern.fullmatch(name) for pattern in wanted)


def _pattern(text: str) -> re.Pattern[str]:
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(char, re.escape(char)) for char in text), re.DOTALL)
