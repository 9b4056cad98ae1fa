"""Names of the server's tables: the pair of database and table, and the text that stands for it in lakes and commands.

    full_name_of("shop", "orders")     # shop.orders
    table_name("shop.orders.2026")     # ("shop", "orders.2026")

A name may contain periods. The text therefore has a database with a period in backticks: the table `c` of `a.b` is not the
table `b.c` of `a`.
"""

from __future__ import annotations

import re

from binlake.table.text.sql_text import quoted_name

__all__ = ["TableName", "full_name_of", "table_name"]

#: Database and table on the server.
TableName = tuple[str, str]

_QUOTED = re.compile(r"`((?:[^`]|``)*\.(?:[^`]|``)*)`\.(.*)", re.DOTALL)


def full_name_of(database: str, table: str) -> str:
    """The text for a table of the server."""
    return f"{quoted_name(database) if '.' in database else database}.{table}"


def table_name(full_name: str) -> TableName:
    """The table that a text of `full_name_of`, or of a user, stands for: the first period ends the database."""
    if (quoted := _QUOTED.fullmatch(full_name)) is not None:
        return quoted[1].replace("``", "`"), quoted[2]
    database, _, table = full_name.partition(".")
    return database, table
