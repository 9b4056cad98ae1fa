"""Statements and reasons as messages, `status` and the lake show them: without values that a table hides.

The literals of a statement may be values of a column that is hashed or left out, also in a clause that does not name it, such as the bounds of a
partition. So may the members of an ENUM and the literals of an expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from binlake.errors import UnsupportedError
from binlake.format.sql_names import unquoted_name
from binlake.mirror.columns.rules import ColumnRules
from binlake.mirror.followed.table import Followed
from binlake.printable import truncated
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.digest import TOKEN, digest_text
from binlake.table.schema.alter import altered_columns
from binlake.table.schema.ddl_tokens import items_of
from binlake.table.schema.declared import DeclaredColumn
from binlake.table.schema.defaults import Constant
from binlake.table.schema.sql_tokens import UnreadableTableError

_UNREADABLE = "the statement cannot be read"


def shown_statement(ddl: DdlStatement, table: Followed, rules: ColumnRules) -> str:
    """The text of a statement; without its literals if the table has a hidden column, or gets one."""
    hides = _hides_any(ddl, table, rules)
    sql = digest_text(ddl.sql) if hides else " ".join(ddl.sql.split())
    return truncated(sql, 200)


def shown_reason(why: str, ddl: DdlStatement, table: Followed, rules: ColumnRules) -> str:
    """The reason why a table cannot follow a statement; with `?` for each literal, expression and list of members in it if the table
    has a hidden column, or gets one.
    """
    if not _hides_any(ddl, table, rules):
        return why
    try:
        items = items_of(ddl)
        columns = [*table.declared.columns, *altered_columns(items, table.id[1])]
    except UnreadableTableError:
        columns = [*table.declared.columns]
    except UnsupportedError:
        return _UNREADABLE
    texts = {token.text for item in items for token in item if token.kind == "string"}
    values = {*texts, *_literals(ddl.sql), *_values(columns)}
    for value in sorted(values, key=len, reverse=True):
        if value in why:
            why = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "?", why)
    return why


def _hides_any(ddl: DdlStatement, table: Followed, rules: ColumnRules) -> bool:
    """Whether a table has a column that the rules hash or leave out, or a statement has a word that is the name of one."""
    if not (rules.exclude or rules.hash):
        return False
    words = (t[0] for t in TOKEN.finditer(ddl.sql) if t.lastgroup in ("name", "word", "literal"))
    names = {unquoted_name(word) for word in words}  # also in double quotes, with ANSI_QUOTES
    names |= {column.name for column in table.declared.columns}
    return any(rules.treatment(*table.id, name) in ("hashed", "left out") for name in names)


def _literals(sql: str) -> Iterator[str]:
    """The literals of SQL as they are written, with quotes and without."""
    for found in TOKEN.finditer(sql):
        if found.lastgroup == "literal":
            yield found[0]
            _, _, inner = found[0].partition("'")
            yield from filter(None, (inner.removesuffix("'"), found[0].strip('"')))


def _values(columns: Iterable[DeclaredColumn]) -> Iterator[str]:
    for column in columns:
        if column.members is not None:
            # the type in `sql` has its members without quotes
            yield from filter(
                None, (column.sql.partition("(")[2].removesuffix(")"), *column.members)
            )
        if column.expression:
            yield column.expression
            yield from _literals(column.expression)
        if isinstance(column.default, Constant) and column.default.text:
            yield column.default.text
