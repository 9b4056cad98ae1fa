"""The changes of a table are committed in parts, also those whose images lack columns, and lead to the same rows as one commit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import IncompleteError
from binlake.mirror.apply.net import lacks_columns, net_by_key
from binlake.mirror.modes.equal_rows import EqualRows
from binlake.mirror.modes.mode import RowChanges
from binlake.mirror.tables.change import Change
from unit.mirror.apply.test_net import (
    COLUMNS,
    DELETE,
    INSERT,
    UPDATE,
    as_rows,
    changes_of,
    histories,
    lake_of,
)

Rows = dict[int, Any]
ROW_BYTES = 1000


def row_changes(changes: pa.Table, lake: Rows) -> RowChanges:
    """The changes, in tables of three rows, and the rows of the lake at this moment."""

    def tables() -> Iterator[pa.Table]:
        for first in range(0, changes.num_rows, 3):
            yield changes.slice(first, 3)

    return RowChanges(
        "db.t",
        ("id",),
        tables,
        rows=changes.num_rows,
        nbytes=changes.nbytes,
        lacking=int(lacks_columns(changes).sum()),
        may_be_ahead=False,
        rows_of=lambda keys, names: lake_of(lake)(keys, names),
        row_bytes=lambda: ROW_BYTES,
    )


def commit(change: Change, lake: Rows) -> None:
    assert change.deletes is not None
    assert change.upserts is not None
    for (key,) in as_rows(change.deletes):
        lake.pop(key, None)
    for row in as_rows(change.upserts.select(list(COLUMNS))):
        lake[row[0]] = row


def without_lacking_moves(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    is_moved = [one["op"] == UPDATE and one["old"][0] != one["row"][0] for one in steps]
    return [
        {**one, "absent": [] if moved else one["absent"]}
        for one, moved in zip(steps, is_moved, strict=True)
    ]


@given(histories(), st.booleans(), st.integers(100, 5000), st.integers(100, 5000), st.integers(0, 9))  # fmt: skip
def test_parts_lead_to_the_rows_of_one_commit(
    history: Any, with_moves: bool, most_bytes: int, bytes_after: int, killed_after: int
) -> None:
    """After some parts, but not all, the mirror is killed. It then cuts the range again, into another number of parts."""
    start, steps, end = history
    changes = changes_of(steps if with_moves else without_lacking_moves(steps), ("id",))
    lake = dict(start)
    parts = EqualRows().changes(row_changes(changes, lake), most_bytes)
    for change, _ in islice(pairwise(parts), killed_after):
        commit(change, lake)
    for change in EqualRows().changes(row_changes(changes, lake), bytes_after):
        commit(change, lake)
    assert lake == end


def updates(count: int, *, moved: bool = False) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"op": UPDATE, "row": (i + 100 * moved, "new", None), "old": (i, None, None), "absent": ["b"]}
        for i in range(count)
    ]  # fmt: skip
    return found


def test_the_rows_of_the_lake_count() -> None:
    changes = changes_of(updates(20), ("id",))
    lake = {i: (i, "old", i) for i in range(20)}
    assert changes.nbytes < 2 * ROW_BYTES
    parts = list(EqualRows().changes(row_changes(changes, lake), 5 * ROW_BYTES))
    assert len(parts) == 5
    for part in parts:
        commit(part, lake)
    assert lake == {i: (i, "new", i) for i in range(20)}


def test_updates_that_change_a_key_without_columns_are_not_cut() -> None:
    changes = changes_of(updates(20, moved=True), ("id",))
    lake = {i: (i, "old", i) for i in range(20)}
    [part] = EqualRows().changes(row_changes(changes, lake), 100)
    commit(part, lake)
    assert lake == {i + 100: (i + 100, "new", i) for i in range(20)}


def test_deletes_need_no_row_of_the_lake() -> None:
    steps: list[dict[str, Any]] = [{"op": DELETE, "row": (i, None, None), "old": None, "absent": ["a", "b"]} for i in range(20)]  # fmt: skip
    steps += [{"op": INSERT, "row": (30, "x", 1), "old": None, "absent": []}]
    of = row_changes(changes_of(steps, ("id",)), {})
    assert of.lacking == 0
    changes = pa.concat_tables(of.tables())
    net = net_by_key(
        "db.t", changes, ("id",), lambda _keys, _names: pytest.fail("no row is needed")
    )
    assert as_rows(net.upserts) == [(30, "x", 1)]
    assert net.deletes.num_rows == 20


def test_only_needed_rows_and_columns_are_read() -> None:
    steps: list[dict[str, Any]] = updates(4)
    steps += [{"op": DELETE, "row": (1, None, None), "old": None, "absent": ["a", "b"]}]
    steps += [{"op": UPDATE, "row": (2, "newer", 5), "old": (2, "", 0), "absent": []}]
    lake = lake_of({i: (i, "old", i) for i in range(4)})
    asked: list[tuple[list[int], list[str]]] = []

    def rows_of(keys: pa.Table, names: Any) -> Any:
        asked.append((keys["id"].to_pylist(), list(names)))
        found, rows = lake(keys)
        return found, rows.select(names)

    net = net_by_key("db.t", changes_of(steps, ("id",)), ("id",), rows_of)
    assert asked == [([0, 3], ["b"])]
    assert sorted(as_rows(net.upserts)) == [(0, "new", 0), (2, "newer", 5), (3, "new", 3)]


def test_a_row_that_is_missing_ends_its_part() -> None:
    changes = changes_of(updates(20), ("id",))
    lake = {i: (i, "old", i) for i in range(19)}
    parts = EqualRows().changes(row_changes(changes, lake), 5 * ROW_BYTES)
    with pytest.raises(IncompleteError, match="without its column b"):
        list(parts)
