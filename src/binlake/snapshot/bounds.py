"""Parts of a table by its key, in the server's own order.

A bound is a key as SQL literals. The server compares them with the columns, by their collations. So
every row is in exactly one part, whatever the collation is: case-insensitive, PAD SPACE, or one
of which this side knows nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from binlake.errors import ServerError
from binlake.format import column_types as ct
from binlake.format.charsets import BINARY
from binlake.snapshot.table_rows import text_rows
from binlake.snapshot.tables import SourceTable
from binlake.source.replica.answers import integer
from binlake.source.replica.connection import ServerConnection
from binlake.table.types.base import ColumnType
from binlake.table.types.registry import STRING_TYPES

#: One key: a literal for each of its columns.
Bound = tuple[str, ...]

_NUMBERS = ct.INTEGER_TYPES | {ct.MYSQL_TYPE_YEAR, ct.MYSQL_TYPE_NEWDECIMAL}
_AS_UNSIGNED = (ct.MYSQL_TYPE_BIT, ct.MYSQL_TYPE_ENUM, ct.MYSQL_TYPE_SET)
#: A key whose range is larger than so many times the rows may have most rows in a small part of the range: generated ids
#: that begin with a time, or one row with another id than all others.
_SPARSE = 16
#: More parts than any table needs: a bound is a query, and a part is held until it is copied.
_MOST_BOUNDS = 1 << 20
#: Rows of the first step along a key; about how many seconds each of the others takes, and how many times more rows it
#: reads than the one before: the first rows may be in the server's memory, and the others on a slow disk.
_FIRST_STEP_ROWS = 50_000
_STEP_S = 20.0
_MOST_GROWTH = 4.0
_INTRODUCERS = {"utf8mb3": "utf8"}  # the name that every server knows


def between(table: SourceTable, lower: Bound | None, upper: Bound | None) -> str:
    """The condition that a key is beyond `lower` and not beyond `upper`; "" for all rows."""
    names = [kind.sql_name for kind in _key_types(table)]
    parts = []
    if lower is not None:
        parts.append(_compared(names, lower, ">", ">"))
    if upper is not None:
        parts.append(_compared(names, upper, "<", "<="))
    return " AND ".join(parts)


def walked_bounds(
    server: ServerConnection, table: SourceTable, rows: int, most_bounds: int = _MOST_BOUNDS
) -> Iterator[Bound]:
    """Every `rows`-th key, in the order of the server. It walks along the key's index, in steps that do not take the server
    long: a query that sends nothing for minutes is taken for lost.

    Raises ServerError, also for more than `most_bounds`.
    """
    types = _key_types(table)
    names = ", ".join(kind.sql_name for kind in types)
    literals = ", ".join(map(_literal, types))
    key: Bound | None = None
    step, left = min(rows, _FIRST_STEP_ROWS), rows
    found = 0
    while found < most_bounds:
        beyond = f" WHERE {between(table, key, None)}" if key is not None else ""
        began = time.monotonic()
        answer = text_rows(
            server,
            f"SELECT {literals} FROM {table.sql_name}{beyond} ORDER BY {names} LIMIT 1 OFFSET {step - 1}",
            len(types),
        )
        # an empty answer also means that fewer rows are left than would make a part
        if (
            not answer or answer[0] == key
        ):  # or two keys that one literal stands for: the rest is one part
            return
        key = answer[0]
        left -= step
        next_step = _step_rows(step, time.monotonic() - began)
        if not left:
            found += 1
            left = rows
            yield key
        step = min(left, next_step)
    raise ServerError(
        f"{server.where}: binlake refuses to copy {table.full_name} in more than {most_bounds:,} parts"
    )


def _step_rows(rows: int, took_s: float) -> int:
    """How many rows to read in the next step, after one that took so long."""
    growth = min(_MOST_GROWTH, _STEP_S / max(took_s, 0.001))
    return max(_FIRST_STEP_ROWS, int(rows * growth))


def even_bounds(
    server: ServerConnection, table: SourceTable, rows: int, most_bounds: int = _MOST_BOUNDS
) -> list[Bound] | None:
    """Bounds that divide the range of an integer key into at most `most_bounds` even parts; None for keys of other types,
    and where the range is much larger than the number of rows.

    They cost nothing, but parts are equal only as far as the numbers have no gaps.
    """
    types = _key_types(table)
    if len(types) != 1 or types[0].column.type_code not in ct.INTEGER_TYPES:
        return None
    name = types[0].sql_name
    least, most, *_ = server.row(
        f"SELECT CONCAT(MIN({name}) + 0), CONCAT(MAX({name}) + 0) FROM {table.sql_name}", 2
    )
    if least is None or most is None:
        return []
    first, last = integer(least, "MIN"), integer(most, "MAX")
    # the server estimates the rows, so it may be any number
    if last - first >= _SPARSE * max(table.rows, rows):
        return None
    # 0 for a table that has rows: its statistics are older than the rows
    parts = min(-(-(table.rows or last - first + 1) // rows), last - first + 1, most_bounds)
    return [(str(first + (last - first + 1) * i // parts - 1),) for i in range(1, parts)]


def _key_types(table: SourceTable) -> list[ColumnType]:
    by_name = {kind.column.name: kind for kind in table.types.columns}
    return [by_name[name] for name in table.key]


def _compared(names: Sequence[str], bound: Bound, operator: str, last: str) -> str:
    """A comparison of rows, spelled so that the first column's index is used."""
    if len(names) == 1:
        return f"{names[0]} {last} {bound[0]}"
    rest = _compared(names[1:], bound[1:], operator, last)
    name, value = names[0], bound[0]
    return (
        f"({name} {operator}= {value} AND"
        f" ({name} {operator} {value} OR ({name} = {value} AND {rest})))"
    )


def _literal(kind: ColumnType) -> str:
    """SQL that makes the literal of a key column's value, in ASCII."""
    column, name = kind.column, kind.sql_name
    code = column.type_code
    if code in _NUMBERS:
        return f"CONCAT({name})"
    if code in _AS_UNSIGNED:
        return f"CONCAT(CAST({name} AS UNSIGNED))"
    if code in ct.FLOAT_TYPES:
        return f"CONCAT({name} + 0e0)"
    if code in STRING_TYPES and column.declared is None:
        charset = kind.charset
        introducer = "" if charset in (None, BINARY) else f"_{_INTRODUCERS.get(charset, charset)} "
        return f"CONCAT('{introducer}x''', HEX({name}), '''')"
    return f"CONCAT('''', CAST({name} AS CHAR), '''')"
