"""Names of columns. Servers, Spark and Delta ignore the case of their letters, but keep it."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["ANOTHER_NAME", "caseless", "spelled"]

#: The advice for a table that has a column whose name the lake cannot have.
ANOTHER_NAME = "leave the column out with --exclude-column, or rename it"


def caseless(name: str) -> str:
    """The form in which two names of columns are compared, as in `DeclaredColumn.lower_name`."""
    return name.lower()


def spelled(name: str, names: Iterable[str]) -> str | None:
    """The spelling of a column's name in `names`; None if they do not contain it."""
    wanted = caseless(name)
    return next((known for known in names if caseless(known) == wanted), None)
