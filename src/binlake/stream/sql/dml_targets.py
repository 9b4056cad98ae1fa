"""Find the table that a statement in statement format changes, from its text: an INSERT, REPLACE, UPDATE or DELETE, or a
LOAD DATA, whose text the server writes itself.

The result is certain or None. It is None for statements of several tables, for texts in which a stored function may
be called, and for names in other characters than those of ASCII, whose bytes depend on the character set. The text does
not show whether the name is that of a view, or whether the table has triggers. MySQL logs the databases that a statement
reads or changes, so they show those views and triggers that reach into a database which the text does not name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from binlake.errors import BinlogError
from binlake.events.common.execute_load_query import ExecuteLoadQueryEvent
from binlake.events.common.query import QueryEvent
from binlake.format.sql_names import GAP, SPACE, TableName, unquoted_name
from binlake.stream.sql.statements import without_set_statement

_GAP, _SPACE = GAP.encode(), SPACE.encode()
# not `ANSI_NAME_BYTES`: a name in an unknown character set, and one in double quotes, which may be a text, are not known
_NAME = rb"(?:`(?:[^`\x80-\xff]|``)++`|[\w$]++(?![\x80-\xff]))"
_TABLE = rb"(?:(?P<database>%b)%b\.%b)?+(?P<table>%b)" % (_NAME, _GAP, _GAP, _NAME)
_FLAGS = re.IGNORECASE | re.DOTALL


def _words(*words: bytes) -> bytes:
    """Any of these words, each with the space after it, as often as they come."""
    return rb"(?:(?:%b)%b)*+" % (b"|".join(words), _SPACE)


# What may follow the name is given, so that the name is whole and the statement is of one table.
_STATEMENTS = tuple(
    re.compile(_GAP + begins + _TABLE + rb"(?P<rest>%b(?:%b).*)" % (_GAP, follows), _FLAGS)
    for begins, follows in (
        (
            rb"(?:INSERT|REPLACE)%b%b" % (_SPACE, _words(b"LOW_PRIORITY", b"DELAYED", b"HIGH_PRIORITY", b"IGNORE", b"INTO")),
            rb"\(|(?:VALUES?|SELECT|SET|PARTITION)\b",
        ),
        (rb"UPDATE%b%b" % (_SPACE, _words(b"LOW_PRIORITY", b"IGNORE")), rb"SET\b"),
        (
            rb"DELETE%b%bFROM%b" % (_SPACE, _words(b"LOW_PRIORITY", b"QUICK", b"IGNORE"), _SPACE),
            rb"\Z|;|(?:WHERE|ORDER|LIMIT|RETURNING|PARTITION)\b",
        ),
    )
)  # fmt: skip
_LITERAL = rb"'(?:[^'\\]|\\.|'')*+'"
# The text of LOAD DATA after INTO. The clauses come in the forms and the order in which servers write them.
_LOAD = re.compile(
    rb"%(gap)bTABLE%(space)b%(table)b"
    rb"(?:%(gap)bPARTITION%(gap)b\([^()'\"/]*+\))?+"
    rb"(?:%(gap)bCHARACTER%(space)bSET%(space)b\w++)?+"
    rb"(?:%(gap)b(?:FIELDS|COLUMNS|LINES)|%(space)b(?:TERMINATED|STARTING|(?:OPTIONALLY%(space)b)?+ENCLOSED|ESCAPED)%(space)bBY"
    rb"%(space)b%(literal)b)*+"
    rb"(?:%(gap)bIGNORE%(space)b\d++%(space)b(?:LINES|ROWS))?+"
    rb"(?P<rest>(?:[\s(].*)?)"
    % {b"gap": _GAP, b"space": _SPACE, b"table": _TABLE, b"literal": _LITERAL},
    _FLAGS,
)
_EMPTIES = re.compile(rb"%b;?%b" % (_GAP, _GAP), re.DOTALL)
_DELETE = re.compile(rb"%bDELETE\b" % _GAP, re.IGNORECASE)

# Reserved words that a parenthesis may follow, and types.
_KEYWORDS = (
    b"ALL", b"AND", b"ANY", b"AS", b"BETWEEN", b"BINARY", b"BY", b"CASE", b"CHAR", b"DECIMAL", b"DISTINCT", b"DIV", b"ELSE",
    b"EXISTS", b"FROM", b"GROUP", b"HAVING", b"IN", b"INDEX", b"INTERVAL", b"JOIN", b"KEY", b"LIKE", b"LIMIT", b"NOT", b"ON",
    b"OR", b"PARTITION", b"SELECT", b"SET", b"THEN", b"UNION", b"USING", b"VALUES", b"WHEN", b"WHERE", b"XOR",
)  # fmt: skip
# Functions of all servers, which are theirs where the parenthesis follows immediately: a server then looks for no stored
# function of this name.
_FUNCTIONS = (
    b"ABS", b"AVG", b"BIT_AND", b"BIT_OR", b"BIT_XOR", b"CAST", b"CEILING", b"CHAR_LENGTH", b"COALESCE", b"CONCAT",
    b"CONCAT_WS", b"CONNECTION_ID", b"CONV", b"CONVERT", b"COUNT", b"CRC32", b"CURDATE", b"CURRENT_TIMESTAMP",
    b"CURRENT_USER", b"CURTIME", b"DATABASE", b"DATE", b"DATE_ADD", b"DATE_FORMAT", b"DATE_SUB", b"FLOOR", b"FROM_UNIXTIME",
    b"GREATEST", b"GROUP_CONCAT", b"HEX", b"IF", b"IFNULL", b"ISNULL", b"LAST_INSERT_ID", b"LEAST", b"LEFT", b"LENGTH",
    b"LOWER", b"MAX", b"MD5", b"MIN", b"MOD", b"NOW", b"NULLIF", b"RAND", b"REPLACE", b"RIGHT", b"ROUND", b"SHA1",
    b"SHA2", b"SUBSTRING", b"SUM", b"SYSDATE", b"TIME", b"TRIM", b"UNHEX", b"UNIX_TIMESTAMP", b"UPPER", b"USER",
    b"UTC_TIMESTAMP", b"UUID", b"VERSION",
)  # fmt: skip
# Every token of a text without calls of other functions. A backslash is in none: it may or may not escape a quote.
_CALLS_NO_PROGRAM = re.compile(
    rb"(?:%(space)b|'(?:[^'\\]|'')*+'"
    rb"|(?:\"(?:[^\"\\]|\"\")*+\"|`(?:[^`]|``)*+`)(?!%(gap)b\()"
    rb"|\.(?:%(gap)b(?:`(?:[^`]|``)*+`|[\w$]++))?+(?!%(gap)b\()"
    rb"|[\w$]++(?!%(gap)b\()|(?:%(keywords)b)(?=%(gap)b\()|(?:%(functions)b)(?=\()"
    rb"|-(?!-)|/(?!\*)|[^\w$'\"`./\-#\\\x80-\xff])*+"
    % {
        b"space": _SPACE,
        b"gap": _GAP,
        b"keywords": b"|".join(_KEYWORDS),
        b"functions": b"|".join(_FUNCTIONS),
    },
    re.IGNORECASE,
)


class DmlTarget(NamedTuple):
    """The only table that a statement changes; whether the statement removes all of its rows."""

    table: TableName
    empties: bool


class _Target(NamedTuple):
    """`database` is "" if the text does not name it."""

    database: str
    table: str
    empties: bool


def target_of(event: QueryEvent) -> DmlTarget | None:
    """Return the target of an INSERT, REPLACE, UPDATE, DELETE or LOAD DATA; None if it is not certain, and for other
    statements.

    A statement that failed has the same target, and does not empty it.
    """
    if isinstance(event, ExecuteLoadQueryEvent):
        text = event.sql_raw[event.file_name_end :]
        found = _load_target(text)
    else:
        text = without_set_statement(event.sql_raw)
        found = _target(text)
    if found is None:
        return None
    try:
        database = found.database or event.database
        used = event.status_values.get("updated_db_names", ())
    except BinlogError:
        return None
    if not database or used is None:  # None: of too many databases
        return None
    lower = text.lower()
    others = {name.lower() for name in used} - {database.lower()}
    if any(name.encode() not in lower for name in others):
        return None
    return DmlTarget((database, found.table), found.empties and not event.error_code)


def _target(text: bytes) -> _Target | None:
    found = next((match for one in _STATEMENTS if (match := one.fullmatch(text))), None)
    if found is None or not _CALLS_NO_PROGRAM.fullmatch(found["rest"]):
        return None
    empties = _DELETE.match(text) is not None and _EMPTIES.fullmatch(found["rest"]) is not None
    return _Target(_unquoted(found["database"] or b""), _unquoted(found["table"]), empties)


def _load_target(text: bytes) -> _Target | None:
    found = _LOAD.fullmatch(text)
    if found is None or not _CALLS_NO_PROGRAM.fullmatch(found["rest"]):
        return None
    return _Target(_unquoted(found["database"] or b""), _unquoted(found["table"]), empties=False)


def _unquoted(name: bytes) -> str:
    return unquoted_name(name.decode("ascii"))
