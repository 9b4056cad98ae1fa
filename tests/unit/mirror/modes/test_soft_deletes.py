"""Soft deletes while the lake may be ahead of the log: a copy has read the table after the delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyroaring", reason="needs the extra [mirror]")

from binlake.errors import IncompleteError
from binlake.mirror.apply.change_rows import ABSENT, BEFORE, OP, fact
from binlake.mirror.modes.mode import RowChanges
from binlake.mirror.modes.soft_deletes import DELETED, SoftDeletes
from binlake.table.metadata import NAMES

INSERT, UPDATE, DELETE = range(3)
TIME = pa.timestamp("us", "UTC")
LAKE = pa.schema([("id", pa.int32()), ("v", pa.string()), (DELETED, TIME)])
#: (operation, id before an update, id, v, the columns that the image lacks)
Step = tuple[int, int | None, int, str | None, list[str]]


def applied(
    steps: Sequence[Step], lake: Sequence[tuple[int, str]], *, may_be_ahead: bool = True
) -> dict[int, tuple[str, bool]]:
    """The rows that the mode writes: v, and whether they are marked."""
    changes = pa.table(
        {
            "id": pa.array([step[2] for step in steps], pa.int32()),
            "v": pa.array([step[3] for step in steps], pa.string()),
            OP: pa.array([step[0] for step in steps], pa.uint8()),
            ABSENT: pa.array([step[4] or None for step in steps], NAMES),
            fact("ts"): pa.array([1000] * len(steps), TIME),
            BEFORE + "id": pa.array([step[1] for step in steps], pa.int32()),
        }
    )

    def rows_of(keys: pa.Table, names: Any = None) -> tuple[Any, pa.Table]:
        wanted = keys["id"].to_pylist()
        there = [row for row in lake if row[0] in wanted]
        places = {row[0]: at for at, row in enumerate(there)}
        found = np.array([places.get(key, -1) for key in wanted], np.int64)
        rows = [{"id": key, "v": value, DELETED: None} for key, value in there]
        return found, pa.Table.from_pylist(rows, LAKE).select(names or LAKE.names)

    of = RowChanges(
        "shop.t", ("id",), lambda: iter([changes]), len(steps), changes.nbytes,
        sum(bool(step[4]) for step in steps), may_be_ahead, rows_of, lambda: 10,
    )  # fmt: skip
    [change] = SoftDeletes().changes(of, 1 << 20)
    assert change.upserts is not None
    rows = change.upserts.to_pylist()
    return {row["id"]: (row["v"], row[DELETED] is not None) for row in rows}


def deleted(key: int) -> Step:
    """A delete with binlog_row_image=MINIMAL."""
    return (DELETE, None, key, None, ["v"])


def test_a_row_that_was_deleted_before_the_copy_read_it_is_not_marked() -> None:
    steps = [deleted(7), deleted(8), (INSERT, None, 9, "new", [])]
    assert applied(steps, [(8, "old")]) == {8: ("old", True), 9: ("new", False)}
    assert applied([deleted(7)], []) == {}


def test_a_row_whose_values_the_log_has_is_marked() -> None:
    steps: list[Step] = [(INSERT, None, 7, "a", []), deleted(7), (DELETE, None, 8, "b", [])]
    assert applied(steps, []) == {7: ("a", True), 8: ("b", True)}


def test_a_row_that_came_back() -> None:
    assert applied([deleted(7), (INSERT, None, 7, "b", [])], []) == {7: ("b", False)}


def test_a_row_that_was_updated_and_deleted_before_the_copy_read_it() -> None:
    assert applied([(UPDATE, 7, 7, None, ["v"]), deleted(7)], []) == {}


def test_an_old_key_that_the_copy_has_not_read_is_not_marked() -> None:
    """The new row is whole in the log."""
    moves: list[Step] = [(UPDATE, 1, 2, "a", []), (UPDATE, 3, 4, "b", [])]
    assert applied(moves, [(3, "old"), (2, "a")]) == {
        2: ("a", False),
        3: ("old", True),
        4: ("b", False),
    }


def test_an_old_key_whose_row_an_earlier_change_contains_is_marked() -> None:
    steps: list[Step] = [
        (INSERT, None, 1, "a", []),
        (UPDATE, 1, 2, "b", []),
        (UPDATE, 3, 3, "c", []),
        (UPDATE, 3, 4, "d", []),
    ]
    rows = {1: ("a", True), 2: ("b", False), 3: ("c", True), 4: ("d", False)}
    assert applied(steps, []) == rows


def test_what_the_lake_must_have() -> None:
    """Before the end of the copy, rows that the server has; after that, deleted rows, too."""
    with pytest.raises(IncompleteError, match="update of a row that the lake does not have"):
        applied([(UPDATE, 7, 7, None, ["v"])], [])
    with pytest.raises(IncompleteError, match="changed a key, and its image lacks columns"):
        applied([(UPDATE, 7, 8, None, ["v"])], [(7, "a")])
    with pytest.raises(IncompleteError, match="update of a row that the lake does not have"):
        applied([deleted(7)], [], may_be_ahead=False)
    assert applied([deleted(7)], [(7, "a")], may_be_ahead=False) == {7: ("a", True)}
