"""Walks that decode selected row changes only: the same changes as a walk over all, from their places."""

from __future__ import annotations

import array
import random
import struct
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from binlake.core.images.image import ImageBuffers
from binlake.core.rows.row_selection import RowSelection
from binlake.core.rows.table_sink import BothImages, CurrentRow, TableBuffers, TableSink
from binlake.errors import BinlogError
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel
from support.logs.log_builder import ROWS, TABLE_MAP
from support.logs.table_log import ALL, STMT_END, day, image, rows_body, table_map
from support.values.core_walk import (
    Event,
    column,
    frames_of,
    is_valid,
    log_of,
    numbers,
    plain_of,
    walker,
)

UPDATE_ROWS, DELETE_ROWS, COMPRESSED_ROWS, PARTIAL_ROWS = ROWS + 1, ROWS + 2, 169, 39
PLANS = (
    ColumnPlan(ColumnDefinition(0, "id", 3), Kernel.INT, 4),
    ColumnPlan(ColumnDefinition(1, "name", 15), Kernel.BYTES, 1),
    ColumnPlan(ColumnDefinition(2, "day", 10), Kernel.DATE),
)
DAY = day(1970, 1, 2)
IMAGES = [image((i, "name" * (i % 7) or None, DAY if i % 3 else None)) for i in range(12)]


def _inserts(*images: bytes) -> Event:
    return ROWS, rows_body(*images)


def _compressed(*images: bytes) -> Event:
    _, body = _inserts(*images)
    head = len(rows_body())
    data = body[head:]
    return COMPRESSED_ROWS, body[:head] + bytes([0x82]) + len(data).to_bytes(
        2, "big"
    ) + zlib.compress(data)


def _partial(*images: bytes) -> Event:
    """Updates whose after-images have value options, and no difference."""
    head = (7).to_bytes(6, "little") + struct.pack("<HHB", STMT_END, 2, 3) + bytes((ALL, ALL))
    return PARTIAL_ROWS, head + b"".join(one + b"\0" + one for one in images)


TRANSACTIONS: list[list[Event]] = [
    [(TABLE_MAP, table_map()), event]
    for event in (
        _inserts(*IMAGES),
        (UPDATE_ROWS, rows_body(*IMAGES[:8], bitmaps=(ALL, ALL))),
        (DELETE_ROWS, rows_body(*IMAGES[3:8])),
        _compressed(*IMAGES),
        _partial(*IMAGES[:5]),
        _inserts(IMAGES[0]),
    )
]


def _changes(found: TableBuffers) -> list[tuple[Any, ...]]:
    """The row changes, each with its facts except the order over all."""
    sides = (found.before, found.after)
    return list(
        zip(
            *(numbers(found.op, "B"), numbers(found.pos, "q"), numbers(found.end_pos, "q")),
            *(numbers(found.row, "I"), numbers(found.start, "I"), numbers(found.txn, "I")),
            *(_values(side, i, code) for side in sides for i, code in enumerate("iBi")),
            strict=True,
        )
    )


def _values(side: ImageBuffers, ordinal: int, code: str) -> list[object]:
    """The values of a column, None without an image or if the column is not wanted."""
    found = side.columns[ordinal]
    if found is None:
        return [None] * side.count
    return [
        value if is_valid(side.validity, row) else None
        for row, value in enumerate(column(found, code))
    ]


def _walk(
    data: bytes,
    make: Callable[[], TableSink],
    rows: RowSelection | None,
    limit_bytes: int = 1 << 30,
) -> list[tuple[Any, ...]]:
    made, _ = walker(make(), limit_bytes)
    block = frames_of(data)
    found: list[tuple[Any, ...]] = []
    sequence: list[int] = []
    at = 0
    while at < len(block):
        at = made.run_groups(data, 0, plain_of(data, block), at, len(block), rows)
        for _, buffers in made.finish().tables:
            found += _changes(buffers)
            sequence += numbers(buffers.seq, "q")
    assert sequence == list(range(len(found))) == list(range(made.rows))
    return found


def _selection(changes: Sequence[tuple[Any, ...]]) -> RowSelection:
    _, pos, _, row, start, *_ = zip(*changes, strict=True) if changes else [()] * 5
    return RowSelection(array.array("q", pos), array.array("i", row), array.array("I", start))


def _without_transaction(change: tuple[Any, ...]) -> tuple[Any, ...]:
    """A change without the number of its transaction among those of its batch."""
    return change[:5] + change[6:]


@pytest.mark.parametrize("make", [lambda: BothImages(PLANS), lambda: CurrentRow(PLANS)])
@pytest.mark.parametrize("limit_bytes", [1 << 30, 64])
def test_selected_changes_are_those_of_a_walk_over_all(
    make: Callable[[], TableSink], limit_bytes: int
) -> None:
    data = log_of(*TRANSACTIONS)
    every = _walk(data, make, None)
    assert len(every) == 12 + 4 + 5 + 12 + 5 + 1
    rng = random.Random(limit_bytes)
    for share in (0, 0.05, 0.3, 0.9, 1):
        for _ in range(20):
            chosen = [change for change in every if rng.random() < share]
            found = _walk(data, make, _selection(chosen), limit_bytes)
            assert list(map(_without_transaction, found)) == list(map(_without_transaction, chosen))


def test_places_outside_of_an_event_are_errors_and_never_read() -> None:
    data = log_of(*TRANSACTIONS)
    every = _walk(data, lambda: BothImages(PLANS), None)
    for change in every:
        for start in (1 << 16, (1 << 32) - 1):
            moved = (*change[:4], start, *change[5:])
            with pytest.raises(ValueError, match="outside the buffer"):
                _walk(data, lambda: BothImages(PLANS), _selection([moved]))
        for start in range(80):
            with suppress(BinlogError, ValueError):
                _walk(
                    data, lambda: CurrentRow(PLANS), _selection([(*change[:4], start, *change[5:])])
                )


def test_changes_of_events_that_the_walk_does_not_meet_are_dropped() -> None:
    data = log_of(*TRANSACTIONS)
    every = _walk(data, lambda: BothImages(PLANS), None)
    elsewhere = [(*change[:1], change[1] + 1, *change[2:]) for change in every]
    assert _walk(data, lambda: BothImages(PLANS), _selection(elsewhere)) == []


def test_the_columns_of_a_selection_have_one_length() -> None:
    with pytest.raises(ValueError, match="one length"):
        RowSelection(array.array("q", [4]), array.array("i"), array.array("I"))
