"""The tokens of a DDL statement of a log, by the sql_mode and the character sets that the log has for it.

A server converts the quoted texts of a statement to the character set of `collation_connection`, and only then to that of
the column. It stores `?` for a character that is not in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from binlake.errors import UnsupportedError
from binlake.format.charsets import BINARY
from binlake.format.flags import MODE_ANSI_QUOTES
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.schema.sql_tokens import (
    Token,
    UnreadableTableError,
    outer,
    split,
    statement_tokens,
)
from binlake.values.charset_text import encode

# They have every character of all other character sets.
_WHOLE_CHARSETS = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030", BINARY})
# In these, some ASCII characters have no code.
_WITHOUT_ASCII = frozenset({"swe7"})
_INTRODUCER = re.compile(r"_[a-z0-9]+", re.IGNORECASE)
_STRING = re.compile(r"'(?:[^']|'')*+'|\"(?:[^\"]|\"\")*+\"")


def tokens_of(ddl: DdlStatement) -> list[Token]:
    """Return the tokens of a statement. Raises UnreadableTableError."""
    sql = ddl.sql
    if ddl.no_backslash_escapes and "\\" in sql:  # `statement_tokens` reads escapes
        sql = _STRING.sub(lambda found: found[0].replace("\\", "\\\\"), sql)
    tokens = statement_tokens(sql)
    return tokens if _holds_all(ddl) else list(_converted(tokens, ddl))


def items_of(ddl: DdlStatement) -> list[list[Token]]:
    """Return the items of an ALTER TABLE. Raises UnsupportedError."""
    try:
        tokens = tokens_of(ddl)
        at = next((i for i, token in enumerate(tokens) if token.word == "TABLE"), len(tokens)) + 1
        if [token.word for token in tokens[at : at + 2]] == ["IF", "EXISTS"]:
            at += 2
        at += 3 if len(tokens) > at + 1 and tokens[at + 1].word == "." else 1
        return clauses(tokens[after_wait(tokens, at) :])
    except UnreadableTableError as error:
        raise UnsupportedError(f"the statement cannot be read: {error}") from None


def clauses(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the items of an ALTER TABLE behind the name of the table. Raises UnreadableTableError.

    No comma separates PARTITION BY and REMOVE PARTITIONING from the item before them.
    """
    return [part for item in split(tokens) for part in _without_partitioning(item)]


def _without_partitioning(item: list[Token]) -> list[list[Token]]:
    words = [token.word for token in item[1:]] + [""]
    for at, token in outer(item):
        if at and (token.word, words[at]) in (("PARTITION", "BY"), ("REMOVE", "PARTITIONING")):
            return [item[:at], item[at:]]
    return [item]


def after_wait(tokens: Sequence[Token], at: int) -> int:
    """Return the place after MariaDB's WAIT n | NOWAIT, if that comes next."""
    word = tokens[at].word if at < len(tokens) else ""
    return at + {"NOWAIT": 1, "WAIT": 2}.get(word, 0)


def _holds_all(ddl: DdlStatement) -> bool:
    """Whether the server stores the quoted texts of a statement as they are written."""
    charset = ddl.connection_charset
    if charset is None or charset in _WHOLE_CHARSETS:
        return True
    return ddl.sql.isascii() and charset not in _WITHOUT_ASCII


def _converted(tokens: Sequence[Token], ddl: DdlStatement) -> Iterator[Token]:
    """Yield the tokens with their quoted texts as the server converts them."""
    names = '"' if ddl.sql_mode & MODE_ANSI_QUOTES else ""
    before = ""
    for token in tokens:
        quote = token.source.lstrip()[:1]
        # the character set of N'…' and _charset'…' is their own
        is_own = quote in (*names, "n", "N") or _INTRODUCER.fullmatch(before) is not None
        before = token.word
        is_converted = token.kind == "string" and not is_own
        yield _in_charset(token, ddl.connection_charset or "") if is_converted else token


def _in_charset(token: Token, charset: str) -> Token:
    source = token.source
    kept = set(" '\"\\")  # they are not a part of the text, or the text is refused
    return Token(
        "".join(_stored(one, charset) for one in token.text),
        token.kind,
        "".join(one if one in kept else _stored(one, charset) for one in source),
        token.word,
    )


def _stored(character: str, charset: str) -> str:
    try:
        encode(charset, character)
    except UnicodeEncodeError:
        return "?"
    return character
