"""A history as one HTML page: a section for each change, with a table of the changed columns.

All texts of the log are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from binlake.cli.common.html_page import html_page
from binlake.cli.history.text import facts, key_text, summary, value_text, when
from binlake.printable import printable
from binlake.table.row_history.entries import (
    NOT_LOGGED,
    ColumnChange,
    RowChange,
    RowHistory,
    TableStatement,
)

__all__ = ["page"]

_STYLE = """
section{border-left:4px solid var(--line);padding:2px 0 2px 14px;margin:22px 0;break-inside:avoid}
section.insert{border-color:var(--inserts)}section.update{border-color:var(--updates)}
section.delete{border-color:var(--deletes)}h2{margin:0 0 2px}h2 span{color:var(--soft);font-weight:normal}
table{width:auto;margin:6px 0}td.name{color:var(--soft)}
td code{white-space:pre-wrap}pre{margin:6px 0;white-space:pre-wrap;overflow-wrap:anywhere;
background:var(--card);padding:6px 10px;border-radius:6px;font:12px/1.4 ui-monospace,monospace}
del,ins{text-decoration:none}del{color:var(--deletes)}ins{color:var(--bytes)}em{color:var(--soft)}
"""


def page(history: RowHistory) -> str:
    """The whole page."""
    title = f"{history.full_name}, {key_text(history.key)}"
    body = "\n".join([*_head(history), *map(_section, history.entries)])
    return html_page(f"{printable(title)} – binlake history", _STYLE, body)


def _head(history: RowHistory) -> Iterator[str]:
    title, _, count = summary(history).rpartition(": ")
    yield f"<h1>{_text(title)}</h1>"
    yield f"<p>{_text(count)}. All times are UTC.</p>"


def _section(entry: RowChange | TableStatement) -> str:
    parts = []
    if isinstance(entry, TableStatement):
        name, title = "statement", "DDL" if entry.op == "ddl" else entry.op
    else:
        name, title = entry.op, f"{entry.number}. {entry.op}"
        parts.append(_columns(entry))
    if entry.query is not None:
        parts.insert(0, f"<pre>{_lines(entry.query)}</pre>")
    facts = " · ".join(f"<code>{_text(fact)}</code>" for fact in _facts(entry))
    head = f"<h2>{_text(title)} <span>{_text(when(entry))}</span></h2><p>{facts}</p>"
    return f'<section class="{name}">{head}{"".join(parts)}</section>'


def _facts(entry: RowChange | TableStatement) -> Iterator[str]:
    yield from facts(entry)
    yield f"server {entry.server_id}"
    if isinstance(entry, RowChange):
        yield f"row {entry.life}, {key_text(entry.key)}"


def _columns(change: RowChange) -> str:
    lines = [
        f'<tr><td class="name">{_text(name)}</td>{_cells(change, column)}</tr>'
        for name, column in change.changed.items()
    ]
    heads = {"insert": ("column", "value"), "delete": ("column", "value")}
    head = "".join(f"<th>{name}</th>" for name in heads.get(change.op, ("column", "old", "new")))
    table = f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'
    if not change.absent:
        return table if lines else ""
    what = "Unchanged or not logged" if change.op == "update" else "Not logged"
    return (table if lines else "") + f"<p>{what}: {_text(', '.join(change.absent))}</p>"


def _cells(change: RowChange, column: ColumnChange) -> str:
    old, new = _cell("del", column.old), _cell("ins", column.new)
    return {"insert": new, "delete": old}.get(change.op, old + new)


def _cell(tag: str, value: Any) -> str:
    if value is NOT_LOGGED:
        return "<td><em>not logged</em></td>"
    return f"<td><code><{tag}>{escape(value_text(value))}</{tag}></code></td>"


def _lines(text: str) -> str:
    return escape("\n".join(printable(line.replace("\t", "    ")) for line in text.splitlines()))


def _text(text: str) -> str:
    return escape(printable(text))
