"""The document of `binlake stats --json` as one page. All texts of the log are escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any

from binlake.cli.common.html_page import html_page
from binlake.cli.stats.charts import STYLE, Slot, bars, timeline
from binlake.cli.stats.text import (
    bytes_text,
    count_text,
    duration_text,
    known,
    short_time,
    unit_time,
)
from binlake.stream.statistics import UNITS, utc_text
from binlake.values.ledger import counted

__all__ = ["page"]

Row = dict[str, Any]
Column = tuple[str, Callable[[Row], str]]

_OPERATIONS = ("inserts", "updates", "deletes")
_MOST_NAMES = 6

_STYLE = """
.cards{display:flex;flex-wrap:wrap;gap:12px;margin:20px 0}
.card{background:var(--card);border-radius:8px;padding:10px 16px;min-width:120px}
.card b{display:block;font-size:20px}.card span{color:var(--soft)}
rect.inserts{fill:var(--inserts)}rect.updates{fill:var(--updates)}rect.deletes{fill:var(--deletes)}
rect.bytes,rect.transactions{fill:var(--bytes)}
.inserts,.updates,.deletes,.bytes{print-color-adjust:exact;-webkit-print-color-adjust:exact}
.inserts{background:var(--inserts)}.updates{background:var(--updates)}
.deletes{background:var(--deletes)}.bytes{background:var(--bytes)}
.legend{white-space:nowrap;font-weight:normal;font-size:14px}
i{display:inline-block;width:11px;height:11px;border-radius:2px;margin:0 5px 0 14px}
td.n,th.n{text-align:right;white-space:nowrap}
td.t,td.t code{white-space:nowrap}
@media print{body{max-width:none;padding:0}.scroll{overflow:visible}table{font-size:10px}
table code{font-size:7px}th,td{padding-right:6px}td.t code{white-space:normal}}
"""

_LEGEND = "".join(
    f'<span class="legend"><i class="{name}"></i>{name}</span>' for name in _OPERATIONS
)


def page(document: Row, files: Sequence[str]) -> str:
    """The whole page. `files` are the names of the logs."""
    names = ", ".join(files[:_MOST_NAMES])
    if len(files) > _MOST_NAMES:
        names = f"{files[0]} to {files[-1]} ({len(files)} files)"
    body = "\n".join(_body(document, names))
    return html_page(f"{names} – binlake stats", _STYLE + STYLE, body)


def _body(document: Row, names: str) -> Iterator[str]:
    yield f"<h1>{escape(names)}</h1>"
    first, last = short_time(document["first_ts"]), short_time(document["last_ts"])
    if document["first_ts"] is None:
        yield "<p>No transactions.</p>"
    else:
        yield f"<p>Committed {escape(first)} to {escape(last)}. All times are UTC.</p>"
    yield from _cards(document)
    yield from _plots(document["time"])
    yield from _tally(
        "Tables",
        document["tables"],
        "table",
        "Bytes of row events, by table (of compressed transactions: inflated)",
    )
    yield from _tally("Servers", document["servers"], "server_id", "")
    yield from _tally("Threads", document["threads"], "thread_id", "")
    for title, rank in (
        ("Largest transactions by bytes", "largest_by_bytes"),
        ("Largest transactions by rows", "largest_by_rows"),
        ("Longest transactions, from the first statement to the commit", "longest"),
    ):
        if document[rank]:
            yield f"<h2>{title}</h2>{_table(document[rank], _TRANSACTION)}"
    yield from _ddl(document["ddl"])
    if document["remarks"]:
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in document["remarks"])
        yield f"<h2>Remarks</h2>{remarks}"


def _cards(document: Row) -> Iterator[str]:
    total, log = document["total"], document["log"]
    cards = [
        (bytes_text(log["bytes"]), "read"),
        _count(total["transactions"], "transactions"),
        (bytes_text(total["bytes"]), "in transactions"),
        *(_count(total[name], name) for name in _OPERATIONS),
        _count(document["tables"]["count"], "tables"),
        *((f"{count:,}", kind) for kind, count in document["statements"].items()),
    ]
    if document["uncounted_transactions"]:
        cards.append((f"{document['uncounted_transactions']:,}", "transactions: rows not counted"))
    shown = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(what)}</span></div>'
        for value, what in cards
    )
    yield f'<div class="cards">{shown}</div>'


def _count(count: int, things: str) -> tuple[str, str]:
    return f"{count:,}", things[:-1] if count == 1 else things


def _plots(time: Row) -> Iterator[str]:
    if not time["buckets"]:
        return
    unit = time["unit"]
    for title, series, number in (
        ("Bytes", ("bytes",), bytes_text),
        ("Row changes", _OPERATIONS, _short),
        ("Transactions", ("transactions",), _short),
    ):
        slots = [
            Slot(_microseconds(bucket["ts"]), tuple(bucket[name] for name in series))
            for bucket in time["buckets"]
        ]
        if not any(map(any, (slot.values for slot in slots))):
            continue
        legend = _LEGEND if len(series) > 1 else ""
        yield f"<h2>{title} by {unit}{legend}</h2>"
        yield timeline(
            slots, UNITS[unit], series, number, lambda us: unit_time(utc_text(us) or "", unit)
        )


def _tally(title: str, tally: Row, name: str, note: str) -> Iterator[str]:
    if not tally["top"]:
        return
    yield f"<h2>{title}</h2>"
    if note:
        yield f"<p>{escape(note)}</p>"
    yield bars(
        [(known(row[name]), (row["bytes"],)) for row in tally["top"]], ("bytes",), bytes_text
    )
    if any(row["rows"] for row in tally["top"]):
        yield f"<p>Row changes{_LEGEND}</p>"
        items = [
            (known(row[name]), tuple(row[operation] for operation in _OPERATIONS))
            for row in tally["top"]
        ]
        yield bars(items, _OPERATIONS, _short)
    left = tally["count"] - len(tally["top"])
    if left > 0:
        others = tally["others"]
        said = f"{counted(left, 'other')}: {bytes_text(others['bytes'])}, {counted(others['rows'], 'row change')}"
        yield f"<p>{escape(said)}</p>"
    if not tally["exact"]:
        yield "<p>There are very many; the others include small ones.</p>"


def _ddl(ddl: Row) -> Iterator[str]:
    if not ddl["list"]:
        return
    columns: list[Column] = [
        ("time", lambda row: short_time(row["ts"])),
        ("thread", lambda row: known(row["thread_id"])),
        ("user", lambda row: known(row["user"])),
        ("database", lambda row: row["database"] or "–"),
        ("statement", lambda row: row["sql"]),
    ]
    yield f"<h2>DDL, TRUNCATE and account management</h2>{_table(ddl['list'], columns)}"
    if ddl["count"] > len(ddl["list"]):
        yield f"<p>The first {len(ddl['list']):,} of {ddl['count']:,}.</p>"


_TRANSACTION: list[Column] = [
    ("committed", lambda row: short_time(row["commit_ts"])),
    ("took", lambda row: duration_text(row["duration_seconds"])),
    ("bytes", lambda row: bytes_text(row["bytes"])),
    ("inserts", lambda row: count_text(row["inserts"])),
    ("updates", lambda row: count_text(row["updates"])),
    ("deletes", lambda row: count_text(row["deletes"])),
    ("thread", lambda row: known(row["thread_id"])),
    ("position", lambda row: f"{row['file']}:{row['pos']}"),
    ("gtid", lambda row: row["gtid"] or "–"),
    ("tables", lambda row: ", ".join(row["tables"]) or "–"),
]
_NUMBERS = {"took", "bytes", *_OPERATIONS, "thread"}
_UNBROKEN = {"committed", "time", "user", "position", "gtid"}
_CODE = {"position", "gtid", "statement"}


def _table(rows: Iterable[Row], columns: Sequence[Column]) -> str:
    heads = "".join(f"<th{_class(name)}>{escape(name)}</th>" for name, _ in columns)
    lines = []
    for row in rows:
        cells = []
        for name, value in columns:
            text = escape(value(row))
            cells.append(
                f"<td{_class(name)}>{f'<code>{text}</code>' if name in _CODE else text}</td>"
            )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="scroll"><table><tr>{heads}</tr>{"".join(lines)}</table></div>'


def _class(name: str) -> str:
    return ' class="n"' if name in _NUMBERS else ' class="t"' if name in _UNBROKEN else ""


def _microseconds(ts: str) -> int:
    return (datetime.fromisoformat(ts) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def _short(count: int) -> str:
    """`12.3 M`."""
    if count < 10_000:
        return f"{count:,}"
    value = float(count)
    for unit in ("k", "M"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} G"
