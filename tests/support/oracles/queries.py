"""Answers of `binlake query` as values that compare with those of `Log.to_arrow`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from binlake.query.database import LogDatabase
from binlake.source.resolve import resolve
from binlake.values.options import ReadOptions


@contextmanager
def database(path: Path | str, **given: Any) -> Iterator[LogDatabase]:
    """The database over logs; its connection is closed at the end."""
    made = LogDatabase(resolve([str(path)]), ReadOptions.parse(given), [str(path)])
    with closing(made.connection):
        yield made


def answer(made: LogDatabase, sql: str) -> pa.Table:
    """The result of one statement."""
    [table] = [
        pa.Table.from_batches(batches, schema)
        for schema, batches in (result.batches() for result in made.run(sql))
    ]
    return table


def plain(value: Any) -> Any:
    """A value without the differences of DuckDB's types: intervals, zones, NaN."""
    if isinstance(value, pa.MonthDayNano):
        assert value.months == 0
        return dt.timedelta(days=value.days, microseconds=value.nanoseconds // 1000)
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return "NaN" if isinstance(value, float) and value != value else value
