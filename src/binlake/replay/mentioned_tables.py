"""Find the tables that statements mention which do not change a table: about views, routines, triggers, GRANT.

The option exclude_table leaves such a statement out if it mentions an excluded table. Words that cannot be tables do
not count: keywords, texts, variables, accounts, the names of routines. Words that may be a column or an alias count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from binlake.format.sql_names import NAME, NAME_START, unquoted_name
from binlake.stream.sql.comments import without_comments
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.ddl_targets import named_tables, possible_tables
from binlake.stream.sql.statements import ACCOUNT

_FLAGS = re.IGNORECASE | re.DOTALL
_IF_EXISTS = r"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?"
_ACCOUNT = rf"(?:{NAME}|'[^']*+'|\"[^\"]*+\")(?:\s*@\s*(?:{NAME}|'[^']*+'|\"[^\"]*+\"))?"
_ITEMS = (
    rf"(?:OR\s+REPLACE\s+|AGGREGATE\s+|ALGORITHM\s*=\s*\w+\s+|DEFINER\s*=\s*{_ACCOUNT}(?:\(\s*\))?\s+|"
    r"SQL\s+SECURITY\s+\w+\s+)*"
)
# The name of a view stands among the names of tables, so it is part of the rest.
_VIEW = re.compile(rf"\s*(?:CREATE|ALTER|DROP)\s+{_ITEMS}VIEW\s+{_IF_EXISTS}", _FLAGS)
_PROGRAM = re.compile(
    rf"\s*(?:CREATE|ALTER|DROP)\s+{_ITEMS}(?:PROCEDURE|FUNCTION|TRIGGER|EVENT|SERVER)\s+{_IF_EXISTS}"
    rf"(?:{NAME}\s*\.\s*)?{NAME}",
    _FLAGS,
)
_DATABASE = re.compile(
    rf"\s*(?:CREATE|ALTER|DROP)\s+(?:OR\s+REPLACE\s+)?(?:DATABASE|SCHEMA)\s+{_IF_EXISTS}(?P<name>{NAME})",
    _FLAGS,
)
# The first ON outside of quotes.
_GRANTED = re.compile(
    r"(?:`(?:[^`]|``)*+`|'(?:[^']|'')*+'|\"(?:[^\"]|\"\")*+\"|(?!\bON\b).)*+"
    rf"\bON\s+(?:TABLE\s+)?(?:(?P<database>{NAME}|\*)\s*\.\s*)?(?P<table>{NAME}|\*)\s+(?:TO|FROM)\b",
    _FLAGS,
)
# Accounts, variables and texts. Names in backquotes stay, and so does a word in double quotes, which are those of
# a name with sql_mode ANSI_QUOTES.
_NO_NAME = re.compile(
    rf"""(?<![\w$]){NAME_START}{NAME}\s*@\s*(?:{NAME}|'[^']*+'|"[^"]*+")|(?<!@)@++{NAME}|(?P<name>{NAME_START}`(?:[^`]|``)++`)|"(?P<word>[\w$]++)\""""
    r"""|'(?:[^']|'')*+'|"(?:[^"]|"")*+"|\bAFTER\s+(?=(?:INSERT|UPDATE|DELETE)\b)""",
    _FLAGS,
)
_WORD = re.compile(
    rf"(?P<before>\.\s*)?{NAME_START}(?P<word>{NAME})(?:(?=\s*\.)(?P<after>))?", _FLAGS
)
# Words that all servers reserve, so a table has such a name only between backquotes or after a period.
# fmt: off
_RESERVED = frozenset((
    "ADD", "ALL", "ALTER", "ANALYZE", "AND", "AS", "ASC", "BEFORE", "BETWEEN", "BIGINT",
    "BINARY", "BLOB", "BOTH", "BY", "CALL", "CASCADE", "CASE", "CHANGE", "CHAR", "CHARACTER",
    "CHECK", "COLLATE", "COLUMN", "CONDITION", "CONSTRAINT", "CONTINUE", "CONVERT", "CREATE",
    "CROSS", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "CURSOR",
    "DATABASE", "DATABASES", "DEC", "DECIMAL", "DECLARE", "DEFAULT", "DELAYED", "DELETE",
    "DESC", "DESCRIBE", "DETERMINISTIC", "DISTINCT", "DISTINCTROW", "DIV", "DOUBLE", "DROP",
    "DUAL", "EACH", "ELSE", "ELSEIF", "ENCLOSED", "ESCAPED", "EXISTS", "EXIT", "EXPLAIN",
    "FALSE", "FETCH", "FLOAT", "FOR", "FORCE", "FOREIGN", "FROM", "FULLTEXT", "GRANT", "GROUP",
    "HAVING", "HIGH_PRIORITY", "IF", "IGNORE", "IN", "INDEX", "INFILE", "INNER", "INOUT",
    "INSENSITIVE", "INSERT", "INT", "INTEGER", "INTERVAL", "INTO", "IS", "ITERATE", "JOIN",
    "KEY", "KEYS", "KILL", "LEADING", "LEAVE", "LEFT", "LIKE", "LIMIT", "LINES", "LOAD",
    "LOCALTIME", "LOCALTIMESTAMP", "LOCK", "LONG", "LONGBLOB", "LONGTEXT", "LOOP",
    "LOW_PRIORITY", "MATCH", "MEDIUMBLOB", "MEDIUMINT", "MEDIUMTEXT", "MOD", "MODIFIES",
    "NATURAL", "NOT", "NULL", "NUMERIC", "ON", "OPTION", "OPTIONALLY", "OR", "ORDER", "OUT",
    "OUTER", "OUTFILE", "PRECISION", "PRIMARY", "PROCEDURE", "PURGE", "READ", "READS", "REAL",
    "REFERENCES", "REGEXP", "RELEASE", "RENAME", "REPEAT", "REPLACE", "REQUIRE", "RESTRICT",
    "RETURN", "REVOKE", "RIGHT", "RLIKE", "SCHEMA", "SCHEMAS", "SELECT", "SENSITIVE",
    "SEPARATOR", "SET", "SHOW", "SIGNAL", "SMALLINT", "SPATIAL", "SQL", "SQLEXCEPTION",
    "SQLSTATE", "SQLWARNING", "STARTING", "STRAIGHT_JOIN", "TABLE", "TERMINATED", "THEN",
    "TINYBLOB", "TINYINT", "TINYTEXT", "TO", "TRAILING", "TRIGGER", "TRUE", "UNDO", "UNION",
    "UNIQUE", "UNLOCK", "UNSIGNED", "UPDATE", "USAGE", "USE", "USING", "UTC_DATE", "UTC_TIME",
    "UTC_TIMESTAMP", "VALUES", "VARBINARY", "VARCHAR", "VARYING", "WHEN", "WHERE", "WHILE",
    "WITH", "WRITE", "XOR", "ZEROFILL",
))
# fmt: on


