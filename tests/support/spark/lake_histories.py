"""An oracle of lake tables in the mode `history`: the versions that the server's log tells, one change after the other."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import binlake
from binlake.mirror.iceberg.jvm import Lake as Catalog
from binlake.values.log_names import LogName
from dev.servers import Server
from support.spark.mirrored import Lake

__all__ = ["check_history"]

Key = tuple[Any, ...]
Row = dict[str, Any]


@dataclass
class _Version:
    """A row as one change left it. `change`: its operation, GTID and place; None of a version of the copy."""

    row: Row
    change: tuple[Any, ...] | None
    begun: datetime
    ended: datetime | None = None


def check_history(lake: Lake, table: str, key: tuple[str, ...]) -> int:
    """Compare all versions of a table with the log, which has every change of the table, and no TRUNCATE.

    Returns how many versions were compared that changes began. Raises AssertionError.
    """
    expected = _of_log(lake.server, _copied(lake, table), table, key)
    found = _of_lake(lake, table, key)
    assert found.keys() == expected.keys(), f"{table}: {found.keys() ^ expected.keys()}"
    return sum(_check(f"{table} {of}", versions, found[of]) for of, versions in expected.items())


def _check(of: str, expected: list[_Version], found: list[Row]) -> int:
    assert len(expected) == len(found), f"{of}: {len(found)} versions, {len(expected)} expected"
    before: datetime | None = None
    for wanted, row in zip(expected, found, strict=True):
        place = f"{of}, {row['_seq']}"
        assert {name: row[name] for name in wanted.row} == wanted.row, place
        begun, ended = row["_valid_from"], row["_valid_to"]
        if wanted.change is not None:
            assert (row["_op"], row["_gtid"], *row["_seq"].values()) == wanted.change, place
            # clocks step back, versions do not
            assert begun in (wanted.begun, max(wanted.begun, before or begun)), place
        assert ended == (wanted.ended and max(wanted.ended, begun)), place
        before = ended
    return sum(version.change is not None for version in expected)


def _copied(lake: Lake, table: str) -> tuple[int, int]:
    """Where in the log the copy of a table ended: its versions begin there."""
    namespace, _, name = table.partition(".")
    properties = Catalog(lake.spark, lake.catalog).load(namespace, name).describe()["properties"]
    until = json.loads(properties["binlake.snapshot-until"])
    return _number(until["file"]), until["offset"]


def _number(file: str) -> int:
    name = LogName.parse(file)
    assert name is not None
    return name.number


def _of_lake(lake: Lake, table: str, key: tuple[str, ...]) -> dict[Key, list[Row]]:
    """The versions of each key, in their order."""
    found: dict[Key, list[Row]] = defaultdict(list)
    rows = lake.table(table).to_pylist()
    for row in sorted(rows, key=lambda row: tuple(row["_seq"].values())):
        found[tuple(row[name] for name in key)].append(row)
    return found


def _of_log(
    server: Server, copied: tuple[int, int], table: str, key: tuple[str, ...]
) -> dict[Key, list[_Version]]:
    """The same, by the log: the rows at the end of the copy, and what comes after it."""
    versions: dict[Key, list[_Version]] = defaultdict(list)
    is_copied = True
    for change in binlake.open(server.log_files(), before=True).to_arrow(table).to_pylist():
        place = (_number(change["_log_file"]), change["_log_pos"], change["_row"])
        if is_copied and place[:2] > copied:
            is_copied, versions = False, _open(versions)
        row = {name: value for name, value in change.items() if not name.startswith("_")}
        before = change["_before"] or row
        of = versions[tuple(before[name] for name in key)]
        if of and of[-1].ended is None:
            of[-1].ended = change["_ts"]
        if change["_op"] != "delete":
            told = None if is_copied else (change["_op"], change["_gtid"], *place)
            made = _Version(row, told, change["_ts"])
            versions[tuple(row[name] for name in key)].append(made)
    found = _open(versions) if is_copied else versions
    return {of: some for of, some in found.items() if some}


def _open(versions: dict[Key, list[_Version]]) -> dict[Key, list[_Version]]:
    """The rows of one moment, of which the copy knows no earlier version."""
    rows: dict[Key, list[_Version]] = defaultdict(list)
    for of, some in versions.items():
        if some and some[-1].ended is None:
            rows[of] = [some[-1]]
    return rows
