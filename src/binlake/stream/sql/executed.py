"""The part of a logged statement that the server executed.

A server logs a statement that failed if a part of it took effect. Two such statements show which part:

- A DROP of several tables, of which some did not exist, has dropped the others. MySQL before 8.0 logs it so.
- MariaDB's CREATE OR REPLACE TABLE has dropped the old table before it failed.

MariaDB logs a DROP of several tables without an error, although some did not exist. Its replicas ignore these.
"""

from __future__ import annotations

import re

from binlake.events.common.query import QueryEvent
from binlake.format.charsets import CHARSETS
from binlake.format.sql_names import ANSI_NAME, GAP, SPACE
from binlake.stream.sql.statements import without_set_statement
from binlake.values.charset_text import decode, encode

# ER_BAD_TABLE_ERROR; MariaDB: ER_UNKNOWN_SEQUENCES, ER_UNKNOWN_VIEW
_SOME_DID_NOT_EXIST = frozenset((1051, 4091, 4092))
# A comment that the server executes may contain the IF EXISTS.
_DROP = re.compile(
    rf"{GAP}(?P<drop>DROP{SPACE}(?:TEMPORARY{SPACE})?(?:TABLES?|VIEW|SEQUENCE))\b"
    rf"(?P<names>{GAP}(?!IF\b|/\*).*)".encode(),
    re.IGNORECASE | re.DOTALL,
)
_CREATE_OR_REPLACE = re.compile(
    rf"{GAP}CREATE{SPACE}OR{SPACE}REPLACE{SPACE}(?P<temporary>TEMPORARY{SPACE})?TABLE\b{GAP}"
    rf"(?:(?P<database>{ANSI_NAME}){GAP}\.{GAP})?(?P<table>{ANSI_NAME})"
    # the whole name: a bare one ends here, and it is not that of a database
    rf"(?:(?<=[`\"])|(?=[\s(/#]|--\s|\Z))(?!{GAP}(?:/\*M?!\d*\s*)?\.)",
    re.IGNORECASE,
)


def executed_text(event: QueryEvent) -> bytes | None:
    """Return the SQL that the server executed, as the log encodes it.

    This is the text of the statement if it succeeded. If it failed, this is a statement with the effect that it had, or None
    if the log does not show the effect.
    """
    if not event.error_code:
        return event.sql_raw
    text = without_set_statement(event.sql_raw)
    if event.error_code in _SOME_DID_NOT_EXIST and _DROP.fullmatch(text):
        return with_if_exists(text)
    if event.flavour != "mariadb":
        return None  # only MariaDB knows CREATE OR REPLACE TABLE
    # a character of gbk, sjis or big5 may contain the byte of a quote, and end a name too early
    charset = event.client_charset
    known = charset if charset in CHARSETS else "utf8mb4"
    replaced = _CREATE_OR_REPLACE.match(_beginning(known, text))
    if replaced is None:
        return None
    temporary = "TEMPORARY " if replaced["temporary"] else ""
    name = ".".join(filter(None, replaced.group("database", "table")))
    return encode(known, f"DROP {temporary}TABLE IF EXISTS {name}")


def _beginning(charset: str, raw: bytes) -> str:
    """Return a statement up to the first byte that is not text, with U+FFFD in place of the rest: its literals may be binary."""
    try:
        return decode(charset, raw)
    except UnicodeDecodeError as error:
        return decode(charset, raw[: error.start]) + "\ufffd"


def with_if_exists(text: bytes) -> bytes:
    """Return a DROP of tables, views or sequences with IF EXISTS; other statements, and a DROP that has it, unchanged."""
    dropped = _DROP.fullmatch(text)
    return text if dropped is None else dropped["drop"] + b" IF EXISTS" + dropped["names"]
