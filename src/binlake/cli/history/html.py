"""A history as one HTML page: a section for each change, with a table of the changed columns.

The file loads nothing and runs no script. All texts of the log are escaped; in addition, a policy in the page forbids
scripts and loading.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from binlake.cli.history.text_form import facts, key_text, summary, value_text, when
from binlake.printable import printable
from binlake.table.row_history.entries import (
    NOT_LOGGED,
    ColumnChange,
    RowChange,
    RowHistory,
    TableStatement,
)

_STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1c2430;--soft:#5d6877;--line:#d9dee5;
--card:#f5f7f9;--inserts:#2a78b5;--updates:#e09c1f;--deletes:#c8443c;--bytes:#4b8b6a}
@media (prefers-color-scheme:dark){:root{--back:#14181e;--text:#e4e8ee;--soft:#97a2b0;
--line:#333c48;--card:#1d232b;--inserts:#5aa6e0;--updates:#eab54d;--deletes:#ea766e;--bytes:#74bb95}}
body{background:var(--back);color:var(--text);font:14px/1.45 system-ui,sans-serif;
max-width:1100px;margin:0 auto;padding:24px}
h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:32px 0 8px}p{color:var(--soft);margin:4px 0}
h2{break-after:avoid}tr{break-inside:avoid}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{padding:4px 10px 4px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:normal}
code{font:12px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}
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
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(printable(title))} – binlake history</title>\n<style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


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
