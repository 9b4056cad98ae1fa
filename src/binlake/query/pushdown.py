"""Narrow the options of a read to the rows that a filter can match.

A narrowed read yields at least the rows that pass the filter: the scan applies the whole filter
afterwards. So a test is left out wherever the reader could understand it in a stricter way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa

from binlake.query.conditions import ColumnTest
from binlake.table.batches import OPERATIONS
from binlake.values.gtid_filter import parse_gtid_filter
from binlake.values.options import ReadOptions

_WILD = re.compile(r"[*?]")
_MOST_VALUES = 1000  # of IN: parsing more costs more than it saves


def narrowed(
    options: ReadOptions, tests: Sequence[ColumnTest], meanings: Mapping[str, str]
) -> ReadOptions:
    """Return the options with the tests that headers decide.

    `meanings`: the meanings of columns, by their names: op, ts (commit time), gtid, thread_id, database,
    table. Options that the user gave stay, or get narrower.
    """
    names: dict[str, list[str]] = {}
    for test in tests:
        meaning = meanings.get(test.column)
        if len(test.values) > _MOST_VALUES or any(not value.is_valid for value in test.values):
            continue
        if meaning == "ts":
            options = _within(options, test)
        elif test.operator not in ("=", "in"):
            continue
        elif meaning in ("database", "table"):
            texts = [value.as_py() for value in test.values]
            names[meaning] = [text for text in names.get(meaning, texts) if text in texts]
        elif meaning == "op":
            options = _of_operations(options, test.values)
        elif meaning == "gtid":
            options = _of_gtids(options, test.values)
        elif meaning == "thread_id" and not options.thread:
            options = replace(options, thread=tuple(value.as_py() for value in test.values))
    return _of_tables(options, names)


def _within(options: ReadOptions, test: ColumnTest) -> ReadOptions:
    """The option `since` includes its moment, `until` does not."""
    value = test.values[0]
    if not pa.types.is_timestamp(value.type) or value.type.unit != "us":
        return options
    moment: int = value.value
    since, until = options.since, options.until
    if test.operator in (">", ">=", "="):
        since = moment if since is None else max(since, moment)
    if test.operator in ("<", "<=", "="):
        end = moment + (test.operator != "<")
        until = end if until is None else min(until, end)
    return replace(options, since=since, until=until)


def _of_operations(options: ReadOptions, values: Sequence[Any]) -> ReadOptions:
    asked = [value.as_py() for value in values]
    kept = tuple(op for op in options.op or OPERATIONS if op in asked)
    return replace(options, op=kept) if kept else options


def _of_gtids(options: ReadOptions, values: Sequence[Any]) -> ReadOptions:
    if options.gtid is not None or options.at is not None:
        return options
    text = ",".join(value.as_py() for value in values)
    try:
        parse_gtid_filter(text)
    except ValueError:
        return options  # no GTID: nothing matches, and the scan finds that
    return replace(options, gtid=text)


def _of_tables(options: ReadOptions, names: Mapping[str, Sequence[str]]) -> ReadOptions:
    if not names or options.table:
        return options
    pairs = product(names.get("database", ("*",)), names.get("table", ("*",)))
    patterns = tuple(f"{database}.{table}" for database, table in pairs)
    exact = [name for several in names.values() for name in several]
    if not patterns or len(patterns) > _MOST_VALUES or any(map(_WILD.search, exact)):
        return options
    return replace(options, table=patterns)


def with_numbers(options: ReadOptions, tests: Sequence[ColumnTest]) -> ReadOptions:
    """Return the options with the option where for tests of columns that are exact numbers.

    Only equality is used: the columns of the option are decoded twice, which pays where few rows
    match. A row that DuckDB sees is the after-image, or a delete's before-image, so the test may be
    true of either.
    """
    if options.whole_transaction:
        return options
    parts = [
        (test.column.replace("`", "``"), [_number(value) for value in test.values])
        for test in tests
        if test.operator in ("=", "in") and 0 < len(test.values) <= _MOST_VALUES
    ]
    known = [(column, numbers) for column, numbers in parts if None not in numbers]
    if not known:
        return options
    images = [
        " AND ".join(
            f"{image}.`{column}` IN ({', '.join(map(str, numbers))})" for column, numbers in known
        )
        for image in ("after", "before")
    ]
    either = " OR ".join(f"({image})" for image in images)
    where = either if options.where is None else f"({options.where}) AND ({either})"
    return replace(options, where=where)


def _number(value: Any) -> str | None:
    """A constant as the option where writes it; None if it is no exact number."""
    found = value.as_py() if value.is_valid else None
    if isinstance(found, bool) or not isinstance(found, int | Decimal):
        return None
    return format(found, "f") if isinstance(found, Decimal) else str(found)
