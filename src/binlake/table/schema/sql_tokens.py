"""Split a statement into tokens by sqlglot's lexical rules, with the helpers that all readers
need.

sqlglot's parser is not used. Of 589 different CREATE TABLE statements in our golden and corpus logs,
`parse_one` of sqlglot 30.30 refuses 60: FLOAT UNSIGNED, types of MariaDB. It returns RENAME TABLE,
ALTER TABLE … CONVERT TO, ADD (a, b), ALTER ONLINE and changes of partitions as one opaque text.
A definition that is not read leaves a table without column names.

sqlglot is imported when the first statement is read: only for reads with a schema, and for logs
without full metadata.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

__all__ = [
    "Token",
    "UnreadableTableError",
    "closing",
    "outer_words",
    "read_name",
    "source_text",
    "split",
    "statement_tokens",
]

# No server's definitions are larger: 4096 columns with comments, 8192 partitions.
_LONGEST = 4 << 20
# Of those the longest has 12 words for each partition, and some for each column. A word costs 500 bytes.
_MOST_TOKENS = 1 << 18
_MOST_ITEMS = 1 << 14
_EXECUTED_COMMENT = re.compile(
    # An unterminated item ends the statement: searching for its end again from each place is
    # quadratic.
    r"""'(?:[^'\\]|\\.)*+(?:'|\Z)|"(?:[^"\\]|\\.)*+(?:"|\Z)|`[^`]*+(?:`|\Z)|--(?=\s)[^\n]*+|\#[^\n]*+"""
    r"""|/\*(?!M?!)(?:[^*]|\*(?!/))*+(?:\*/|\Z)|(?P<open>/\*M?!\d*\s?)|(?P<close>\*/)""",
    re.DOTALL,
)


# At least as many matches as there are tokens.
_PIECE = re.compile(
    r"""'(?:[^'\\]|\\.)*+(?:'|\Z)|"(?:[^"\\]|\\.)*+(?:"|\Z)|`[^`]*+(?:`|\Z)|[\w$]++|\s++"""
    r"""|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)|.""",
    re.DOTALL,
)


class UnreadableTableError(ValueError):
    """The statement is not understood; the message contains the reason and the table."""


class Token(NamedTuple):
    """A word, a sign, a string or a quoted name, without its quotes.

    `source` is the text as written, after one space where white space or a comment stands before it.
    """

    text: str
    kind: str  # "name" quoted, "string", or "word"
    source: str = ""

    @property
    def word(self) -> str:
        """Upper case when it is a bare word, else empty."""
        return self.text.upper() if self.kind == "word" else ""


def statement_tokens(sql: str) -> list[Token]:
    """Return the tokens of a statement; executable comments are executed. Raises
    UnreadableTableError.

    Servers log a versioned comment that they did not execute as a plain one, so each remaining
    executable comment counts.
    """
    from sqlglot import tokenize
    from sqlglot.errors import TokenError

    if len(sql) > _LONGEST:
        raise UnreadableTableError(f"(the statement has {len(sql)} characters)")
    kinds = {"IDENTIFIER": "name", "STRING": "string"}
    text = "_ " + _executed(sql)
    if len(text) > _MOST_TOKENS and any(islice(_PIECE.finditer(text), _MOST_TOKENS, None)):
        raise UnreadableTableError(
            f"(the statement has more than {_MOST_TOKENS:,} words and signs)"
        )
    try:
        # a first word, so that sqlglot does not take RENAME for a command with an opaque text
        found = tokenize(text, read="mysql")[1:]
    except TokenError as error:
        raise UnreadableTableError(f"({str(error).splitlines()[0]})") from None
    tokens: list[Token] = []
    end = 1  # of the token before
    for token in found:
        kind = kinds.get(token.token_type.name, "word")
        source = " " * (token.start > end) + text[token.start : token.end + 1]
        end = token.end + 1
        words = token.text.split() if kind == "word" else [token.text]
        if len(words) == 1:
            tokens.append(Token(words[0], kind, source))
        else:
            tokens += [Token(word, kind, f" {word}") for word in words]
    while tokens and tokens[-1].word == ";":
        tokens.pop()
    return tokens


def _executed(sql: str) -> str:
    """Replace executable comments in the text by their content."""
    parts = []
    at, is_open = 0, False
    for found in _EXECUTED_COMMENT.finditer(sql):
        if found.lastgroup is None or (found.lastgroup == "close" and not is_open):
            continue  # quoted text, another comment
        is_open = found.lastgroup == "open"
        parts.append(sql[at : found.start()])
        at = found.end()
    return " ".join([*parts, sql[at:]])


def read_name(
    tokens: Sequence[Token], at: int, database: str | None
) -> tuple[str | None, str, int]:
    """Return database (the current one, if none is written), name, and the place after them.

    Raises UnreadableTableError if there is no name.
    """
    if at >= len(tokens) or not tokens[at].text or tokens[at].word in (",", "(", ")", ".", "="):
        raise UnreadableTableError("(a name is missing)")
    if at + 2 < len(tokens) and tokens[at + 1].word == ".":
        return tokens[at].text, tokens[at + 2].text, at + 3
    return database, tokens[at].text, at + 1


def closing(tokens: Sequence[Token], opening: int, table: str) -> int:
    """Return the place of the closing parenthesis. Raises UnreadableTableError."""
    depth = 0
    for at in range(opening, len(tokens)):
        word = tokens[at].word
        depth += (word == "(") - (word == ")")
        if depth == 0:
            return at
    raise UnreadableTableError(f"{table}: a parenthesis is not closed")


def split(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split at the commas outside parentheses. Raises UnreadableTableError if there are too many."""
    items: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.word == "(") - (token.word == ")")
        if token.word == "," and depth == 0:
            items.append([])
        else:
            items[-1].append(token)
    if len(items) > _MOST_ITEMS:
        raise UnreadableTableError(f"(a list of {len(items)})")
    return [item for item in items if item]


def source_text(tokens: Sequence[Token]) -> str:
    """Return the SQL text of tokens, without comments."""
    return "".join(token.source for token in tokens).strip()


def outer_words(tokens: Sequence[Token]) -> list[str]:
    """Return words outside parentheses, without strings and quoted names."""
    words = []
    depth = 0
    for token in tokens:
        depth += (token.word == "(") - (token.word == ")")
        if depth == 0 and token.word:
            words.append(token.word)
    return words
