"""Statements about the programs that a server stores: triggers, events and routines."""

from __future__ import annotations

import re

from binlake.format.sql_names import ANSI_NAME, GAP, SPACE

#: A name and, if the statement has it, its database, in the groups `name` and `database`; both after a prefix.
QUALIFIED_NAME = rf"(?:(?P<{{0}}database>{ANSI_NAME}){GAP}\.{GAP})?(?P<{{0}}name>{ANSI_NAME})"

_ACCOUNT = rf"(?:{ANSI_NAME}|'[^']*'|\"\")"
_STATEMENT = re.compile(
    rf"{GAP}(?P<verb>CREATE|ALTER|DROP){SPACE}(?:OR{SPACE}REPLACE{SPACE})?"
    rf"(?:DEFINER{GAP}={GAP}{_ACCOUNT}(?:\s*@\s*{_ACCOUNT}|\s*\(\s*\))?{GAP})?"
    rf"(?:AGGREGATE{SPACE})?(?P<kind>TRIGGER|EVENT|PROCEDURE|FUNCTION|PACKAGE)\b{GAP}"
    rf"(?:BODY{SPACE})?(?:IF{SPACE}(?:NOT{SPACE})?EXISTS{SPACE})?{QUALIFIED_NAME.format('')}",
    re.IGNORECASE,
)


def program_statement(sql: str) -> re.Match[str] | None:
    """Return the head of a statement that creates, alters or drops a program; None for other statements.

    Its groups are `verb`, `kind` (TRIGGER, EVENT, PROCEDURE, FUNCTION or PACKAGE), `database` and `name`.
    """
    return _STATEMENT.match(sql)


def stores_text(sql: str) -> bool:
    """Whether the server stores a part of the statement as the client sends it: the body of a program."""
    found = program_statement(sql)
    if found is None:
        return False
    verb, kind = found["verb"].upper(), found["kind"].upper()
    return verb == "CREATE" or (verb == "ALTER" and kind == "EVENT")
