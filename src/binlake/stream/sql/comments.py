"""Comments in the text of a statement: those that a server ignores, and those whose content it executes (`/*!50100 … */`).

A server logs an executable comment that it did not execute, because of its version, as a plain one. So it has executed the
content of each one that a log contains. Only MariaDB executes `/*M! … */`, and MySQL logs it as it is.
"""

from __future__ import annotations

import re
from functools import lru_cache

from binlake.format.flags import MODE_ANSI_QUOTES, MODE_NO_BACKSLASH_ESCAPES
from binlake.stream.sql.ddl import DdlStatement

# The names of the groups: the kinds of comments, and of the ends of executable ones. Quoted texts and names have none. An
# unterminated item ends the statement: searching for its end again from each place is quadratic.
_COMMENT = (
    r"(?P<line>--(?=[\x00-\x20\x7f]|\Z)[^\n]*+|\#[^\n]*+)"
    r"|(?P<plain>/\*(?!{mark})(?:[^*]|\*(?!/))*+\*/)|(?P<open>/\*{mark}\d*\s?)|(?P<unclosed>/\*.*)|(?P<close>\*/)"
)


def without_comments(ddl: DdlStatement) -> DdlStatement:
    """Return a statement without the comments that the server ignored, and with the content of those that it executed.

    Tools that change schemas write the former (``rename /* gh-ost */ table``), and dumps the latter.
    """
    sql = text_without_comments(ddl.sql, ddl.sql_mode, ddl.flavour)
    return ddl if sql == ddl.sql else ddl._replace(sql=sql)


def text_without_comments(sql: str, sql_mode: int = 0, flavour: str = "") -> str:
    """Return the same for the text of a statement. With `flavour` "", the content of `/*M! … */` counts as executed.

    A comment that is not closed stays, with the rest of the text.
    """
    parts = []
    at, is_open = 0, False
    for kind, start, end in _comments(sql, sql_mode, flavour):
        if kind == "unclosed":
            break
        if kind == "close" and not is_open:
            continue
        if kind in ("open", "close"):
            is_open = kind == "open"
        parts.append(sql[at:start])
        at = end
    return " ".join([*parts, sql[at:]])


def has_comments(ddl: DdlStatement) -> bool:
    """Whether a statement contains a comment. A quoted text or name may contain the same characters."""
    found = _comments(ddl.sql, ddl.sql_mode, ddl.flavour)
    return any(kind != "close" for kind, _start, _end in found)


def _comments(sql: str, sql_mode: int, flavour: str) -> list[tuple[str, int, int]]:
    """The kind, start and end of each comment, or end of an executable one."""
    if "/*" not in sql and "--" not in sql and "#" not in sql:
        return []
    modes = sql_mode & (MODE_ANSI_QUOTES | MODE_NO_BACKSLASH_ESCAPES)
    items = _items(modes, "!" if flavour == "mysql" else "M?!").finditer(sql)
    return [(one.lastgroup, *one.span()) for one in items if one.lastgroup is not None]


@lru_cache
def _items(sql_mode: int, mark: str) -> re.Pattern[str]:
    """Quoted texts, quoted names and comments. `mark` begins an executable comment."""
    with_escapes, without = r"{0}(?:[^{0}\\]|\\.)*+(?:{0}|\Z)", r"{0}[^{0}]*+(?:{0}|\Z)"
    text = without if sql_mode & MODE_NO_BACKSLASH_ESCAPES else with_escapes
    double = without if sql_mode & MODE_ANSI_QUOTES else text
    quoted = [text.format("'"), double.format('"'), without.format("`")]
    return re.compile("|".join([*quoted, _COMMENT.format(mark=mark)]), re.DOTALL)
