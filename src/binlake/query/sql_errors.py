"""Errors of DuckDB as one line: the problem, its place in the statement, and the existing names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from binlake.errors import BinlogError, QueryError
from binlake.values.similar_names import similar_names

_MOST_NAMES = 40
#: Kinds of errors that another statement or option can avoid; others are failures of the machine.
_OF_THE_STATEMENT = frozenset(
    (
        "Binder",
        "Catalog",
        "Constraint",
        "Conversion",
        "Dependency",
        "Invalid Input",
        "Invalid",
        "Mismatch Type",
        "Not implemented",
        "Out of Range",
        "Parameter Not Allowed",
        "Parser",
        "Permission",
        "Syntax",
    )
)
_NO_SCHEMA = re.compile(r'Table with name "(?P<name>.+)" does not exist because schema ')
_HINTS = {
    "Out of Memory": "raise the option max_memory",
    "Permission": "--external-access lets SQL use files and the network",
}


def query_error(
    error: Exception, sql: str, skipped: int, tables: Iterable[str], columns: Iterable[str]
) -> BinlogError:
    """Return the error of a statement. `tables` are all that there are, `columns` those of the tables
    that it names. The first `skipped` characters of `sql` do not count for the position.

    The connection must have the setting `errors_as_json`.
    """
    found = _parsed(str(error))
    kind = str(found.get("exception_type", ""))
    message = _one_line(str(found.get("exception_message", "")))
    hint = _HINTS.get(kind)
    missing = _missing_table(found, message)
    if missing is not None:
        message = f"there is no table {missing!r}"
        hint = f"tables: {near_names(missing, tables)}"
    elif found.get("error_subtype") == "COLUMN_NOT_FOUND":
        message = f"there is no column {str(found.get('name'))!r}"
        hint = f"columns: {near_names(str(found.get('name')), columns)}"
    place = {}
    if sql and str(found.get("position", "")).isdecimal():
        line, column = _place(sql[skipped:], max(0, int(found["position"]) - skipped))
        place = {"line": line, "column": column}
        message = f"{message.rstrip('.!')} (line {line}, column {column})"
    made = QueryError if kind in _OF_THE_STATEMENT else BinlogError
    return made(message, hint=hint, **place)


def _missing_table(found: dict[str, Any], message: str) -> str | None:
    """Return the name of the table that an error misses; None: it misses none."""
    if found.get("error_subtype") == "MISSING_ENTRY" and found.get("type") == "Table":
        return str(found.get("name"))
    named = _NO_SCHEMA.match(message)
    return named["name"] if named else None


def near_names(wanted: str, names: Iterable[str]) -> str:
    """Return names for a message, the most similar ones first."""
    known = list(dict.fromkeys(names))
    near = similar_names(wanted, known, most=5, similarity=0.5)
    ordered = list(dict.fromkeys([*near, *known]))
    more = len(ordered) - _MOST_NAMES
    return ", ".join(ordered[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _parsed(text: str) -> dict[str, Any]:
    """Return what an error says by name. One that a running statement meets has plain text only."""
    at = text.find("{")
    try:
        found = json.loads(text[at:]) if at >= 0 else None
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    kind, colon, message = text.partition(" Error: ")
    if not colon:
        return {"exception_message": text}
    return {"exception_type": kind, "exception_message": message.partition("\n\nLINE ")[0]}


def _place(sql: str, offset: int) -> tuple[int, int]:
    """Return line and column, from 1, of a byte of a statement."""
    before = sql.encode()[:offset].decode(errors="ignore")
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _one_line(text: str) -> str:
    return re.sub(r"\s*\n\s*", "; ", text.strip())
