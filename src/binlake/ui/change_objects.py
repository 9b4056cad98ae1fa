"""Row changes as objects for the page: each column with its old and its new value, as text."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from threading import Event
from typing import Any

from binlake.table.batches import Changes
from binlake.table.row_json import change_batch
from binlake.table.where.choosing import check_where_columns
from binlake.ui.opened_logs import LogSession
from binlake.ui.request_options import Selection
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

#: Row changes of one answer.
MOST_ROWS = 50
#: A search goes no further than this: the next step is a narrower one.
MOST_FOUND = 2000
_MOST_CHARACTERS = 4000

Row = dict[str, Any]


def found_rows(session: LogSession, selection: Selection, offset: int, stop: Event) -> Row:
    """Return the row changes of a selection from number `offset` on, in the order of the log.

    Raises BinlogError, Stopped.
    """
    ledger = Ledger()
    offset = min(offset, MOST_FOUND)

    def changes() -> Generator[Changes]:
        for chain, options in session.parts(selection):
            yield from session.changes(chain, _with_statement(options), ledger, stop)

    found = changes()
    with closing(found):
        rows, more = row_objects(found, _with_statement(session.options), offset, MOST_ROWS)
    if not more:
        check_where_columns(selection.options.where, ledger)
    return {
        "rows": rows,
        "offset": offset,
        "more": more and offset + MOST_ROWS < MOST_FOUND,
        "limit": MOST_FOUND if more and offset + MOST_ROWS >= MOST_FOUND else None,
        "remarks": [] if more else ledger.remarks(),
    }


def _with_statement(options: ReadOptions) -> ReadOptions:
    return replace(options, query=True, thread_id=True)


def row_objects(
    found: Iterable[Changes], options: ReadOptions, offset: int, most: int
) -> tuple[list[Row], bool]:
    """Return at most `most` row changes from number `offset` on, and whether there are more."""
    rows: list[Row] = []
    passed = 0
    for changes in found:
        if passed + changes.count <= offset:
            passed += changes.count
            continue
        keys = {
            (one.database, one.table): tuple(
                one.columns[ordinal].name for ordinal in one.primary_key
            )
            for one in (table.types.definition for table in changes.tables)
        }
        batch = change_batch(changes, options)
        low = max(0, offset - passed)
        shown = batch.slice(low, most + 1 - len(rows)).to_pylist()
        rows += [_row_object(row, keys) for row in shown]
        passed += changes.count
        if len(rows) > most:
            return rows[:most], True
    return rows, False


def _row_object(row: Row, keys: Mapping[tuple[str, str], tuple[str, ...]]) -> Row:
    before, after = (_image(row[side]) for side in ("before", "after"))
    names = keys[row["database"], row["table"]]
    image = (before if after is None else after) or {}
    key = {name: image[name] for name in names if image.get(name) is not None}
    return {
        "op": row["op"],
        "database": row["database"],
        "table": row["table"],
        "ts": row["ts"].strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "gtid": row["gtid"],
        "file": row["file"],
        "pos": row["pos"],
        "row": row["row"],
        "thread_id": row.get("thread_id"),
        "query": _cut(row.get("query")),
        "key": value_texts(key) if len(key) == len(names) > 0 else None,
        "before": None if before is None else value_texts(before),
        "after": None if after is None else value_texts(after),
    }


def _image(text: str | None) -> Row | None:
    # numbers stay texts: JavaScript has no exact ones of 64 bits
    found: Row | None = None if text is None else json.loads(text, parse_int=str, parse_float=str)
    return found


def value_texts(image: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the values of an image as texts; None is NULL."""
    return {name: _value(value) for name, value in image.items()}


def _value(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return _cut(value)
    return _cut(json.dumps(value, ensure_ascii=False))


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}… ({len(text):,} characters)"
