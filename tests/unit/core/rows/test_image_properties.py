"""Row images of any columns: every value comes out at its place, whatever is absent or NULL."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from binlake.core.rows.table_sink import BothImages, CurrentRow, TableSink
from binlake.errors import BinlogError
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel
from support.logs.log_builder import ROWS, TABLE_MAP
from support.logs.table_log import table_map
from support.values.core_walk import column, frames_of, log_of, plain_of, walk, walker
from support.values.json_bytes import document

UPDATE, PARTIAL_UPDATE = 31, 39

#: Kernel with its parameters, the code that its buffer is read with, and a value's bytes.
KINDS: dict[str, tuple[tuple[Kernel, int, int], str, st.SearchStrategy[tuple[Any, bytes]]]] = {
    "tiny": ((Kernel.INT, 1, 0), "b", st.integers(-128, 127).map(lambda n: (n, struct.pack("<b", n)))),
    "int": ((Kernel.INT, 4, 0), "i", st.integers(-(1 << 31), (1 << 31) - 1).map(lambda n: (n, struct.pack("<i", n)))),
    "double": ((Kernel.DOUBLE, 0, 0), "d", st.floats(allow_nan=False).map(lambda n: (n, struct.pack("<d", n)))),
    "bytes": ((Kernel.BYTES, 2, 0), "", st.binary(max_size=20).map(lambda raw: (raw, struct.pack("<H", len(raw)) + raw))),
    "json": ((Kernel.JSON, 4, 0), "", st.lists(st.integers(0, 99), max_size=3).map(
        lambda made: (str(made).encode(), struct.pack("<I", len(document(made))) + document(made)))),
}  # fmt: skip

Values = dict[int, tuple[Any, bytes] | None]


@st.composite
def changes(draw: Any) -> tuple[list[str], list[tuple[Values, Values]]]:
    """The kinds of a table's columns, and updates: images that may lack any of them."""
    # many fixed widths in a row: unwanted ones are skipped together
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=20))
    kinds += ["tiny", "int", "double"] * draw(st.sampled_from([0, 0, 20, 45]))
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        images = []
        for _ in range(2):
            here = draw(st.sets(st.integers(0, len(kinds) - 1), min_size=1))
            images.append({i: draw(st.none() | KINDS[kinds[i]][2]) for i in sorted(here)})
        rows.append((images[0], images[1]))
    return kinds, rows


def plans_of(kinds: list[str]) -> list[ColumnPlan]:
    return [
        ColumnPlan(ColumnDefinition(i, "c", 245 if kind == "json" else 3), *KINDS[kind][0])
        for i, kind in enumerate(kinds)
    ]


def bitmap(columns: Values, width: int) -> bytes:
    return sum(1 << i for i in columns).to_bytes((width + 7) // 8, "little")


def image(values: Values, head: bytes = b"") -> bytes:
    nulls = sum(1 << k for k, value in enumerate(values.values()) if value is None)
    held = b"".join(value[1] for value in values.values() if value is not None)
    return head + nulls.to_bytes((len(values) + 7) // 8, "little") + held


def event(kinds: list[str], before: Values, after: Values, code: int) -> tuple[int, bytes]:
    width = len(kinds)
    head = (7).to_bytes(6, "little") + struct.pack("<HHB", 1, 2, width)
    # of a partial update: no value is a difference
    options = b"\0" if code == PARTIAL_UPDATE else b""
    images = image(before) + image(after, options)
    return code, head + bitmap(before, width) + bitmap(after, width) + images


def read(
    sink: TableSink, kinds: list[str], events: list[tuple[int, bytes]]
) -> list[list[list[Any]]]:
    """By side and column, the values of all rows."""
    pairs = [each for one in events for each in ((TABLE_MAP, table_map()), one)]
    found = walk(log_of(pairs), sink)
    return [
        [column(buffers, KINDS[kind][1]) for kind, buffers in zip(kinds, side.columns, strict=True)]
        for side in (found.before, found.after)
    ]


def value_of(values: Values, at: int) -> Any:
    held = values.get(at)
    return None if held is None else held[0]


@given(changes(), st.sampled_from([UPDATE, PARTIAL_UPDATE]))
@settings(max_examples=200, deadline=None)
def test_both_images(made: tuple[list[str], list[tuple[Values, Values]]], code: int) -> None:
    kinds, rows = made
    events = [event(kinds, before, after, code) for before, after in rows]
    found = read(BothImages(plans_of(kinds)), kinds, events)
    for side in (0, 1):
        for at in range(len(kinds)):
            assert found[side][at] == [value_of(row[side], at) for row in rows]


@given(changes(), st.sampled_from([UPDATE, PARTIAL_UPDATE]), st.data())
@settings(max_examples=200, deadline=None)
def test_unwanted_columns_change_nothing(
    made: tuple[list[str], list[tuple[Values, Values]]], code: int, data: st.DataObject
) -> None:
    kinds, rows = made
    wanted = data.draw(st.sets(st.integers(0, len(kinds) - 1), max_size=4))
    plans = [replace(plan, wanted=i in wanted) for i, plan in enumerate(plans_of(kinds))]
    events = [event(kinds, before, after, code) for before, after in rows]
    pairs = [each for one in events for each in ((TABLE_MAP, table_map()), one)]
    found = walk(log_of(pairs), BothImages(plans))
    for side, buffers in enumerate((found.before, found.after)):
        for at, held in enumerate(buffers.columns):
            assert (held is not None) == (at in wanted)
            if at in wanted:
                values = column(held, KINDS[kinds[at]][1])
                assert values == [value_of(row[side], at) for row in rows]


@given(changes())
@settings(max_examples=200, deadline=None)
def test_the_after_image_takes_unassigned_columns_from_the_before_image(
    made: tuple[list[str], list[tuple[Values, Values]]],
) -> None:
    kinds, rows = made
    events = [event(kinds, before, after, UPDATE) for before, after in rows]
    found = read(CurrentRow(plans_of(kinds), plans_of(kinds)), kinds, events)
    for at in range(len(kinds)):
        assert found[1][at] == [value_of({**before, **after}, at) for before, after in rows]


@given(changes(), st.sampled_from([ROWS, UPDATE, PARTIAL_UPDATE]), st.data())
@settings(max_examples=300, deadline=None)
def test_changed_images_are_rows_or_an_error(
    made: tuple[list[str], list[tuple[Values, Values]]], code: int, data: st.DataObject
) -> None:
    kinds, rows = made
    _, body = event(kinds, *rows[0], code)
    raw = bytearray(body)
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(6, len(raw) - 1))] = data.draw(st.integers(0, 255))
    log = log_of([(TABLE_MAP, table_map()), (code, bytes(raw))])
    made_walker, _ = walker(BothImages(plans_of(kinds)))
    block = frames_of(log)
    try:
        made_walker.run_groups(log, 0, plain_of(log, block), 0, len(block))
        made_walker.finish()
    except BinlogError as error:
        assert error.event_pos is not None
