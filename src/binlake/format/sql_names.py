"""Names in SQL statements, with and without quotes; names, the space between words and the end as regular expressions.

A backquote inside a quoted name is doubled.

Quantifiers are possessive, so a hostile statement costs linear time.
"""

from __future__ import annotations

#: A name as text, bare or between backquotes.
NAME = r"(?:`(?:[^`]|``)++`|[\w$]++)"
#: The same, also in double quotes, as with sql_mode ANSI_QUOTES: for places where no text can stand.
ANSI_NAME = r"(?:`(?:[^`]|``)++`|\"(?:[^\"]|\"\")++\"|[\w$]++)"
#: A name in the bytes of any character set that contains ASCII; also in double quotes, as with sql_mode ANSI_QUOTES.
ANSI_NAME_BYTES = rb"(?:`(?:[^`]|``)++`|\"(?:[^\"]|\"\")++\"|[\w$\x80-\xff]++)"
#: Where a search for names may begin. A search from the middle of backquotes reads on to the end of the text, each time.
NAME_START = r"(?!(?<=`)`)"
_SPACE_OR_COMMENT = r"(?:\s|/\*(?!M?!)(?:[^*]|\*(?!/))*+\*/|--(?=\s)[^\n]*+|#[^\n]*+)"
#: White space and comments between two words, except comments that the server executes (`/*! … */`).
SPACE = rf"{_SPACE_OR_COMMENT}++"
#: The same where the space may be missing, as before the first word.
GAP = rf"{_SPACE_OR_COMMENT}*+"
#: The end of a statement. It is possessive: `\s*;?\s*` before a mismatch takes quadratic time.
END = r"\s*+(?:;\s*+)?+"


#: Database and table.
TableName = tuple[str, str]


def lower_name(name: TableName) -> TableName:
    """The name of a table in lower case, to compare names whose case does not matter."""
    return name[0].lower(), name[1].lower()


def quoted_name(*parts: str) -> str:
    """A name in backticks; several parts are separated by periods."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def unquoted_name(name: str) -> str:
    """A name without its quotes: backticks, or double quotes as ANSI_QUOTES allows them."""
    quote = name[:1]
    return name[1:-1].replace(quote * 2, quote) if quote in ("`", '"') else name
