"""The tokens of a DDL statement of a log, by the sql_mode that the log has for it."""

from __future__ import annotations

import re

from binlake.errors import UnsupportedError
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.sql_tokens import Token, UnreadableTableError, split, statement_tokens

__all__ = ["items_of", "tokens_of"]

_STRING = re.compile(r"'(?:[^']|'')*+'|\"(?:[^\"]|\"\")*+\"")


def tokens_of(ddl: DdlStatement) -> list[Token]:
    """Return the tokens of a statement. Raises UnreadableTableError."""
    sql = ddl.sql
    if ddl.no_backslash_escapes and "\\" in sql:  # `statement_tokens` reads escapes
        sql = _STRING.sub(lambda found: found[0].replace("\\", "\\\\"), sql)
    return statement_tokens(sql)


def items_of(ddl: DdlStatement) -> list[list[Token]]:
    """Return the items of an ALTER TABLE. Raises UnsupportedError."""
    try:
        tokens = tokens_of(ddl)
    except UnreadableTableError as error:
        raise UnsupportedError(f"the statement cannot be read: {error}") from None
    at = next((i for i, token in enumerate(tokens) if token.word == "TABLE"), len(tokens)) + 1
    if [token.word for token in tokens[at : at + 2]] == ["IF", "EXISTS"]:
        at += 2
    at += 3 if len(tokens) > at + 1 and tokens[at + 1].word == "." else 1
    return [list(item) for item in split(tokens[at:]) if item]
