r"""How the command-line clients, mysql and mariadb, cut a script into statements.

A client reads a script with a small lexer of its own: it looks for the delimiter and for client
commands (`\!` runs a program) outside of strings and comments. A statement whose strings and
comments the client sees otherwise than the server did would be cut elsewhere, and its values would
be executed. `misreading` follows that lexer and reports why a statement does not arrive whole.

Source: client/mysql.cc of MySQL 9.7 and of MariaDB 11.8 (`add_line`, `find_command`), and the
clients themselves: tests/server/test_hostile_scripts.py. Both know no escapes in backticks and read
strings in `/*! */`, but none in `/*+ */`. Only MariaDB's knows ANSI_QUOTES, and only MariaDB's is
confused by a comment in a `/*! */`. Only MariaDB's knows `/*M! */`; since people replay MySQL's
logs with it too, what is in such a comment counts everywhere.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from binlake.replay.event_text import DELIMITER, END

#: Character sets in which a backslash or a backtick can be the second byte of a character.
LAST_BYTES: dict[str, bytes] = {
    "big5": rb"[\xa1-\xf9][\x40-\x7e\xa1-\xfe]",
    "cp932": rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]",
    "gb18030": rb"[\x81-\xfe](?:[\x40-\x7e\x80-\xfe]|[\x30-\x39][\x81-\xfe][\x30-\x39])",
    "gbk": rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]",
    "sjis": rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]",
}
_CLIENT_COMMANDS = frozenset(
    b"? charset clear connect costs delimiter edit ego exit go help nopager notee nowarning pager"
    b" print prompt query_attributes quit rehash resetconnection sandbox source"
    b" ssl_session_data_print status system tee use warnings".split()
)
_FIRST_WORD = re.compile(
    rb"(?:\s|\#[^\n]*+|--(?=\s|\Z)[^\n]*+|/\*(?![!+])(?:[^*]|\*(?!/))*+\*/)*+(\?|\w+)"
)
_WORDS = {
    "command": "it has a client command (a backslash) outside of strings",
    "unclosed": "a string or comment in it does not end",
    "nested": "it has a comment in a version comment",
}


class ClientLexer(NamedTuple):
    """The settings that the lexing of a statement depends on."""

    flavour: str
    charset: str | None = None
    no_backslash_escapes: bool = False
    ansi_quotes: bool = False

    def misreading(self, statement: bytes) -> str | None:
        """Why a client does not read the statement as one whole, None when it does."""
        first = _FIRST_WORD.match(statement)
        if first is not None and first[1].lower() in _CLIENT_COMMANDS:
            return f"it begins with a client command ({first[1].decode()})"
        conditional = False
        for token in _tokens(self).finditer(statement):
            kind = token.lastgroup
            if kind in ("command", "unclosed"):
                return _WORDS[kind]
            if kind == "open":
                conditional = True
            elif kind == "close":
                conditional = False
            elif kind == "comment" and conditional and self.flavour == "mariadb":
                return _WORDS["nested"]
        return None

    def has_comments(self, statement: bytes) -> bool:
        """Whether a statement that is not misread has comments: without its option --comments, the client removes them."""
        for token in _tokens(self).finditer(statement):
            if token.lastgroup in ("line", "comment"):
                return True
            if token.lastgroup == "unclosed":  # each later one would be searched to the end again
                return False
        return False


@cache
def _tokens(settings: ClientLexer) -> re.Pattern[bytes]:
    """The tokens at which a client looks; what lies between two of them is plain."""
    pair = LAST_BYTES.get(settings.charset or "", rb"[^\x00-\xff]")
    escape = rb"" if settings.no_backslash_escapes else rb"|\\."
    in_string = rb"\\" if escape else b""
    # in MySQL's client ANSI_QUOTES changes nothing
    plain_double = settings.ansi_quotes and settings.flavour == "mariadb"
    double = (rb"", rb"") if plain_double else (escape, in_string)
    quoted = rb"|".join(
        quote + rb"(?:" + pair + rb"|[^" + quote + stop + rb"]" + escapes + rb")*+" + quote
        for quote, escapes, stop in (
            (rb"'", escape, in_string), (rb'"', *double), (rb"`", rb"", rb"")
        )
    )  # fmt: skip
    return re.compile(
        rb"(?P<pair>" + pair + rb")"
        rb"|(?P<line>\#[^\n]*+|--(?=\s|\Z)[^\n]*+)"
        rb"|(?P<hint>/\*\+(?:[^*\\]|\*(?!/))*+\*/)"
        rb"|(?P<open>/\*M?!)"
        rb"|(?P<comment>/\*(?!\+)(?:[^*]|\*(?!/))*+\*/)"
        rb"|(?P<close>\*/)"
        rb"|(?P<string>" + quoted + rb")"
        rb"|(?P<null>\\N)"
        rb"|(?P<command>\\)"
        rb"|(?P<unclosed>['\"`]|/\*)",
        re.DOTALL,
    )


def delimited(statement: bytes) -> bytes:
    """A statement and the delimiter after it; another delimiter where the statement has it inside."""
    if DELIMITER not in statement:
        return statement + b"\n" + END
    number = 1
    while b"/*!%d*/;" % number in statement:
        number += 1
    own = b"/*!%d*/;" % number
    return b"DELIMITER %s\n%s\n%s\nDELIMITER %s\n" % (own, statement, own, DELIMITER)


def is_swallowed(quoted: bytes, charset: str | None) -> bool:
    """Whether a client reads on past the end of a quoted text in UTF-8.

    `charset` is the client's, None when it is not known: then any will do.
    """
    if quoted.isascii():
        return False
    charsets = LAST_BYTES if charset is None else {charset} & LAST_BYTES.keys()
    return any(
        (found := _tokens(ClientLexer("mysql", name)).match(quoted)) is None
        or found.end() != len(quoted)
        for name in charsets
    )
