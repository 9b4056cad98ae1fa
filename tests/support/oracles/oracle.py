"""The servers' answers (oracle.jsonl.gz of a golden case or a corpus scenario), and comparing.

A value of `binlake rows` is compared with what the server's SELECT returned for it. Only what
the log itself cannot tell is forgiven, and each such rule is written at `_same`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["OracleColumn", "Snapshot", "differences", "snapshot_of", "snapshots"]


@dataclass(frozen=True)
class OracleColumn:
    """A column of the table: its ordinal there, its place in the snapshot's rows.

    `index` and `raw` are the places of its `#index` and `#hex` columns.
    """

    name: str
    type: str
    render: str
    ordinal: int
    place: int
    index: int | None = None
    raw: int | None = None


@dataclass(frozen=True)
class Snapshot:
    """A table at a position: every event that ends at or before (file, pos) counts."""

    label: str
    file: str
    pos: int
    database: str
    table: str
    columns: tuple[OracleColumn, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __str__(self) -> str:
        return f"{self.table_name} ({self.label}, {self.file}:{self.pos})"

    @property
    def table_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"

    def key(self) -> OracleColumn | None:
        """The column `id`, where there is one and it identifies the rows."""
        key = next((c for c in self.columns if c.name == "id"), None)
        if key is None or len({row[key.place] for row in self.rows}) < len(self.rows):
            return None
        return key


def snapshots(folder: Path) -> Iterator[Snapshot]:
    """The snapshots of a folder in log order."""
    with gzip.open(folder / "oracle.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield snapshot_of(json.loads(line))


def snapshot_of(found: dict[str, Any]) -> Snapshot:
    """A line of an oracle."""
    database, _, table = found["table"].partition(".")
    return Snapshot(
        found["label"], found["file"], found["pos"], database, table,
        tuple(_columns(found["columns"])), tuple(map(tuple, found["rows"])),
    )  # fmt: skip


def _columns(shown: list[dict[str, str]]) -> Iterator[OracleColumn]:
    places = {column["name"]: place for place, column in enumerate(shown)}
    own = [c for c in shown if not c["name"].endswith(("#index", "#hex"))]
    for ordinal, column in enumerate(own):
        name = column["name"]
        yield OracleColumn(
            name, column["type"], column["render"], ordinal, places[name],
            places.get(name + "#index"), places.get(name + "#hex"),
        )  # fmt: skip


def differences(column: OracleColumn, row: tuple[Any, ...], got: Any) -> str | None:
    """The error in a decoded value, or None if it equals the server's."""
    want = row[column.place]
    if _same(column, row, want, got):
        return None
    return (
        f"{column.name} {column.type}: got {str(got)[:200]!r}, the server says {str(want)[:200]!r}"
    )


def _same(column: OracleColumn, row: tuple[Any, ...], want: Any, got: Any) -> bool:
    if want is None or got is None:
        return want is got
    if column.index is not None and isinstance(got, int):
        return bool(str(got) == row[column.index])  # members unknown: the number
    if column.raw is not None and str(got).startswith("0x"):
        # the log does not distinguish INET or UUID from BINARY
        return bool(str(got)[2:] == row[column.raw])
    if column.render == "float":
        return _same_float(column.type, want, got)
    if column.render == "hex" and isinstance(got, list):
        return _is(want, struct.pack(f"<{len(got)}f", *got).hex())  # VECTOR
    if column.render == "hex":
        return isinstance(got, str) and got.startswith("0x") and _is(want, got[2:])
    if column.render == "int":
        return isinstance(got, int) and str(got) == want
    return isinstance(got, str) and _is(want, got)


def _is(want: Any, text: str) -> bool:
    if isinstance(want, dict):
        digest = hashlib.sha256(text.encode()).hexdigest()
        return (len(text), digest) == (want["len"], want["sha256"])
    return bool(text == want)


def _same_float(kind: str, want: str, got: Any) -> bool:
    if isinstance(got, bool) or not isinstance(got, int | float):
        return False
    value = float(want)
    if kind.startswith("float"):
        # the server was asked for the double nearest the stored single
        return struct.pack("<f", got) == struct.pack("<f", value + 0.0) or got == value
    if got == value:
        return True
    # MySQL cuts a number at 22 characters, so down to 15 digits; what is cut of ±1.797693134862315708e308 overflows
    if len(want) < 20:
        return False
    return math.isclose(got, value, rel_tol=5e-15) or (
        math.isinf(value) and want[:17] == repr(got)[:17]
    )
