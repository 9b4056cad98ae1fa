"""Versions of rows, against a plain replay of the changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import UnsupportedError
from binlake.mirror.apply.change_rows import ABSENT, BEFORE, OP, fact
from binlake.mirror.modes.history import History, versions
from binlake.mirror.modes.mode import Emptying
from binlake.mirror.tables.schema import iceberg_schema, storage_schema
from binlake.table.metadata import SEQUENCE_TYPE
from binlake.values.position import Position

INSERT, UPDATE, DELETE = range(3)
NAMES = ("id", "v", "w")
TIME = pa.timestamp("us", "UTC")
MODE = History()
PLACE = Position("", "log.000001", 4)
SCHEMA = storage_schema(
    iceberg_schema(MODE.lake_schema(pa.schema([(name, pa.int32()) for name in NAMES])))
)
Step = dict[str, Any]
#: id, v, w, from, to, operation
Version = tuple[int, int, int, int, int | None, str]


def changes_of(steps: list[Step]) -> pa.Table:
    count = len(steps)
    columns: dict[str, pa.Array] = {
        name: pa.array(
            [None if name in step["absent"] else step["row"][at] for step in steps], pa.int32()
        )
        for at, name in enumerate(NAMES)
    }
    columns[OP] = pa.array([step["op"] for step in steps], pa.uint8())
    columns[ABSENT] = pa.array([step["absent"] or None for step in steps], pa.list_(pa.string()))
    old = [step["old"] if step["op"] == UPDATE else None for step in steps]
    columns[f"{BEFORE}id"] = pa.array(old, pa.int32())
    columns[fact("ts")] = pa.array([step["time"] for step in steps], TIME)
    columns[fact("gtid")] = pa.nulls(count, pa.string())
    columns[fact("seq")] = pa.nulls(count, SEQUENCE_TYPE)
    return pa.table(columns)


def lake_of(rows: list[Version]) -> pa.Table:
    own = ("_valid_from", "_valid_to", "_op")
    found = pa.Table.from_pylist(
        [dict(zip((*NAMES, *own), row, strict=True)) for row in rows],
        pa.schema([(name, SCHEMA.field(name).type) for name in (*NAMES, *own)]),
    )
    for name in ("_gtid", "_seq"):
        found = found.append_column(name, pa.nulls(len(rows), SCHEMA.field(name).type))
    return found.select(SCHEMA.names).cast(SCHEMA)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Version], list[list[Step]], list[Version]]:
    """The open versions of a lake, rounds of changes, and the versions that there are in the end."""
    numbers = st.integers(0, 3)
    now: dict[int, Version] = {
        key: (key, draw(numbers), draw(numbers), draw(st.integers(0, 20)), None, "snapshot")
        for key in draw(st.sets(st.integers(0, 4)))
    }
    start = list(now.values())
    closed: list[Version] = []

    def close(key: int, time: int) -> int:
        row = now.pop(key)
        until = max(time, row[3])
        closed.append((*row[:4], until, row[5]))
        return until

    rounds: list[list[Step]] = []
    clock = st.integers(0, 30)
    for _ in range(draw(st.integers(1, 3))):
        steps: list[Step] = []
        last: dict[int, int] = {}
        for _ in range(draw(st.integers(1, 10))):
            free = [key for key in range(6) if key not in now]
            time = draw(clock)
            if now and (not free or draw(st.booleans())):
                old = draw(st.sampled_from(sorted(now)))
                was = now[old]
                if draw(st.booleans()):
                    steps.append(
                        {"op": DELETE, "row": was[:3], "old": None, "absent": [], "time": time}
                    )
                    last[old] = close(old, max(time, last.get(old, time)))
                    continue
                key = draw(st.sampled_from([old, *free]))
                row = (key, draw(numbers), was[2])
                absent = ["w"] if draw(st.booleans()) else []
                steps.append({"op": UPDATE, "row": row, "old": old, "absent": absent, "time": time})
                last[old] = close(old, max(time, last.get(old, time)))
                operation = "update"
            else:
                key = draw(st.sampled_from(free))
                row = (key, draw(numbers), draw(numbers))
                steps.append({"op": INSERT, "row": row, "old": None, "absent": [], "time": time})
                operation = "insert"
            last[key] = max(time, last.get(key, time))
            now[key] = (*row, last[key], None, operation)
        rounds.append(steps)
    return start, rounds, [*closed, *now.values()]


@given(histories())
def test_each_change_opens_a_version_and_closes_one(
    history: tuple[list[Version], list[list[Step]], list[Version]],
) -> None:
    start, rounds, expected = history
    lake = lake_of(start)
    for steps in rounds:
        is_open = pa.compute.is_null(lake["_valid_to"])
        rows = lake.filter(is_open)
        places = {key: at for at, key in enumerate(rows["id"].to_pylist())}
        assert len(places) == rows.num_rows, "one open version of a key"

        def rows_of(
            keys: pa.Table, _names: Any, rows: pa.Table = rows, places: Any = places
        ) -> Any:
            wanted = [places.get(key, -1) for key in keys["id"].to_pylist()]
            return np.array(wanted, np.int64), rows

        found = versions("db.t", changes_of(steps), ("id",), rows_of)
        touched = pa.compute.is_in(lake["id"], found["id"].combine_chunks())
        stays = pa.compute.invert(pa.compute.and_(is_open, touched))
        lake = pa.concat_tables([lake.filter(stays), found])
    names = (*NAMES, "_valid_from", "_valid_to", "_op")
    numbers = lake.set_column(3, "_valid_from", lake["_valid_from"].cast(pa.int64()))
    numbers = numbers.set_column(4, "_valid_to", lake["_valid_to"].cast(pa.int64()))
    rows = [tuple(row[name] for name in names) for row in numbers.to_pylist()]
    assert sorted(map(repr, rows)) == sorted(map(repr, expected))
    assert all(row[4] is None or row[3] <= row[4] for row in rows)


def test_all_rows_go() -> None:
    """Versions that are open are closed, none before it began; each part is of the rows that are left."""
    open_ones: list[Version] = [(1, 0, 0, 60, None, "insert"), (2, 0, 0, 5, None, "update")]
    lake = lake_of([*open_ones, (3, 0, 0, 5, 6, "insert")])
    of = Emptying("d.t", PLACE, 50, may_be_ahead=False, rows=lambda: iter([lake, lake]))
    changes = list(MODE.emptied(of, 1))
    assert len(changes) == 2
    for change in changes:
        assert change.upserts is not None
        until = change.upserts["_valid_to"].cast(pa.int64()).to_pylist()
        assert dict(zip(change.upserts["id"].to_pylist(), until, strict=True)) == {1: 60, 2: 50}
    [whole] = MODE.emptied(of, 1 << 20)
    assert whole.upserts is not None
    assert whole.upserts.num_rows == 4
    [copied] = MODE.emptied(replace(of, may_be_ahead=True), 1)
    assert copied.truncate
    with pytest.raises(UnsupportedError, match="does not contain the statement's time"):
        list(MODE.emptied(replace(of, commit_us=None), 1))
