"""Names in SQL statements, and the space between words, as regular expressions.

A backquote inside a quoted name is doubled.

Quantifiers are possessive, so a hostile statement costs linear time.
"""

from __future__ import annotations

__all__ = ["ANSI_NAME", "ANSI_NAME_BYTES", "GAP", "NAME", "SPACE"]

#: A name as text, bare or between backquotes.
NAME = r"(?:`(?:[^`]|``)++`|[\w$]++)"
#: The same, also in double quotes, as with sql_mode ANSI_QUOTES: for places where no text can stand.
ANSI_NAME = r"(?:`(?:[^`]|``)++`|\"(?:[^\"]|\"\")++\"|[\w$]++)"
#: A name in the bytes of any character set that contains ASCII; also in double quotes, as with sql_mode ANSI_QUOTES.
ANSI_NAME_BYTES = rb"(?:`(?:[^`]|``)++`|\"[^\"]++\"|[\w$\x80-\xff]++)"
_SPACE_OR_COMMENT = r"(?:\s|/\*(?!M?!)(?:[^*]|\*(?!/))*+\*/|--(?=\s)[^\n]*+|#[^\n]*+)"
#: White space and comments between two words, except comments that the server executes (`/*! … */`).
SPACE = rf"{_SPACE_OR_COMMENT}++"
#: The same where the space may be missing, as before the first word.
GAP = rf"{_SPACE_OR_COMMENT}*+"
