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
        self._wanted, self._excluded = map(_Patterns, self._texts)
        self._lower_wanted, self._lower_excluded = map(_Patterns, self._lower_texts)

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
        return [
            text
            for text, lower in zip(self._texts[1], self._lower_texts[1], strict=True)
            if _Patterns((lower,)).match(name.lower()) and not _Patterns((text,)).match(name)
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


class _Patterns:
    """Patterns, of which thousands may be plain names: those of the tables that a mirror follows."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._names = frozenset(text for text in texts if not _is_wild(text))
        self._wild = [_pattern(text) for text in texts if _is_wild(text)]

    def __bool__(self) -> bool:
        return bool(self._names or self._wild)

    def match(self, name: str) -> bool:
        """Whether one of them matches a name."""
        return name in self._names or any(pattern.fullmatch(name) for pattern in self._wild)


def _matches(name: str, wanted: _Patterns, excluded: _Patterns) -> bool:
    return not excluded.match(name) and (not wanted or wanted.match(name))


def _may_match(prefix: str, wanted: Sequence[str], excluded: Sequence[str]) -> bool:
    """Whether names that begin with a prefix may be wanted: false if one excluded pattern matches all of them."""
    if any("*" in _rests(pattern, prefix) for pattern in excluded):
        return False
    return not wanted or any(any(_rests(pattern, prefix)) for pattern in wanted)


def _rests(pattern: str, prefix: str) -> set[str]:
    """Return what may remain of a pattern when its beginning matches a prefix."""
    if not _is_wild(pattern):
        return {pattern.removeprefix(prefix)} if pattern.startswith(prefix) else set()
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


def _is_wild(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


def _pattern(text: str) -> re.Pattern[str]:
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(char, re.escape(char)) for char in text), re.DOTALL)
