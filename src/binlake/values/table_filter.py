"""The options table and exclude_table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from binlake.values.options import ReadOptions


class TableFilter:
    """The options table and exclude_table: which tables are wanted.

    In a pattern, `*` matches any characters, `?` matches one, and every other character matches itself.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._texts = [options.table, options.exclude_table]
        self._lower_texts = [tuple(map(str.lower, texts)) for texts in self._texts]
        self._wanted, self._excluded = (list(map(_pattern, texts)) for texts in self._texts)
        self._lower_wanted, self._lower_excluded = (
            list(map(_pattern, texts)) for texts in self._lower_texts
        )

    def wants(self, database: str, table: str) -> bool:
        """Whether `database.table` matches a wanted pattern, if there are any, and no excluded one."""
        return _matches(f"{database}.{table}", self._wanted, self._excluded)

    def may_want(self, database: str, table: str) -> bool:
        """Whether `wants` may be true for names from a statement, whose case may differ."""
        return self.wants(database, table) or _matches(
            f"{database}.{table}".lower(), self._lower_wanted, self._lower_excluded
        )

    def spelled_otherwise(self, database: str, table: str) -> list[str]:
        """Return the patterns of exclude_table that match `database.table` only if case does not matter."""
        name = f"{database}.{table}"
        patterns = zip(self._texts[1], self._excluded, self._lower_excluded, strict=True)
        return [
            text
            for text, pattern, lower in patterns
            if lower.fullmatch(name.lower()) and not pattern.fullmatch(name)
        ]

    def may_want_any_of(self, database: str) -> bool:
        """Whether `may_want` may be true of a table of this database."""
        return any(
            _may_match(f"{name}.", wanted, excluded)
            for name, (wanted, excluded) in (
                (database, self._texts),
                (database.lower(), self._lower_texts),
            )
        )


def _matches(
    name: str, wanted: Sequence[re.Pattern[str]], excluded: Sequence[re.Pattern[str]]
) -> bool:
    if any(pattern.fullmatch(name) for pattern in excluded):
        return False
    return not wanted or any(pattern.fullmatch(name) for pattern in wanted)


def _may_match(prefix: str, wanted: Sequence[str], excluded: Sequence[str]) -> bool:
    """Whether names that begin with a prefix may be wanted: false if one excluded pattern matches all of them."""
    if any("*" in _rests(pattern, prefix) for pattern in excluded):
        return False
    return not wanted or any(any(_rests(pattern, prefix)) for pattern in wanted)


def _rests(pattern: str, prefix: str) -> set[str]:
    """Return what may remain of a pattern when its beginning matches a prefix."""
    rests = {pattern}
    for char in prefix:
        rests = _with_star_ended(rests)
        rests = {
            rest if rest[0] == "*" else rest[1:]
            for rest in rests
            if rest and rest[0] in ("*", "?", char)
        }
    return _with_star_ended(rests)


def _with_star_ended(rests: set[str]) -> set[str]:
    """Return the rests and those in which a `*` at the beginning matches nothing more."""
    return rests | {rest.lstrip("*") for rest in rests}


def _pattern(text: str) -> re.Pattern[str]:
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(char, re.escape(char)) for char in text), re.DOTALL)
