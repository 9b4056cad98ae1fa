"""Split a statement into tokens by the servers' lexical rules, with the helpers that all readers
need.

sqlglot is not used. Of 589 different CREATE TABLE statements in our golden and corpus logs, `parse_one` of
sqlglot 30.30 refuses 60: FLOAT UNSIGNED, types of MariaDB. It returns RENAME TABLE, ALTER TABLE … CONVERT TO,
ADD (a, b), ALTER ONLINE and changes of partitions as one opaque text. A definition that is not read leaves a
table without column names. Its tokenizer takes 30 times as long as one regular expression, and a schema file
of 1 MB may contain 40,000 statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from binlake.stream.sql.comments import text_without_comments

# No server's definitions are larger: 4096 columns with comments, 8192 partitions.
_LONGEST = 4 << 20
# Of those the longest has 12 words for each partition, and some for each column. A word costs 300 bytes.
_MOST_TOKENS = 1 << 18
_MOST_ITEMS = 1 << 14
_SPACE = r" \t\n\r\f\v"
_SIGNS = r"()\[\]{}&^:,.\-=><%!|+;/\\*~?@#'`\""
_GAP = rf"(?:[{_SPACE}]++|--(?=[\x00-\x20\x7f]|\Z)[^\n]*+|\#[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+"
_TEXT = r"""(?:[nN]?'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+")"""
_BYTES = r"[xXbB]'[0-9A-Fa-f]*+'"
# The name behind a dot may begin with a digit, so a number does not begin with one.
_REAL = r"\d++(?:\.\d*+(?:[eE][-+]?\d++)?|[eE][-+]\d++)"
#: White space and comments, and what follows them: text or a quoted name, else a word, a sign, or the end.
_TOKEN = re.compile(
    rf"({_GAP})(?:({_TEXT}|`(?:[^`]++|``)++`)|({_BYTES}|{_REAL}|[^{_SPACE}{_SIGNS}]++|/\*|[^{_SPACE}]|\Z))",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_ESCAPED = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}
_MOST_KNOWN = 1 << 12
_LONGEST_KNOWN = 64


class UnreadableTableError(ValueError):
    """The statement is not understood; the message contains the reason and the table."""


class Token(NamedTuple):
    """A word, a sign, a string or a quoted name, without its quotes.

    `source` is the text as written, after one space where white space or a comment stands before it.
    `word` is the text in upper case if it is a bare word or a sign, else empty.
    """

    text: str
    kind: str  # "name" quoted, "string", or "word"
    source: str
    word: str


#: Tokens by their source: statements repeat few words many times.
_known: dict[str, Token] = {}


def statement_tokens(sql: str) -> list[Token]:
    """Return the tokens of a statement; executable comments are executed. Raises
    UnreadableTableError.
    """
    if len(sql) > _LONGEST:
        raise UnreadableTableError(f"(the statement has {len(sql)} characters)")
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text_without_comments(sql) if "/*" in sql else sql):
        gap, quoted, bare = match.groups()
        source = quoted or bare
        if not source:
            break
        if gap:
            source = " " + source
        token = _known.get(source)
        if token is None:
            token = _quoted(quoted, source) if quoted else _bare(bare, source)
            _keep(source, token)
        tokens.append(token)
        if len(tokens) > _MOST_TOKENS:
            raise UnreadableTableError(
                f"(the statement has more than {_MOST_TOKENS:,} words and signs)"
            )
    while tokens and tokens[-1].word == ";":
        tokens.pop()
    return tokens


def _keep(source: str, token: Token) -> None:
    if len(source) <= _LONGEST_KNOWN:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[source] = token


def _bare(text: str, source: str) -> Token:
    if text in ("'", '"', "`", "/*"):
        raise UnreadableTableError(f"({text} is not closed)")
    return Token(text, "word", source, text.upper())


def _quoted(text: str, source: str) -> Token:
    if text[0] == "`":
        return Token(text[1:-1].replace("``", "`"), "name", source, "")
    quote = text[-1]
    inner = text[text.index(quote) + 1 : -1]
    if "\\" in inner or quote in inner:
        inner = _ESCAPE.sub(lambda found: _unescaped(found, quote), inner)
    return Token(inner, "string", source, "")


def _unescaped(found: re.Match[str], quote: str) -> str:
    if found[1] is not None:
        return _ESCAPED.get(found[1], found[1])
    return quote if found[0][0] == quote else found[0]


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


def outer(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """Yield the tokens outside parentheses, with their places; the closing ones are outside."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.word == "(") - (token.word == ")")
        if depth == 0:
            yield at, token


def outer_words(tokens: Sequence[Token]) -> list[str]:
    """Return words outside parentheses, without strings and quoted names."""
    return [token.word for _, token in outer(tokens) if token.word]
