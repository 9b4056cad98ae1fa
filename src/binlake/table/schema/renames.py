"""Columns that the DDL of a log renames: ALTER TABLE … RENAME COLUMN a TO b, CHANGE a b type.

Rows before the statement have the old name, rows after it the new one, and no row event records
that the two are one column. So the ledger keeps the statements, and `table/schema/evolution.py`
unites by them.
"""

from __future__ import annotations

import re

from binlake.stream.sql.ddl import DdlStatement, TakesDdl
from binlake.table.schema.alter import renamed_columns
from binlake.table.schema.ddl_tokens import after_wait, tokens_of
from binlake.table.schema.sql_tokens import (
    UnreadableTableError,
    read_name,
    split,
)
from binlake.values.ledger import RenamedColumn

_RENAMES = re.compile(r"\b(?:RENAME|CHANGE)\b", re.IGNORECASE)
_MODIFIERS = ("ONLINE", "OFFLINE", "IGNORE")


def renames_of(ddl: DdlStatement) -> list[RenamedColumn]:
    """Return the columns that a statement renames; [] for a statement that is not understood."""
    if not _RENAMES.search(ddl.sql) or "\ufffd" in ddl.sql:
        return []
    try:
        tokens = tokens_of(ddl)
        words = [token.word for token in tokens]
        at = next(i for i, word in enumerate(words) if word == "TABLE") + 1
        if words[0] != "ALTER" or any(word not in _MODIFIERS for word in words[1 : at - 1]):
            return []
        at += 2 * (words[at : at + 2] == ["IF", "EXISTS"])
        database, table, at = read_name(tokens, at, ddl.database)
        pairs = renamed_columns(split(tokens[after_wait(tokens, at) :]))
    except (UnreadableTableError, StopIteration):
        return []
    file, pos = ddl.position.file, ddl.position.offset
    return [RenamedColumn(file, pos, database or "", table, old, new) for old, new in pairs]


def noting_renames(keep: list[RenamedColumn], on_ddl: TakesDdl) -> TakesDdl:
    """Wrap `on_ddl`: the renames of each statement are added to `keep` before it is called."""

    def take(ddl: DdlStatement) -> None:
        keep.extend(renames_of(ddl))
        on_ddl(ddl)

    return take
