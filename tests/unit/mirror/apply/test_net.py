"""Net changes against a plain replay of the same changes, row by row."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import IncompleteError, UnsupportedError
from binlake.mirror.apply.change_rows import ABSENT, BEFORE, OP
from binlake.mirror.apply.net import (
    differs,
    moves_without_columns,
    net_by_key,
    net_of_rows,
)

INSERT, UPDATE, DELETE = range(3)
COLUMNS = ("id", "a", "b")
Row = tuple[int, str | None, int | None]


def changes_of(steps: list[dict[str, Any]], before: tuple[str, ...]) -> pa.Table:
    """Steps {op, row, old, absent} as `change_rows` has them."""
    kinds = {"id": pa.int32(), "a": pa.string(), "b": pa.int32()}
    columns: dict[str, pa.Array] = {}
    for at, name in enumerate(COLUMNS):
        values = [None if name in step["absent"] else step["row"][at] for step in steps]
        columns[name] = pa.array(values, kinds[name])
    columns[OP] = pa.array([step["op"] for step in steps], pa.uint8())
    columns[ABSENT] = pa.array([step["absent"] or None for step in steps], pa.list_(pa.string()))
    for name in before:
        at = COLUMNS.index(name)
        old = [step["old"][at] if step["op"] == UPDATE else None for step in steps]
        columns[BEFORE + name] = pa.array(old, kinds[name])
    return pa.table(columns)


def lake_of(rows: dict[int, Row]) -> Any:
    def rows_of(keys: pa.Table, names: Any = None) -> tuple[Any, pa.Table]:
        wanted = keys["id"].to_pylist()
        there = [key for key in wanted if key in rows]
        places = {key: at for at, key in enumerate(there)}
        found = np.array([places.get(key, -1) for key in wanted], np.int64)
        kept = [dict(zip(COLUMNS, rows[key], strict=True)) for key in there]
        kinds = pa.schema([("id", pa.int32()), ("a", pa.string()), ("b", pa.int32())])
        return found, pa.Table.from_pylist(kept, kinds)

    return rows_of


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[int, Row], list[dict[str, Any]], dict[int, Row]]:
    """Rows of a lake, steps that a server could make from there, and the rows that they lead to."""
    values = st.one_of(st.none(), st.integers(0, 3))
    row = st.tuples(st.one_of(st.none(), st.sampled_from("xyz")), values)
    start = {key: (key, *draw(row)) for key in draw(st.sets(st.integers(0, 7)))}
    now = dict(start)
    steps: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 25))):
        free = [key for key in range(8) if key not in now]
        if now and (not free or draw(st.booleans())):
            old = now.pop(draw(st.sampled_from(sorted(now))))
            if draw(st.booleans()):
                steps.append({"op": DELETE, "row": old, "old": None, "absent": []})
                continue
            key = draw(st.sampled_from([old[0], *free]))
            new: Row = (key, *draw(row))
            lacks = [
                name
                for name, was, is_now in zip(COLUMNS, old, new, strict=True)
                if name != "id" and was == is_now and draw(st.booleans())
            ]
            steps.append({"op": UPDATE, "row": new, "old": old, "absent": lacks})
        else:
            new = (draw(st.sampled_from(free)), *draw(row))
            steps.append({"op": INSERT, "row": new, "old": None, "absent": []})
        now[new[0]] = new
    return start, steps, now


def as_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in table.column_names) for row in table.to_pylist()]


@given(histories())
def test_net_changes_by_key_lead_to_the_same_rows(history: Any) -> None:
    start, steps, end = history
    net = net_by_key("db.t", changes_of(steps, ("id",)), ("id",), lake_of(start))
    now = dict(start)
    for (key,) in as_rows(net.deletes):
        now.pop(key, None)
    upserts = as_rows(net.upserts)
    assert len({row[0] for row in upserts}) == len(upserts)
    now.update({row[0]: row for row in upserts})
    assert now == end
    # replayed once more on what it led to, as after an older position: the same
    if not any(step["absent"] for step in steps):
        again = net_by_key("db.t", changes_of(steps, ("id",)), ("id",), lake_of(end))
        assert sorted(map(repr, as_rows(again.upserts))) == sorted(map(repr, upserts))


@given(histories())
def test_without_a_key_it_is_a_multiset(history: Any) -> None:
    start, steps, end = history
    whole = [{**step, "absent": []} for step in steps]
    net = net_of_rows("db.t", changes_of(whole, COLUMNS))
    now = Counter(start.values())
    now.subtract(as_rows(net.deletes))
    assert all(count >= 0 for count in now.values())
    now.update(as_rows(net.upserts))
    assert +now == Counter(end.values())
    assert not set(as_rows(net.deletes)) & set(as_rows(net.upserts))


def test_a_swap_of_keys() -> None:
    steps = [
        {"op": UPDATE, "row": (9, "x", 1), "old": (1, "x", 1), "absent": []},
        {"op": UPDATE, "row": (1, "y", 2), "old": (2, "y", 2), "absent": []},
        {"op": UPDATE, "row": (2, "x", 1), "old": (9, "x", 1), "absent": []},
    ]
    net = net_by_key("db.t", changes_of(steps, ("id",)), ("id",), lake_of({}))
    assert sorted(as_rows(net.upserts)) == [(1, "y", 2), (2, "x", 1)]
    assert as_rows(net.deletes) == [(9,)]


def test_rows_that_are_nowhere_are_an_error() -> None:
    update = {"op": UPDATE, "row": (1, "x", 1), "old": (1, "x", 1), "absent": ["b"]}
    with pytest.raises(IncompleteError, match="update of a row that the lake does not have"):
        net_by_key("db.t", changes_of([update], ("id",)), ("id",), lake_of({}))
    insert = {"op": INSERT, "row": (1, "x", 1), "old": None, "absent": ["b"]}
    with pytest.raises(UnsupportedError, match="inserts without the columns b"):
        net_by_key("db.t", changes_of([insert], ("id",)), ("id",), lake_of({}))
    with pytest.raises(UnsupportedError, match="no key"):
        net_of_rows("db.t", changes_of([update], COLUMNS))


@pytest.mark.parametrize(
    ("old", "new", "absent", "moves"),
    [(1, 2, ["a"], True), (1, 1, ["a"], False), (1, 2, [], False)],
)
def test_moves_without_columns(old: int, new: int, absent: list[str], moves: bool) -> None:
    step = {"op": UPDATE, "row": (new, "x", 1), "old": (old, "x", 1), "absent": absent}
    other = {"op": INSERT, "row": (7, "x", 1), "old": None, "absent": []}
    assert moves_without_columns(changes_of([other, step], ("id",)), ("id",)) is moves


KEY_CHANGES: list[tuple[pa.DataType, Any, Any]] = [
    (pa.float64(), -0.0, 0.0),  # equal, but other bytes: another row of the lake
    (pa.list_(pa.string()), ["a"], ["a", "b"]),
    (pa.dictionary(pa.int32(), pa.string()), "new", "paid"),
    (pa.string(), "a", "A"),
]


@pytest.mark.parametrize(("kind", "old", "new"), KEY_CHANGES)
def test_values_that_differ(kind: pa.DataType, old: Any, new: Any) -> None:
    one, other = (
        pa.chunked_array([pa.array(values, kind)])
        for values in ([old, new, None, None, old], [old, old, None, new, new])
    )
    assert differs(one, other).tolist() == [False, True, True, True, True]


@pytest.mark.parametrize(("kind", "old", "new"), KEY_CHANGES)
def test_a_key_that_changes_is_gone(kind: pa.DataType, old: Any, new: Any) -> None:
    changes = pa.table(
        {
            "k": pa.array([new, new], kind),
            OP: pa.array([UPDATE, INSERT], pa.uint8()),
            ABSENT: pa.nulls(2, pa.list_(pa.string())),
            BEFORE + "k": pa.array([old, None], kind),
        }
    )
    net = net_by_key(
        "t", changes, ("k",), lambda _keys, _names: pytest.fail("no image lacks columns")
    )
    assert (str(net.upserts["k"].to_pylist()), str(net.deletes["k"].to_pylist())) == (
        str([new]),
        str([old]),
    )
    assert [keys and len(keys) for keys in (net.upsert_keys, net.delete_keys)] == [1, 1]
