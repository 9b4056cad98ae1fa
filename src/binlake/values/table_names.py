"""Names of the server's tables: the pair of database and table, and the text that stands for it in lakes and commands.

    full_name_of("shop", "orders")     # shop.orders
    table_name("shop.orders.2026")     # ("shop", "orders.2026")

A name may contain periods. The text therefore has a database with a period in backticks: the table `c` of `a.b` is not the
table `b.c` of `a`. A database that begins with a backtick is in backticks, too, if the bare text would stand for another table.
All other names are as on the server. Each table has one text, and each text that contains a period stands for one table.
"""

from __future__ import annotations

import re

from binlake.format.sql_names import TableName, quoted_name

_QUOTED = re.compile(r"`((?:[^`]|``)*)`\.(.*)", re.DOTALL)


def full_name_of(database: str, table: str) -> str:
    """The text for a table of the server, from which `table_name` returns these names."""
    bare = f"{database}.{table}"
    return bare if table_name(bare) == (database, table) else f"{quoted_name(database)}.{table}"


def table_name(full_name: str) -> TableName:
    """The table that a text of `full_name_of`, or of a user, stands for.

    The first period ends the database. Backticks around a database that does not need them are part of its name.
    """
    if (quoted := _QUOTED.fullmatch(full_name)) is not None:
        name = quoted[1].replace("``", "`"), quoted[2]
        if table_name(".".join(name)) != name:
            return name
    database, _, table = full_name.partition(".")
    return database, table
