"""Statements for people, without the passwords and password hashes that they contain.

    CREATE USER a IDENTIFIED WITH plugin AS '*9F2…'      CREATE USER a IDENTIFIED WITH plugin AS '***'
    CREATE SERVER s … OPTIONS (PASSWORD 'x')             CREATE SERVER s … OPTIONS (PASSWORD '***')
    CREATE TABLE t (…) CONNECTION='mysql://u:p@h/d/t'    CREATE TABLE t (…) CONNECTION='***'

Reports show this text. Outputs that a client replays, and the view `statements`, contain the text of the log.
"""

from __future__ import annotations

import re

from binlake.stream.sql.digest import TOKEN

_MAY_CONTAIN = re.compile(r"IDENTIFIED|PASSWORD|CONNECTION", re.IGNORECASE)
_HIDDEN = "'***'"
_QUOTE = re.compile(r"['\"]")
# Words that a password or its hash follows: everywhere, and after IDENTIFIED or SET PASSWORD.
_BEFORE = frozenset(("PASSWORD", "CONNECTION"))
_BEFORE_IN_CLAUSE = frozenset(("BY", "AS", "USING", "REPLACE"))


def without_passwords(sql: str) -> str:
    """Return a statement with `'***'` for each literal that is a password, a hash of one, or the URL of a connection.

    The text may be cut off: a literal without an end is hidden, too.
    """
    if _MAY_CONTAIN.search(sql) is None:
        return sql
    parts: list[str] = []
    context = _LiteralContext()
    at = 0
    for found in (*TOKEN.finditer(sql), None):
        signs = sql[at : len(sql) if found is None else found.start()]
        quote = _QUOTE.search(signs)  # of a literal without an end
        end = len(signs) if quote is None else quote.start()
        context.pass_signs(signs[:end])
        if quote is not None and context.is_secret:
            return "".join([*parts, signs[:end], _HIDDEN])
        parts.append(signs)
        if found is None:
            break
        text = found[0]
        if found.lastgroup == "literal":
            is_number = text[0] in ".0123456789" and text[:2].lower() != "0x"
            text = _HIDDEN if context.is_secret and not is_number else text
        elif found.lastgroup != "gap":
            context.pass_word(text.upper())
        parts.append(text)
        at = found.end()
    return "".join(parts)


class _LiteralContext:
    """The words before a literal in a statement. `is_secret`: a literal here is a password, or its hash."""

    def __init__(self) -> None:
        self.is_secret = False
        self._word = ""
        self._in_clause = False  # after IDENTIFIED, or SET PASSWORD
        self._sets_password = False

    def pass_word(self, word: str) -> None:
        """Take a word in upper case, or a quoted name."""
        if word == "PASSWORD" and self._word == "SET":
            self._sets_password = self._in_clause = True
        self._in_clause = self._in_clause or word == "IDENTIFIED"
        self.is_secret = (
            word in _BEFORE
            or word.endswith("_PASSWORD")
            or (self._in_clause and word in _BEFORE_IN_CLAUSE)
        )
        self._word = word

    def pass_signs(self, signs: str) -> None:
        """Take the signs before a token: `SET PASSWORD FOR 'user'@'host' = 'secret'`."""
        if any(sign in signs for sign in ",;)"):
            self.is_secret = False
        if self._sets_password and "=" in signs:
            self.is_secret = True