def tables_to_change(ddl: DdlStatement, kind: str) -> list[tuple[str, str]]:
    """Return (database, table) of each table that a statement of a kind may change."""
    plain = without_comments(ddl)
    if kind == ACCOUNT or _VIEW.match(plain.sql) or _PROGRAM.match(plain.sql):
        return []
    return possible_tables(plain)


def mentioned_tables(ddl: DdlStatement, kind: str) -> list[tuple[str, str]]:
    """Return (database, table) of each table that a statement without a change of a table may mention.

    The table "" stands for all tables of a database, which only a pattern for all of them matches.
    """
    sql = without_comments(ddl).sql
    if kind == ACCOUNT:
        return list(_granted(sql, ddl.database))
    if (database := _DATABASE.match(sql)) is not None:
        is_name = database["name"].upper() not in _RESERVED  # ALTER DATABASE CHARACTER SET …
        return [(_bare(database["name"]) if is_name else ddl.database, "")]
    head = _VIEW.match(sql) or _PROGRAM.match(sql)
    rest = sql[head.end() :] if head is not None else sql
    if "\\" not in rest:  # a backslash may or may not escape a quote
        rest = _NO_NAME.sub(lambda found: found["name"] or found["word"] or " ", rest)
    return named_tables(ddl._replace(sql=_WORD.sub(_kept, rest)))


def _granted(sql: str, database: str) -> Iterator[tuple[str, str]]:
    """The table of GRANT and REVOKE."""
    found = _GRANTED.match(sql)
    if found is not None:
        named = _bare(found["database"]) if found["database"] else database
        yield named, _bare(found["table"])


def _kept(found: re.Match[str]) -> str:
    """A word that may be a name as it is; a space instead of a reserved one."""
    is_qualified = found["before"] is not None or found["after"] is not None
    return found[0] if is_qualified or found["word"].upper() not in _RESERVED else " "


def _bare(name: str) -> str:
    """A name without its quotes; "" for a star."""
    return "" if name == "*" else unquoted_name(name)
