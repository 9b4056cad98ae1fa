"""The error for a name of a table that means several, because the names of databases and tables may contain periods."""

from __future__ import annotations

from collections.abc import Sequence

from binlake.errors import OptionError
from binlake.format.sql_names import quoted_name


def ambiguous_name(found_where: str, tables: Sequence[tuple[str, str]], hint: str) -> OptionError:
    """Return the error for `database.table`, which `tables` have in common.

    `found_where` is the beginning of a sentence that the tables complete, such as "the log has".
    """
    name = ".".join(tables[0])
    found = " and ".join(quoted_name(*table) for table in tables)
    return OptionError(
        f"table {name!r}: the name is ambiguous: {found_where} {found}",
        hint=hint,
        name="table",
        value=name,
    )
