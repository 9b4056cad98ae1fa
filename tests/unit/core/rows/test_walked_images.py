"""The images of rows that the walk returns: both images, the current row, absent columns, positions."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest

from binlake.core.rows.table_sink import DELETE, INSERT, UPDATE, BothImages, CurrentRow, unwanted
from binlake.errors import MalformedError, TruncatedError
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel
from support.logs.log_builder import ROWS
from support.logs.table_log import STMT_END, image, rows_body
from support.values.core_walk import Event, column, frames_of, log_of, numbers, walk
from support.values.walked_rows import CHANGES, DAY, PLANS, UPDATE_ROWS, rows


def test_both_images() -> None:
    found = walk(log_of(CHANGES), BothImages(PLANS))
    assert found.op.tolist() == [INSERT, INSERT, UPDATE, DELETE]
    assert rows(found.before) == [None, None, (1, b"a", 1), (2, None, None)]
    assert rows(found.after) == [(1, b"a", 1), (2, None, None), (1, b"b", 1), None]
    assert found.after.presence == ((0, b"\x07"),)


def test_current_row() -> None:
    found = walk(log_of(CHANGES), CurrentRow(PLANS))
    assert rows(found.after) == [(1, b"a", 1), (2, None, None), (1, b"b", 1), (2, None, None)]
    assert rows(found.before) == [None, None, (1, b"a", 1), None]


def test_current_row_without_before_images() -> None:
    found = walk(log_of(CHANGES), CurrentRow(PLANS, unwanted(PLANS)))
    assert found.before.columns == (None, None, None)
    assert rows(found.after)[2] == (1, b"b", 1)


def test_wanted_columns_only() -> None:
    plans = (*unwanted(PLANS[:1]), PLANS[1], *unwanted(PLANS[2:]))
    found = walk(log_of(CHANGES), BothImages(plans))
    assert [c is None for c in found.after.columns] == [True, False, True]
    assert column(found.after.columns[1], "B")[:3] == [b"a", None, b"b"]


def test_where_each_change_stands() -> None:
    data = log_of(CHANGES, CHANGES)
    block = frames_of(data)
    places = [
        (f.offset, f.end) for f in map(block.frame, range(len(block))) if 30 <= f.type_code <= 32
    ]
    found = walk(data, BothImages(PLANS))
    events = [0, 0, 1, 2, 3, 3, 4, 5]
    assert numbers(found.pos, "q") == [places[e][0] for e in events]
    assert numbers(found.end_pos, "q") == [places[e][1] for e in events]
    assert numbers(found.row, "I") == [0, 1, 0, 0] * 2
    assert numbers(found.seq, "q") == list(range(8))
    assert numbers(found.txn, "I") == [0] * 4 + [1] * 4
    assert numbers(found.server_id, "I") == [1] * 8


def test_columns_that_the_image_lacks() -> None:
    minimal = (
        UPDATE_ROWS,
        rows_body(
            image((1, None, None), 0b001), image((None, "b", None), 0b010), bitmaps=(0b001, 0b010)
        ),
    )
    whole = (ROWS, rows_body(image((7, "x", DAY)), bitmaps=(0xFF,)))  # spare bits are set
    data = log_of([CHANGES[0], whole, CHANGES[0], minimal, CHANGES[0], minimal, CHANGES[0], whole])
    found = walk(data, BothImages(PLANS))
    assert rows(found.after) == [
        (7, b"x", 1), (None, b"b", None), (None, b"b", None), (7, b"x", 1),
    ]  # fmt: skip
    assert rows(found.before) == [None, (1, None, None), (1, None, None), None]
    assert found.after.presence == ((0, b"\x07"), (1, b"\x02"), (3, b"\x07"))
    assert found.before.presence == ((1, b"\x01"),)


def _partial_image(values: dict[int, int | None]) -> bytes:
    nulls = sum(1 << k for k, value in enumerate(values.values()) if value is None)
    held = bytes(value for value in values.values() if value is not None)
    return nulls.to_bytes((len(values) + 7) // 8, "little") + held


@pytest.mark.parametrize("width", [1, 8, 9, 64, 65, 200])
@pytest.mark.parametrize("before", [True, False])
def test_the_current_row_keeps_unassigned_columns(width: int, before: bool) -> None:
    """Updates of any partial images, two rows each, between whole inserts."""
    pick = random.Random(width)
    plans = [ColumnPlan(ColumnDefinition(i, "c", 1), Kernel.INT, 1) for i in range(width)]
    wanted = [pick.random() < 0.8 for _ in plans]
    plans = [replace(plan, wanted=keep) for plan, keep in zip(plans, wanted, strict=True)]
    size = (width + 7) // 8
    head = (7).to_bytes(6, "little") + struct.pack("<HHB", STMT_END, 2, width)
    events: list[Event] = []
    expected: list[tuple[dict[int, int | None], int]] = []

    def some(columns: list[int]) -> dict[int, int | None]:
        return {i: pick.choice((None, pick.randrange(100))) for i in columns}

    for _ in range(20):
        whole = some(list(range(width)))
        events += [CHANGES[0], (ROWS, head + b"\xff" * size + _partial_image(whole))]
        expected.append((whole, (1 << width) - 1))
        had, has = ([i for i in range(width) if pick.random() < 0.4] for _ in range(2))
        bitmaps = [sum(1 << i for i in columns) for columns in (had, has)]
        images = [(some(had), some(has)) for _ in range(2)]
        if not had and not has:
            images = images[:1]  # rows without columns take no bytes
        body = head + b"".join(bits.to_bytes(size, "little") for bits in bitmaps)
        for old, new in images:
            body += _partial_image(old) + _partial_image(new)
            expected.append(({**old, **new}, bitmaps[0] | bitmaps[1]))
        events += [CHANGES[0], (UPDATE_ROWS, body)]
    sink = CurrentRow(plans, plans if before else unwanted(plans))
    found = walk(log_of(events), sink).after
    for i, buffers in enumerate(found.columns):
        assert (buffers is not None) == wanted[i]
        if buffers is not None:
            assert column(buffers, "b") == [row.get(i) for row, _ in expected], i
    told = [bits.to_bytes(size, "little") for _, bits in expected]
    runs = dict(found.presence)
    assert [runs.setdefault(i, runs.get(i - 1, b"")) for i in range(len(told))] == told


def test_a_before_image_that_is_cut_off_is_an_error_while_it_is_carried_over() -> None:
    whole = rows_body(image((1, "abc", None), 0b011), image((2, None, None), 0b001), bitmaps=(3, 1))
    walk(log_of([CHANGES[0], (UPDATE_ROWS, whole)]), CurrentRow(PLANS))
    for cut in range(1, 12):
        with pytest.raises((TruncatedError, MalformedError)):
            walk(log_of([CHANGES[0], (UPDATE_ROWS, whole[:-cut])]), CurrentRow(PLANS))


def test_an_insert_without_any_column_is_one_row() -> None:
    found = walk(log_of([CHANGES[0], (ROWS, rows_body(bitmaps=(0,)))]), BothImages(PLANS))
    assert rows(found.after) == [(None, None, None)]


def test_rows_without_columns_cannot_have_bytes() -> None:
    data = log_of([CHANGES[0], (ROWS, rows_body(b"\0", bitmaps=(0,)))])
    with pytest.raises(MalformedError, match="without columns"):
        walk(data, BothImages(PLANS))


def test_many_columns() -> None:
    for width in (1, 8, 9, 16, 17, 64, 65, 200):
        plans = [ColumnPlan(ColumnDefinition(i, "c", 1), Kernel.INT, 1) for i in range(width)]
        size = (width + 7) // 8
        nulls = int.from_bytes(random.Random(width).randbytes(size), "little") & ((1 << width) - 1)
        values = bytes(i % 100 for i in range(width) if not nulls >> i & 1)
        row = nulls.to_bytes(size, "little") + values
        head = (7).to_bytes(6, "little") + struct.pack("<HHB", STMT_END, 2, width) + b"\xff" * size
        found = walk(log_of([CHANGES[0], (ROWS, head + row * 3)]), BothImages(plans))
        for i, buffers in enumerate(found.after.columns):
            assert column(buffers, "b") == [None if nulls >> i & 1 else i % 100] * 3
