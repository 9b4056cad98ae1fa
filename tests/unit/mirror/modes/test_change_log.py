"""The server's rows according to a log of changes, compared with a plain replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import UnsupportedError
from binlake.mirror.apply.change_rows import ABSENT, BEFORE, OP, fact
from binlake.mirror.modes.change_log import ChangeLog, logged_rows
from binlake.mirror.modes.mode import Emptying
from binlake.table.metadata import SEQUENCE_TYPE
from binlake.values.position import Position

INSERT, UPDATE, DELETE, TRUNCATED = range(4)
LOG = ChangeLog()
Row = tuple[int, int]
NAMES = ("id", "v")
KINDS = pa.schema([("id", pa.int32()), ("v", pa.int32())])


def changes_of(steps: Sequence[tuple[int, int, Row, Row]], key: Sequence[str]) -> pa.Table:
    """(place, operation, row, row before) as `change_rows` has them."""
    count = len(steps)
    columns: dict[str, pa.Array] = {
        name: pa.array([step[2][at] for step in steps], pa.int32()) for at, name in enumerate(NAMES)
    }
    columns[OP] = pa.array([step[1] for step in steps], pa.uint8())
    columns[ABSENT] = pa.nulls(count, pa.list_(pa.string()))
    for name in key:
        old = [step[3][NAMES.index(name)] if step[1] == UPDATE else None for step in steps]
        columns[BEFORE + name] = pa.array(old, pa.int32())
    moments = [datetime(2026, 1, 1, tzinfo=UTC)] * count
    columns[fact("ts")] = pa.array(moments, pa.timestamp("us", "UTC"))
    columns[fact("gtid")] = pa.array(["g"] * count)
    columns[fact("file")] = pa.array(["log.000001"] * count)
    columns[fact("pos")] = pa.array([step[0] for step in steps], pa.int64())
    columns[fact("row")] = pa.array([0] * count, pa.int32())
    order = [{"file": 1, "pos": step[0], "row": 0} for step in steps]
    columns[fact("seq")] = pa.array(order, SEQUENCE_TYPE)
    return pa.table(columns)


@st.composite
def histories(draw: st.DrawFn, *, keyed: bool) -> tuple[list[pa.Table], list[Row]]:
    """Tables of a lake, in any order, and the rows that the server has in the end."""
    key = ("id",) if keyed else ()
    start = {place: (place, 0) for place in draw(st.sets(st.integers(0, 3)))}
    now = list(start.values())
    copied = pa.Table.from_pylist([dict(zip(NAMES, row, strict=True)) for row in now], KINDS)
    tables = [LOG.copied(copied, Position("", "log.000001", 4), 0)]
    numbers = st.integers(0, 5)
    for place in range(5, 5 + draw(st.integers(0, 12))):
        kind = draw(st.sampled_from((INSERT, UPDATE, DELETE, TRUNCATED)))
        row = (draw(numbers), draw(numbers))
        if kind == TRUNCATED:
            now = []
            position = Position("", "log.000001", place)
            of = Emptying("d.t", position, None, may_be_ahead=False, rows=lambda: iter(()))
            [change] = LOG.emptied(of, 1)
            assert change.appended is not None
            tables += change.appended
            continue
        if kind != INSERT and not now:
            continue
        old = now.pop(draw(st.integers(0, len(now) - 1))) if kind != INSERT else row
        if keyed and kind != DELETE and any(row[0] == other[0] for other in now):
            now += [old] if kind == UPDATE else []
            continue
        if kind != DELETE:
            now.append(row)
        step = (place, kind, old if kind == DELETE else row, old)
        tables.append(logged_rows(changes_of([step], key or NAMES), key))
    return draw(st.permutations(tables)), now


def present(tables: Sequence[pa.Table], key: Sequence[str]) -> list[Row]:
    def scan(names: Sequence[str]) -> Iterator[pa.Table]:
        for table in tables:
            missing = [name for name in names if name not in table.column_names]
            for name in missing:
                table = table.append_column(name, pa.nulls(table.num_rows, pa.int32()))
            yield table.select(names)

    rows = [row for part in LOG.present(scan, key, NAMES) for row in part.to_pylist()]
    return sorted((row["id"], row["v"]) for row in rows)


@given(histories(keyed=True))
def test_by_key_the_newest_change_is_the_row(history: tuple[list[pa.Table], list[Row]]) -> None:
    tables, now = history
    assert present(tables, ("id",)) == sorted(now)


@given(histories(keyed=False))
def test_without_a_key_changes_are_counted(history: tuple[list[pa.Table], list[Row]]) -> None:
    tables, now = history
    assert present(tables, ()) == sorted(now)


def test_an_update_of_the_key_is_two_rows() -> None:
    steps = [(5, UPDATE, (1, 2), (1, 1)), (6, UPDATE, (3, 2), (1, 2))]
    rows = logged_rows(changes_of(steps, ("id",)), ("id",)).to_pylist()
    shown = [(row["_op"], row["id"], row["v"], row["_absent"]) for row in rows]
    assert shown == [
        ("update", 1, 2, None),
        ("update_before", 1, None, ["v"]),
        ("update", 3, 2, None),
    ]


def test_values_that_no_image_has_are_not_invented() -> None:
    changes = changes_of([(5, UPDATE, (1, 2), (1, 1))], ("id",))
    absent = pa.array([["v"]], pa.list_(pa.string()))
    changes = changes.set_column(changes.column_names.index(ABSENT), ABSENT, absent)
    with pytest.raises(UnsupportedError, match="lack columns"):
        present([logged_rows(changes, ("id",))], ("id",))
