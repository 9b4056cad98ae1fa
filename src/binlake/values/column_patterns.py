"""Patterns of columns: DATABASE.TABLE.COLUMN, in which `*` and `?` are wildcards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

__all__ = ["matches_column", "parse_column_pattern"]


def parse_column_pattern(text: str) -> str:
    """Return the pattern unchanged. Raises ValueError for a text that is not a pattern."""
    if len([part for part in text.split(".") if part]) < 3:
        raise ValueError(
            f"expected DATABASE.TABLE.COLUMN, with * and ? as wildcards; *.*.{text} is in any table"
        )
    return text


def matches_column(patterns: Sequence[str], database: str, table: str, column: str) -> bool:
    """Return whether a column matches one of the patterns.

    Case does not matter, even for names that a server distinguishes by case, because a pattern that
    protects a column must not miss it.
    """
    name = f"{database}.{table}.{column}".casefold()
    return any(_pattern(text).fullmatch(name) for text in patterns)


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    wild = {"*": ".*", "?": "."}
    folded = text.casefold()
    return re.compile("".join(wild.get(char, re.escape(char)) for char in folded), re.DOTALL)
