"""Patterns of columns: DATABASE.TABLE.COLUMN, in which `*` and `?` are wildcards.

    matches_column(["shop.*.email"], "shop", "users", "email")              # True
    matches_column(["shop.`a.b`.c"], "shop", "a.b", "c")                    # True
    matches_column(["shop.`a.b`.c"], "shop", "a", "b.c")                    # False

The period of a pattern also matches a period in a name, and a wildcard any number of parts, so `shop.a.b.c` matches both
columns of the example. A part in backticks is one whole name: of the database, the table or the column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

# A whole part in backticks; a backtick in the name is doubled.
_QUOTED = re.compile(r"(?:^|(?<=\.))`((?:[^`]|``)+)`(?=\.|$)", re.DOTALL)
# A character that no name of the servers has: the end of the database, and of the table.
_END = "\0"
_PARTS = 3
# A whole part in backticks in a text that may have several patterns, or a comma outside of such parts.
_QUOTED_OR_COMMA = re.compile(r"(?:^|(?<=[.,\s]))`(?:[^`]|``)+`(?=\s*(?:[.,]|$))|,", re.DOTALL)
# What the signs of a pattern match: within the three names together, or within one of them.
_OF_ALL = {"*": ".*", "?": ".", ".": f"[.{_END}]"}
_OF_ONE_NAME = {"*": f"[^{_END}]*", "?": f"[^{_END}]"}


def parse_column_pattern(text: str) -> str:
    """Return the pattern unchanged. Raises ValueError for a text that is not a pattern."""
    bare = [part for part in _QUOTED.sub("", text).split(".") if part]
    quoted = len(_QUOTED.findall(text))
    if len(bare) + quoted < _PARTS:
        raise ValueError(
            f"expected DATABASE.TABLE.COLUMN, with * and ? as wildcards; *.*.{text} is in any table"
        )
    if quoted + len([run for run, is_quoted in _runs(text) if run and not is_quoted]) > _PARTS:
        raise ValueError(
            "expected DATABASE.TABLE.COLUMN, but parts in backticks make it more than three names"
        )
    return text


def divided_patterns(text: str) -> list[str]:
    """Return the patterns that a text contains, separated by commas.

    A comma in backticks is part of a name, and so is one that does not stand between two whole patterns.
    """
    found: list[str] = []
    start = 0
    for end in (*_commas(text), len(text)):
        part = text[start:end]
        start = end + 1
        if not found or (_is_whole(found[-1]) and _is_whole(part)):
            found.append(part)
        else:
            found[-1] += f",{part}"
    return [pattern.strip() for pattern in found]


def has_comma(pattern: str) -> bool:
    """Return whether a pattern has a comma that is not in backticks."""
    return bool(_commas(pattern))


def _commas(text: str) -> list[int]:
    return [found.start() for found in _QUOTED_OR_COMMA.finditer(text) if found[0] == ","]


def _is_whole(text: str) -> bool:
    try:
        parse_column_pattern(text.strip())
    except ValueError:
        return False
    return True


def matches_column(patterns: Sequence[str], database: str, table: str, column: str) -> bool:
    """Return whether a column matches one of the patterns.

    Case does not matter, even for names that a server distinguishes by case, because a pattern that
    protects a column must not miss it. For the same reason, backticks also match backticks in names.
    """
    name = _END.join((database, table, column)).casefold()
    return any(_pattern(text).fullmatch(name) for text in patterns)


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    folded = text.casefold()
    by_parts = _END.join(
        _expression(run, _OF_ONE_NAME if is_quoted else _OF_ALL) for run, is_quoted in _runs(folded)
    )
    return re.compile(f"{_expression(folded)}|{by_parts}", re.DOTALL)


def _runs(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a pattern that are in backticks, without these, and the texts between them; and which they are."""
    at = 0
    for quoted in _QUOTED.finditer(text):
        if between := text[at : quoted.start()].removeprefix("." if at else "")[:-1]:
            yield between, False
        yield quoted[1].replace("``", "`"), True
        at = quoted.end()
    if rest := text[at:].removeprefix("." if at else ""):
        yield rest, False


def _expression(text: str, wild: Mapping[str, str] = _OF_ALL) -> str:
    """The regular expression of a pattern, or of a part of it."""
    return "".join(wild.get(char, re.escape(char)) for char in text)
