"""Statements of a log that empty, drop or rename tables: what a replay of rows has to follow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from binlake.events.common.query import QueryEvent
from support.oracles.reading import events
from support.oracles.replay import Definition

__all__ = ["definitions"]

_NAME = r"(?:`(?:[^`]|``)+`|[\w$]+)(?:\.(?:`(?:[^`]|``)+`|[\w$]+))?"
_EMPTIES = re.compile(rf"\s*(?:TRUNCATE(?: TABLE)?|DROP TABLE(?: IF EXISTS)?|CREATE OR REPLACE TABLE) ({_NAME})", re.I)  # fmt: skip
_RENAMES = re.compile(rf"\s*RENAME TABLE ({_NAME}) TO ({_NAME})", re.I)


def _split(name: str, database: str) -> tuple[str, str]:
    parts = [p.strip("`").replace("``", "`") for p in re.findall(r"`(?:[^`]|``)+`|[\w$]+", name)]
    return (parts[0], parts[1]) if len(parts) == 2 else (database, parts[0])


def definitions(file: Path, name: str | None = None, **given: str) -> Iterator[Definition]:
    """Those statements of one file, in order; `name` is its base name without .gz.

    Options of reading by their names.
    """
    name = name or file.name
    for event in events(file, **given):
        if not isinstance(event, QueryEvent):
            continue
        renamed = _RENAMES.match(event.sql)
        emptied = _EMPTIES.match(event.sql)
        if renamed:
            database, table = _split(renamed[1], event.database)
            new_table = _split(renamed[2], event.database)[1]
            yield Definition(name, event.frame.end, database, table, new_table)
        elif emptied:
            database, table = _split(emptied[1], event.database)
            yield Definition(name, event.frame.end, database, table)
