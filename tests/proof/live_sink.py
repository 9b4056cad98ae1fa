"""The rows that have arrived in a folder of Parquet batches, applied change by change to empty tables.

Every change must fit the rows as they are when it is applied: an insert that comes twice, an
update whose old values are not there, a delete of nothing is an error. So a row that is lost,
doubled or out of order cannot hide behind a later one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

__all__ = ["Sink"]

_COLUMNS = ["op", "database", "table", "gtid", "file", "pos", "row", "before", "after"]


class Sink:
    """A folder that tests/proof/stream_job.py writes, with the query's checkpoint beside it.

    `tables` holds by table and first column (the key) what the rows of `database` are after the
    batches that Spark has committed; `changes` counts the changes, `batches` the batches.
    """

    def __init__(self, folder: Path, database: str, tables: Iterable[str]) -> None:
        self.rows = folder / "rows"
        self.checkpoint = folder / "checkpoint"
        self.tables: dict[str, dict[str, list[str | None]]] = {table: {} for table in tables}
        self.changes = 0
        self.batches = 0
        self._database = database
        self._seen: set[tuple[Any, ...]] = set()

    def advance(self) -> None:
        """Apply the batches that have been committed since. Fails at a change that cannot be."""
        while (self.checkpoint / "commits" / str(self.batches)).exists():
            for change in _changes(self.rows / f"batch={self.batches}"):
                if change["database"] == self._database:
                    self._apply(change)
            self.batches += 1

    def _apply(self, change: dict[str, Any]) -> None:
        place = (change["gtid"], change["file"], change["pos"], change["row"])
        assert place not in self._seen, f"batch {self.batches} has once more: {change}"
        self._seen.add(place)
        self.changes += 1
        rows = self.tables[change["table"]]
        before, after = (_values(change[image]) for image in ("before", "after"))
        if before is not None:
            key, values = before
            assert rows.pop(key, None) == values, f"batch {self.batches}: finds no {change}"
        if after is not None:
            key, values = after
            assert key not in rows, f"batch {self.batches}: is there already: {change}"
            rows[key] = values


def _changes(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in folder.glob("*.parquet"):
        # ParquetFile: the folder's name is not to become a column
        with pq.ParquetFile(part) as file:
            found += file.read(columns=_COLUMNS).to_pylist()
    return sorted(found, key=lambda change: (_number(change["file"]), change["pos"], change["row"]))


def _number(file: str) -> int:
    digits = re.search(r"\.(\d+)$", file)
    assert digits, file
    return int(digits[1])


def _values(image: str | None) -> tuple[str, list[str | None]] | None:
    if image is None:
        return None
    key, *values = (_text(value) for value in json.loads(image).values())
    assert key is not None
    return key, values


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value[2:] if isinstance(value, str) and value.startswith("0x") else str(value)
