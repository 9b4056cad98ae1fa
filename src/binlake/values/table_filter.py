"""Which tables the options table and exclude_table mean."""

from __future__ import annotations

import re

from binlake.values.options import ReadOptions

__all__ = ["TableFilter"]


class TableFilter:
    """The options table and exclude_table: which tables are wanted.

    In a pattern `*` stands for any characters and `?` for one; every other stands for itself.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._wanted = [_pattern(text) for text in options.table]
        self._excluded = [_pattern(text) for text in options.exclude_table]

    def wants(self, database: str, table: str) -> bool:
        """Whether `database.table` matches a wanted pattern (or there is none) and no excluded one."""
        name = f"{database}.{table}"
        if any(pattern.fullmatch(name) for pattern in self._excluded):
            return False
        return not self._wanted or any(pattern.fullmatch(name) for pattern in self._wanted)


def _pattern(text: str) -> re.Pattern[str]:
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(char, re.escape(char)) for char in text), re.DOTALL)
