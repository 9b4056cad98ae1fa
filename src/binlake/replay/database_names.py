"""Other names for databases in the text of a statement: what `sql --rewrite-db` does to DDL.

The default database of a statement is renamed with `USE`. Here it is about names that the statement
itself qualifies: `shop.orders`, `DATABASE shop`, `ON shop.*`. In statements about tables, databases and
privileges such a name means a database. In programs and views it may also be a table, an alias or a row of
a trigger. Those appear without a qualifier somewhere in the statement; if the name does, the statement is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from binlake.errors import UnsupportedError

# Texts, names and comments, by what they begin with.
_ENCLOSED = {
    b"'": rb"'(?:[^'\\]|\\.|'')*+'",
    b'"': rb"\"(?:[^\"\\]|\\.|\"\")*+\"",
    b"`": rb"`(?:[^`]|``)*+`",
    b"/*": rb"/\*(?!M?!)(?:[^*]|\*(?!/))*+\*/",
}
_HEAD_WORDS = 12
_OBJECTS = frozenset((b"TABLE", b"TABLES", b"DATABASE", b"SCHEMA", b"INDEX", b"SEQUENCE"))
_PROGRAMS = frozenset((b"VIEW", b"TRIGGER", b"EVENT", b"PROCEDURE", b"FUNCTION"))
_PRIVILEGES = frozenset((b"GRANT", b"REVOKE"))
_ROWS_OF_TRIGGERS = frozenset((b"new", b"old"))
_CONDITION = frozenset((b"IF", b"NOT", b"EXISTS"))


def with_databases(sql: bytes, databases: Mapping[str, str]) -> bytes:
    """The statement with the names of databases (old -> new) replaced where it qualifies names.

    Raises UnsupportedError for a name that cannot be told from other names.
    """
    if not databases:
        return sql
    renames = {old.encode(): new.encode() for old, new in databases.items()}
    folded = {old.lower() for old in renames}
    tokens = [m for m in _tokens(sql) if not m[0].startswith((b"--", b"#", b"/*", b"*/"))]
    parts: list[bytes] = []
    done = 0
    for at in _mentioned(tokens):
        name = _unquoted(tokens[at][0])
        plain = name.replace(b"\\_", b"_").replace(b"\\%", b"%")  # as in GRANT ON `a\_b`.*
        if plain.lower() not in folded:
            continue
        if plain not in renames or not (_is_rewritable(tokens) or _only_qualifies(tokens, plain)):
            raise UnsupportedError(
                f"--rewrite-db: binlake cannot determine whether {plain.decode('utf-8', 'replace')} in the statement"
                " is the database to rename",
                hint="leave --rewrite-db out, or end the script before the statement (--stop)",
            )
        new = renames[plain]
        new = new.replace(b"_", b"\\_") if name != plain else new
        parts += [sql[done : tokens[at].start()], b"`" + new.replace(b"`", b"``") + b"`"]
        done = tokens[at].end()
    return b"".join([*parts, sql[done:]])


def _tokens(sql: bytes) -> Iterator[re.Match[bytes]]:
    """All tokens of a statement, so that a name in a text or a comment is not taken for one.

    If a text has no end, its quote is a sign, and so is each later quote of this kind: to search for the end of each
    would be quadratic.
    """
    kinds = tuple(_ENCLOSED)
    at: int | None = 0
    while at is not None:
        begin, at = at, None
        for token in _pattern(kinds).finditer(sql, begin):
            yield token
            if token["unclosed"] is not None:
                kinds = tuple(kind for kind in kinds if kind != token[0])
                at = token.end()
                break


@cache
def _pattern(kinds: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """The tokens, of which these kinds may be enclosed."""
    enclosed = [_ENCLOSED[kind] for kind in kinds]
    begins = b"|".join(re.escape(kind) for kind in kinds) or rb"(?!)"
    return re.compile(
        b"|".join(
            (
                *enclosed,
                rb"--(?=\s)[^\n]*+|\#[^\n]*+|/\*M?!\d*|\*/|(?P<unclosed>%b)" % begins,
                rb"[\w$\x80-\xff]+|\S",
            )
        ),
        re.DOTALL,
    )


def _mentioned(tokens: list[re.Match[bytes]]) -> Iterator[int]:
    """The positions of names that may be names of databases."""
    words = [token[0] for token in tokens]
    for at, word in enumerate(words):
        if word[:1] in (b"'", b'"') or not re.match(rb"[\w$`\x80-\xff]", word):
            continue
        before = words[at - 1] if at else b""
        qualifies = words[at + 1 : at + 2] == [b"."] and before not in (b".", b"@")
        if qualifies or (at < _HEAD_WORDS and _names_database(words[:at])):
            yield at


def _names_database(before: list[bytes]) -> bool:
    """Whether the name after these words is the name of a database: CREATE DATABASE IF NOT EXISTS …"""
    words = [word.upper() for word in before]
    while words and words[-1] in _CONDITION:
        words.pop()
    return len(words) <= 4 and words[-1:] in ([b"DATABASE"], [b"SCHEMA"])


def _is_rewritable(tokens: list[re.Match[bytes]]) -> bool:
    words = [token[0].upper() for token in tokens[:_HEAD_WORDS]]
    if words[:1] == [b"TRUNCATE"] or words[0] in _PRIVILEGES:
        return True
    return next((word in _OBJECTS for word in words if word in _OBJECTS | _PROGRAMS), False)


def _only_qualifies(tokens: list[re.Match[bytes]], name: bytes) -> bool:
    """Whether nothing but a database can have the name: no table, alias or variable does."""
    words = [token[0] for token in tokens]
    folded = name.lower()
    if folded in _ROWS_OF_TRIGGERS:
        return False
    for at, word in enumerate(words):
        if _unquoted(word).lower() != folded:
            continue
        before, after = words[at - 1] if at else b"", words[at + 1 : at + 2]
        is_account = before == b"@" or after == [b"@"]
        if not is_account and (before == b"." or after != [b"."]):
            return False
    return True


def _unquoted(name: bytes) -> bytes:
    return name[1:-1].replace(b"``", b"`") if name.startswith(b"`") else name
