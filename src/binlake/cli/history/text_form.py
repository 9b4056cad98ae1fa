"""A history as text: an entry for each change, with a line for each changed column.

1  2026-11-21 10:31:09.287576  update  binlog.000001:4711  3e11fa47-…:5  thread 11
     UPDATE orders SET state = 'paid' WHERE id = 4711
     state   'new' → 'paid'
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from binlake.printable import printable, shortened
from binlake.table.row_history.entries import (
    NOT_LOGGED,
    ColumnChange,
    RowChange,
    RowHistory,
    TableStatement,
)
from binlake.values.quantities import counted

_MOST_CHARACTERS = 2000
_ONE_LINE = 100
_INDENT = " " * 5
#: The colours of a terminal (SGR).
_COLOURS = {"old": "31", "new": "32", "soft": "2", "op": "1", "statement": "36"}

Paint = Callable[[str, str], str]


def paints() -> bool:
    """Whether stdout is a terminal that shows colours (and NO_COLOR is not set)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def lines(history: RowHistory, *, colours: bool = False) -> Iterator[str]:
    """Yield the lines of a history. All texts of the log are printable."""
    paint: Paint = _painted if colours else _plain
    yield paint(printable(summary(history)), "op")
    shows_lives = history.lives > 1
    for entry in history.entries:
        yield ""
        if isinstance(entry, TableStatement):
            yield _statement_head(entry, paint)
            yield f"{_INDENT}{paint(_sql(entry.query), 'statement')}"
            continue
        yield _head(entry, shows_lives, paint)
        if entry.query is not None:
            yield f"{_INDENT}{paint(_sql(entry.query), 'soft')}"
        yield from _columns(entry, paint)


def summary(history: RowHistory) -> str:
    """The first line: `shop.orders, id = 4711: 5 changes of 2 rows`."""
    count = counted(len(history.changes), "change")
    rows = f" of {history.lives} rows that had the key in turn"
    return (
        f"{history.full_name}, {key_text(history.key)}: {count}{rows if history.lives > 1 else ''}"
    )


def key_text(key: Mapping[str, Any]) -> str:
    """`id = 4711`."""
    return ", ".join(f"{name} = {value}" for name, value in key.items())


def when(entry: RowChange | TableStatement) -> str:
    """The commit time, in UTC."""
    return entry.ts.strftime("%Y-%m-%d %H:%M:%S.%f")


def value_text(value: Any) -> str:
    """A value as SQL writes it, roughly: NULL, a number, a text in quotes."""
    if value is NOT_LOGGED:
        return "(not logged)"
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + shortened(printable(value), _MOST_CHARACTERS).replace("'", "''") + "'"
    return shortened(printable(json.dumps(value, ensure_ascii=False)), _MOST_CHARACTERS)


def _plain(text: str, _what: str) -> str:
    return text


def _painted(text: str, what: str) -> str:
    return f"\x1b[{_COLOURS[what]}m{text}\x1b[0m"


def _sql(text: str | None) -> str:
    return shortened(printable(" ".join((text or "").split())), _MOST_CHARACTERS)


def _head(change: RowChange, shows_lives: bool, paint: Paint) -> str:
    row = f"  row {change.life}" if shows_lives else ""
    where = "  ".join(printable(text) for text in facts(change))
    number = f"{change.number:>3}"
    return (
        f"{number}  {when(change)}  {paint(f'{change.op:<6}', 'op')}{row}  {paint(where, 'soft')}"
    )


def _statement_head(statement: TableStatement, paint: Paint) -> str:
    where = "  ".join(printable(text) for text in facts(statement))
    op = "DDL" if statement.op == "ddl" else statement.op
    return f"  -  {when(statement)}  {paint(f'{op:<6}', 'op')}  {paint(where, 'soft')}"


def facts(entry: RowChange | TableStatement) -> Iterator[str]:
    """Yield where an entry is in the log, and who made it."""
    yield entry.place
    if entry.gtid is not None:
        yield entry.gtid
    if entry.thread_id is not None:
        yield f"thread {entry.thread_id}"
    if isinstance(entry, TableStatement) and entry.user is not None:
        yield f"user {entry.user}"


def _columns(change: RowChange, paint: Paint) -> Iterator[str]:
    names = [printable(name) for name in change.changed]
    width = max(map(len, names), default=0)
    for name, column in zip(names, change.changed.values(), strict=True):
        yield from _column(f"{_INDENT}{name:<{width}}  ", change, column, paint)
    if not change.changed:
        yield f"{_INDENT}(no column has another value)"
    if change.absent:
        listed = printable(", ".join(change.absent))
        what = "unchanged or not logged" if change.op == "update" else "not logged"
        yield f"{_INDENT}{paint(f'{what}: {listed}', 'soft')}"


def _column(lead: str, change: RowChange, column: ColumnChange, paint: Paint) -> Iterator[str]:
    old, new = paint(value_text(column.old), "old"), paint(value_text(column.new), "new")
    if change.op == "insert":
        yield lead + new
    elif change.op == "delete":
        yield lead + old
    elif len(value_text(column.old)) + len(value_text(column.new)) <= _ONE_LINE:
        yield f"{lead}{old} → {new}"
    else:
        yield lead + old
        yield " " * (len(lead) - 2) + "→ " + new
