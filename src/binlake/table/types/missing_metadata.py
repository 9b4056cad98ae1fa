"""The facts about a table's columns that a log lacks, as one sentence per table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from binlake.values.plan import NameSource, TableDefinition

_SHOWN_COLUMNS = 10


class Missing(Enum):
    """Something that a log may lack about a column, and how binlake reads the column then."""

    SIGN = ("the sign", "read as signed")
    CHARSET = ("the character set", "given as bytes")
    MEMBERS = ("the members", "given as numbers")


def missing_sentence(
    table: TableDefinition, missing: Mapping[Missing, Sequence[str]]
) -> str | None:
    """Return a sentence about the facts that the log lacks about a table, and the options that
    supply them; None if nothing is missing.

    `missing`: the names of the affected columns, by the missing property.
    """
    parts = []
    if table.name_source == NameSource.NONE:
        parts.append("the names of the columns (called col_0, col_1 …)")
    for what, columns in missing.items():
        noun, instead = what.value
        parts.append(f"{noun} of {_listed(columns)} ({instead})")
    if not parts:
        return None
    text = " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)
    helps = "the option schema"
    if Missing.CHARSET in missing:
        helps += " and the option assume_charset"
    return f"{table.full_name}: the log does not contain {text}; {helps} can provide it"


def _listed(columns: Sequence[str]) -> str:
    more = len(columns) - _SHOWN_COLUMNS
    return ", ".join(columns[:_SHOWN_COLUMNS]) + (f" and {more} more" if more > 0 else "")
