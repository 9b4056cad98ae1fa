"""Names of columns. Servers, Spark and Delta ignore the case of their letters, but keep it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from binlake.values.charset_text import lower_case

#: The advice for a table that has a column whose name the lake cannot have.
ANOTHER_NAME = (
    "leave the column out with --exclude-column, or rename it, then run `binlake mirror resync`"
)


def caseless(name: str) -> str:
    """The form in which two names of columns are compared, as in `DeclaredColumn.lower_name`."""
    return lower_case(name)


def spelled(name: str, names: Iterable[str]) -> str | None:
    """The spelling of a column's name in `names`; None if they do not contain it."""
    wanted = caseless(name)
    return next((known for known in names if caseless(known) == wanted), None)


def why_same(names: Sequence[str]) -> str:
    """Why readers of the lake cannot tell two of these columns apart; "" if they can.

    Some servers know the case of fewer letters than Spark, and accept both names in one table.
    """
    for form in _FORMS:
        known: dict[str, str] = {}
        for name in names:
            if (other := known.setdefault(form(name), name)) != name:
                return f"readers of the lake cannot distinguish the columns {other} and {name}"
    return ""


def _folded(name: str) -> str:
    """The form in which Java's `equalsIgnoreCase` compares two names, as Spark does: character by character."""
    return lower_case(name) if name.isascii() else "".join(map(_folded_character, name))


@lru_cache(maxsize=4096)
def _folded_character(character: str) -> str:
    # Java keeps a character whose other case is several characters, and has this one besides
    upper = character.upper() if len(character.upper()) == 1 else character
    return "i" if upper == "İ" else upper.lower()


#: Spark also compares names in lower case.
_FORMS: tuple[Callable[[str], str], ...] = (caseless, _folded)
