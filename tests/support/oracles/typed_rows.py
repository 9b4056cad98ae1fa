"""Typed Arrow values as the lines of `binlake rows`, so that both are compared by the same code."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import binlake
from support.oracles.oracle import Snapshot
from support.oracles.reading import Line

__all__ = ["shown_rows", "typed_lines", "without_partial_dates"]

_MINUTE, _HOUR = 60_000_000, 3_600_000_000
_NO_DATE = re.compile(r"\d{4}-(00-\d\d|\d\d-00)")


def typed_lines(paths: Sequence[Path], told: Sequence[Line], **given: Any) -> Iterator[Line]:
    """The row changes of a chain, read as typed columns, in the order of the log.

    `told` are the same changes as `rows` gives them: a struct does not say which columns of a
    before-image are absent, and no typed column has the end of an event.
    """
    log = binlake.open(paths, **given, before=True)
    by_place = {(line["file"], line["pos"], line["row"]): line for line in told}
    found = []
    # all tables in one read: in a compressed transaction, `row` counts the changes of the tables that are read
    for batch in log.changes("*.*"):
        for row in shown_rows(batch):
            line = by_place.pop((row["_log_file"], row["_log_pos"], row["_row"]))
            assert line["op"] == row["_op"]
            found.append((tuple(row["_seq"].values()), _line(row, line)))
    assert not by_place
    for _, line in sorted(found, key=lambda entry: entry[0]):
        yield line


def _line(row: dict[str, Any], told: Line) -> Line:
    lacking = {*(row["_absent"] or ())}
    image = {k: v for k, v in row.items() if not k.startswith("_") and k not in lacking}
    if row["_op"] == "delete":
        return {**told, "before": image}
    before = told["before"]
    if before is not None:
        before = {name: row["_before"][name] for name in before}
    return {**told, "before": before, "after": image}


def shown_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Typed rows with their values as `binlake rows` writes them."""
    shown = {field.name: _shown(field) for field in batch.schema}
    inside = {}
    if "_before" in shown:
        inside = {field.name: _shown(field) for field in batch.schema.field("_before").type}
    for row in batch.to_pylist():
        made = {name: shown[name](value) for name, value in row.items()}
        if made.get("_before") is not None:
            made["_before"] = {name: inside[name](v) for name, v in made["_before"].items()}
        yield made


def _shown(field: pa.Field) -> Callable[[Any], Any]:
    """How a value of a column is written in JSON."""
    metadata = field.metadata or {}
    if b"mysql.type" not in metadata:
        return lambda v: v  # one of binlake's own columns
    kind = metadata[b"mysql.type"].decode()
    digits = int(metadata.get(b"mysql.fractional_digits", b"0"))
    if pa.types.is_decimal(field.type):
        whole = not kind.startswith("decimal")
        return lambda v: v if v is None else int(v) if whole else _decimal(v)
    for is_type, show in (
        (pa.types.is_binary, lambda v: "0x" + v.hex()),
        (pa.types.is_date, dt.date.isoformat),
        (pa.types.is_duration, lambda v: _time(v, digits)),
        (pa.types.is_timestamp, lambda v: _moment(v, digits)),
    ):
        if is_type(field.type):
            return _unless_null(show)
    return lambda v: v


def _unless_null(show: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda v: None if v is None else show(v)


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _fraction(microseconds: int, digits: int) -> str:
    assert not microseconds % 10 ** (6 - digits), "more digits than the column has"
    return f".{microseconds:06}"[: digits + 1] if digits else ""


def _moment(value: dt.datetime, digits: int) -> str:
    text = value.replace(tzinfo=None, microsecond=0).isoformat(" ")
    return text + _fraction(value.microsecond, digits)


def _time(value: dt.timedelta, digits: int) -> str:
    us = value // dt.timedelta(microseconds=1)
    sign, us = "-" if us < 0 else "", abs(us)
    seconds, rest = divmod(us % _MINUTE, 1_000_000)
    clock = f"{us // _HOUR:02}:{us % _HOUR // _MINUTE:02}:{seconds:02}"
    return sign + clock + _fraction(rest, digits)


def without_partial_dates(snapshot: Snapshot) -> Snapshot:
    """The values of a snapshot as typed columns: NULL for zero and partial dates."""
    places = [
        column.place
        for column in snapshot.columns
        if column.render == "temporal" and not column.type.startswith("time(") and column.type != "time"
    ]  # fmt: skip
    rows = []
    for row in snapshot.rows:
        changed = list(row)
        for place in places:
            if row[place] is not None and _NO_DATE.match(row[place]):
                changed[place] = None
        rows.append(tuple(changed))
    return replace(snapshot, rows=tuple(rows))
