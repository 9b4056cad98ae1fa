"""The document of `binlake stats --json` as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from binlake.printable import truncated
from binlake.values.quantities import counted

#: For values that the log does not record.
UNKNOWN = "unknown"

_BAR = 30
_SQL_CHARACTERS = 100
#: How much of a contract time is shown, by unit of time.
_UNIT_WIDTHS = {"10ms": 22, "100ms": 21, "second": 19, "minute": 16, "hour": 16, "day": 10}

Row = dict[str, Any]
Column = tuple[str, Callable[[Row], str]]


def bytes_text(count: int) -> str:
    """`12.3 MB`."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"


def duration_text(seconds: int) -> str:
    """Return `1 h 02 min`, `3 min 05 s` or `4 s`; logs have whole seconds."""
    if seconds < 60:
        return f"{seconds} s" if seconds else "< 1 s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def short_time(ts: str | None) -> str:
    """`2026-11-21 07:09:00` of a contract time; UTC."""
    return UNKNOWN if ts is None else ts[:19].replace("T", " ")


def unit_time(ts: str, unit: str) -> str:
    """Return the start of a unit of time (a key of UNITS), to the digits that the unit needs; UTC."""
    return ts[: _UNIT_WIDTHS[unit]].replace("T", " ")


def known(value: Any) -> str:
    """Return a value that the log may lack."""
    return UNKNOWN if value is None else str(value)


def _measure(name: str) -> Column:
    return name, lambda row: UNKNOWN if row[name] is None else f"{row[name]:,}"


_BYTES: Column = ("bytes", lambda row: bytes_text(row["bytes"]))
_ROWS = [_measure("inserts"), _measure("updates"), _measure("deletes")]
_PLACE: Column = ("position", lambda row: f"{row['file']}:{row['pos']}")
_TRANSACTION: list[Column] = [
    ("committed", lambda row: short_time(row["commit_ts"])),
    ("took", lambda row: duration_text(row["duration_seconds"])),
    _BYTES,
    *_ROWS,
    ("thread", lambda row: known(row["thread_id"])),
    _PLACE,
    ("gtid", lambda row: row["gtid"] or "-"),
    ("tables", lambda row: ", ".join(row["tables"]) or "-"),
]


def report(document: Row) -> Iterator[str]:
    """The lines of the whole report."""
    yield from _summary(document)
    for title, key, name in (
        ("Tables (bytes of row events; of compressed transactions: inflated)", "tables", "table"),
        ("Servers", "servers", "server_id"),
        ("Threads", "threads", "thread_id"),
    ):
        yield from _tally(title, document[key], name)
    yield from _times(document["time"])
    for title, rank in (
        ("Largest transactions by bytes", "largest_by_bytes"),
        ("Largest transactions by rows", "largest_by_rows"),
        ("Longest transactions, from the first statement to the commit", "longest"),
    ):
        if document[rank]:
            yield from ("", title)
            yield from table(document[rank], _TRANSACTION)
    yield from _ddl(document)


def _summary(document: Row) -> Iterator[str]:
    total, log = document["total"], document["log"]
    files = len(log["files"])
    yield f"{counted(files, 'file')}, {bytes_text(log['bytes'])}; all times are UTC"
    if not total["transactions"]:
        yield "no transactions"
    else:
        yield (
            f"{counted(total['transactions'], 'transaction')}, {bytes_text(total['bytes'])},"
            f" {short_time(document['first_ts'])} to {short_time(document['last_ts'])}"
        )
        yield (
            f"{counted(total['rows'], 'row change')}: {counted(total['inserts'], 'insert')},"
            f" {counted(total['updates'], 'update')}, {counted(total['deletes'], 'delete')}"
        )
    if document["uncounted_transactions"]:
        yield f"rows not counted in {counted(document['uncounted_transactions'], 'transaction')}"
    if document["statements"]:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in document["statements"].items())
        yield f"statements logged as text: {kinds}"


def _tally(title: str, tally: Row, name: str) -> Iterator[str]:
    if not tally["top"]:
        return
    columns = [_BYTES, _measure("transactions"), *_ROWS, (name, lambda row: known(row[name]))]
    left = tally["count"] - len(tally["top"])
    rows = list(tally["top"])
    if left > 0:
        rows.append({**tally["others"], name: f"({counted(left, 'other')})"})
    yield from ("", title + ("" if tally["exact"] else ": very many; the smallest are in others"))
    yield from table(rows, columns)


def _times(time: Row) -> Iterator[str]:
    if len(time["buckets"]) < 2:
        return
    most = max(bucket["bytes"] for bucket in time["buckets"]) or 1
    columns: list[Column] = [
        (time["unit"], lambda row: unit_time(row["ts"], time["unit"])),
        _BYTES,
        _measure("transactions"),
        *_ROWS,
        ("", lambda row: "#" * round(row["bytes"] / most * _BAR)),
    ]
    yield from ("", f"By {time['unit']}")
    yield from table(time["buckets"], columns)


def _ddl(document: Row) -> Iterator[str]:
    listed, count = document["ddl"]["list"], document["ddl"]["count"]
    if not listed:
        return
    more = f" (the first {len(listed)} of {count:,})" if count > len(listed) else ""
    columns: list[Column] = [
        ("time", lambda row: short_time(row["ts"])),
        ("thread", lambda row: known(row["thread_id"])),
        ("user", lambda row: known(row["user"])),
        ("database", lambda row: row["database"] or "-"),
        ("statement", lambda row: one_line(row["sql"], _SQL_CHARACTERS)),
    ]
    yield from ("", f"DDL, TRUNCATE and account management{more}")
    yield from table(listed, columns)


def one_line(sql: str | None, most: int | None = None) -> str:
    """Return a statement without line breaks and other control characters, cut at `most`
    characters.
    """
    text = " ".join((sql or "").split())
    text = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return text if most is None else truncated(text, most)


def digest_line(entry: Row) -> str:
    """One digest: how often, rows, bytes, first and last place, text."""
    first, last = entry["first"], entry["last"]
    rows = "-" if entry["rows"] is None else f"{entry['rows']:,}"
    return (
        f"{entry['count']:>9,} x  {rows:>11} rows  {bytes_text(entry['bytes']):>9}"
        f"  {first['file']}:{first['pos']} to {last['file']}:{last['pos']}"
        f"  {one_line(entry['digest'], _SQL_CHARACTERS * 2)}"
    )


def statement_line(entry: Row) -> str:
    """One statement of `--statements`."""
    return "  ".join(
        (
            entry["ts"],
            f"{entry['file']}:{entry['pos']}",
            f"thread={known(entry['thread_id'])}",
            f"user={known(entry['user'])}",
            f"database={entry['database'] or '-'}",
            f"error={known(entry['error_code'])}",
            f"gtid={entry['gtid'] or '-'}",
            *([] if entry["outcome"] == "committed" else [f"({entry['outcome']})"]),
            one_line(entry["sql"]),
        )
    )


def table(rows: Iterable[Row], columns: Sequence[Column]) -> Iterator[str]:
    """Lines of aligned columns: numbers to the right, the last column as it comes."""
    cells = [[value(row) for _, value in columns] for row in rows]
    heads = [head for head, _ in columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    right = [all(_is_number(cell) for cell in column) for column in zip(*cells, strict=True)]
    for line in (heads, *cells):
        parts = [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ]
        yield "  " + "  ".join(parts).rstrip()


def _is_number(text: str) -> bool:
    digits = text.removeprefix("< ")[:1].isdigit()
    return (digits and "-" not in text and ":" not in text) or text == UNKNOWN
