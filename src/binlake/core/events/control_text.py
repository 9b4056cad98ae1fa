"""Statements that control transactions, recognised by their text.

BEGIN, COMMIT and ROLLBACK are written by the servers themselves (MySQL sql/binlog.cc, MariaDB
sql/log.cc). Today's servers also write SAVEPOINT, ROLLBACK TO and XA statements. Servers before 5.5
log the user's text, with its comments.
"""

from __future__ import annotations

import re
from functools import lru_cache

from binlake.format.sql_names import ANSI_NAME_BYTES
from binlake.values.step import Step

# Possessive quantifiers (`*+`, `++`): a hostile text costs linear time.
_SPACE = rb"(?:\s|/\*(?!M?!).*?\*/|--[ \t\r\n][^\n]*+(?:\n|\Z)|#[^\n]*+(?:\n|\Z))"
_END = rb"(?:" + _SPACE + rb"|;)*+\Z"
#: `_` stands for white space and comments, `@` for a savepoint's name, `;` for the end.
_CONTROL_TEXTS = (
    (Step.BEGIN, rb"BEGIN(?:_+WORK)?;"),
    (Step.BEGIN, rb"START_+TRANSACTION\b"),
    (Step.COMMIT, rb"COMMIT(?:_+WORK)?(?:_+AND\b.*|_+(?:NO_+)?RELEASE)?;"),
    (Step.ROLLBACK_TO, rb"ROLLBACK(?:_+WORK)?_+TO(?:_+SAVEPOINT)?_*(?P<name>@);"),
    (Step.ROLLBACK, rb"ROLLBACK(?:_+WORK)?(?:_+AND\b.*|_+(?:NO_+)?RELEASE)?;"),
    (Step.SAVEPOINT, rb"SAVEPOINT_*(?P<name>@);"),
    (Step.RELEASE, rb"RELEASE_+SAVEPOINT_*(?P<name>@);"),
    (Step.XA_START, rb"XA_+(?:START|BEGIN)\b"),
    (Step.XA_END, rb"XA_+END\b"),
    (Step.XA_PREPARE, rb"XA_+PREPARE\b"),
    (Step.XA_COMMIT, rb"XA_+COMMIT\b"),
    (Step.XA_ROLLBACK, rb"XA_+ROLLBACK\b"),
)


def _compile(pattern: bytes) -> re.Pattern[bytes]:
    for short, full in (
        (b"_*", _SPACE + b"*+"),
        (b"_+", _SPACE + b"++"),
        (b"@", ANSI_NAME_BYTES),
        (b";", _END),
    ):
        pattern = pattern.replace(short, full)
    return re.compile(_SPACE + b"*+" + pattern, re.IGNORECASE | re.DOTALL)


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[Step, re.Pattern[bytes]], ...]:
    """Compiled for the first text, because most logs have none."""
    return tuple((step, _compile(pattern)) for step, pattern in _CONTROL_TEXTS)


def text_step(text: bytes) -> tuple[Step, bytes]:
    """The step of a QUERY's text, and the savepoint it names (b"" for other steps).

    Savepoint names come unquoted and folded to lower case (they are compared without regard
    to case), as far as ASCII goes.
    """
    for step, pattern in _patterns():
        found = pattern.match(text)
        if found is not None:
            name = found["name"] if "name" in pattern.groupindex else b""
            return step, _unquote(name).lower()
    return Step.STATEMENT, b""


def _unquote(name: bytes) -> bytes:
    quote = name[:1]
    if quote in (b"`", b'"') and len(name) > 1:
        return name[1 : len(name) - 1].replace(quote * 2, quote)
    return name
