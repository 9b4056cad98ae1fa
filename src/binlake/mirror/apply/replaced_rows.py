"""Rows that a REPLACE of MariaDB overwrites, in a log with binlog_row_image MINIMAL or NOBLOB.

A server may log a REPLACE as an update. Then the columns that the statement does not name have their defaults again. MySQL
logs them; MariaDB does not, so only the text of the statement shows that the row has other values than before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pyarrow.compute as pc

from binlake.errors import UnsupportedError
from binlake.source.arrays import scalar
from binlake.stream.sql.comments import text_without_comments
from binlake.stream.sql.statements import without_set_statement
from binlake.table.batches import OPERATIONS, Changes, TableChanges
from binlake.values.options import ReadOptions

_UPDATE = OPERATIONS.index("update")
_STRING = r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\""
_REPLACES = re.compile(
    rf"\s*(?:ANALYZE\s+(?:FORMAT\s*=\s*\w+\s+)?)?(?:REPLACE\b|LOAD\s+(?:DATA|XML)\b(?:{_STRING}|[^'\"])*?\bREPLACE\s+INTO\b)",
    re.IGNORECASE | re.DOTALL,
)
_SET_STATEMENT = re.compile(r"\s*SET\s+STATEMENT\b", re.IGNORECASE)
# The beginning of a statement, up to REPLACE.
_LONGEST_BEGINNING = 64 << 10

Answer = TypeVar("Answer")


class StatementsNeededError(Exception):
    """The log has to be read with the texts of the statements."""


def with_statements_if_needed(
    decode: Callable[[ReadOptions], Answer], options: ReadOptions
) -> tuple[Answer, bool]:
    """Decode without the texts of statements, which takes less time; or else with them. Also returns whether they were read:
    a log that needs them once needs them in most of its ranges.
    """
    try:
        return decode(options), options.query
    except StatementsNeededError:
        return decode(replace(options, query=True)), True


def refuse_replaced(changes: Changes, table: TableChanges, options: ReadOptions) -> None:
    """Refuse updates by REPLACE whose images lack columns. Raises UnsupportedError; StatementsNeededError if the log was read
    without the texts of statements.
    """
    definition = table.types.definition
    if definition.flavour != "mariadb":
        return
    absent = table.after.absent()
    is_short = pc.and_(pc.equal(table.facts.op, scalar(_UPDATE)), pc.is_valid(absent))
    lacking = set(pc.unique(absent.filter(is_short).flatten()).to_pylist())
    lacking -= {column.name for column in definition.columns if column.generated}
    if not lacking:
        return
    if not options.query:
        raise StatementsNeededError
    for number in pc.unique(table.facts.row_origin.filter(is_short)).to_pylist():
        text = changes.row_origins[number].query or ""
        if _may_replace(text[:_LONGEST_BEGINNING]):
            raise UnsupportedError(
                f"{definition.full_name}: REPLACE has given columns their defaults, which MariaDB does not log with "
                f"binlog_row_image=MINIMAL or NOBLOB: {', '.join(sorted(lacking))}",
                hint="set binlog_row_image=FULL on the server, then `binlake mirror resync`",
            )


def _may_replace(beginning: str) -> bool:
    """Whether a statement that begins so is a REPLACE, or hides behind a comment without an end, or behind settings that cannot be read."""
    plain = text_without_comments(beginning).lstrip()
    if plain.startswith("/*"):
        return True
    whole = plain.encode("utf-8", "surrogateescape")
    statement = without_set_statement(whole)
    is_unread = statement == whole and _SET_STATEMENT.match(plain) is not None
    return is_unread or _REPLACES.match(statement.decode("utf-8", "surrogateescape")) is not None
