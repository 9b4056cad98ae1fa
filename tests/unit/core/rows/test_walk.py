"""The walk over frames: transactions, table ids, presence, resuming, limits, hostile bytes.

Long: every rule of the walk has its small log here.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from binlake.core.rows.image import ImageBuffers
from binlake.core.rows.table_sink import (
    DELETE,
    INSERT,
    UPDATE,
    BothImages,
    CurrentRow,
    TableSink,
    unwanted,
)
from binlake.core.rows.walk import RowWalker, WalkedRows
from binlake.errors import (
    BinlogError,
    MalformedError,
    MissingContextError,
    TruncatedError,
)
from binlake.values.frame import EventFormat
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel
from support.logs.log_builder import (
    GTID,
    MARIADB_GTID,
    QUERY,
    ROWS,
    TABLE_MAP,
    XID,
    LogBuilder,
    query_body,
)
from support.logs.stream_log import SID, gtid_body, mariadb_gtid_body
from support.logs.table_log import ALL, STMT_END, day, image, rows_body, table_map
from support.values.core_walk import (
    FORMAT_1,
    Event,
    column,
    frames_of,
    is_valid,
    log_of,
    numbers,
    plain_of,
    walk,
    walker,
)

UPDATE_ROWS, DELETE_ROWS = ROWS + 1, ROWS + 2

PLANS = (
    ColumnPlan(ColumnDefinition(0, "id", 3), Kernel.INT, 4),
    ColumnPlan(ColumnDefinition(1, "name", 15), Kernel.BYTES, 1),
    ColumnPlan(ColumnDefinition(2, "day", 10), Kernel.DATE),
)
DAY = day(1970, 1, 2)  # decodes to 1


def rows(side: ImageBuffers) -> list[tuple[object, ...] | None]:
    """The images of one side; None where there is none."""
    if side.null_count == side.count:
        assert side.columns == (None,) * len(side.columns)  # nothing to hand over
        return [None] * side.count
    columns = [column(c, code) for c, code in zip(side.columns, "iBi", strict=True)]
    found: list[tuple[object, ...] | None] = []
    for i in range(side.count):
        there = is_valid(side.validity, i)
        found.append(tuple(values[i] for values in columns) if there else None)
    assert found.count(None) == side.null_count
    return found


CHANGES = [
    (TABLE_MAP, table_map()),
    (ROWS, rows_body(image((1, "a", DAY)), image((2, None, None)))),
    (TABLE_MAP, table_map()),
    (
        UPDATE_ROWS,
        rows_body(image((1, "a", DAY)), image((1, "b", DAY)), bitmaps=(ALL, ALL)),
    ),
    (TABLE_MAP, table_map()),
    (DELETE_ROWS, rows_body(image((2, None, None)))),
]


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
def test_the_current_row_carries_over_what_was_not_assigned(width: int, before: bool) -> None:
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


# -- transactions ------------------------------------------------------------------------------


def transactions(found: WalkedRows) -> list[tuple[object, ...]]:
    t = found.transactions
    return list(
        zip(
            column(t.gtid, "B"), column(t.commit_us, "q"), column(t.start, "q"),
            column(t.thread_id, "q"), strict=True,
        )
    )  # fmt: skip


def walk_all(log: LogBuilder, sink: TableSink | None = None) -> WalkedRows:
    made, _ = walker(sink or BothImages(PLANS))
    data = log.bytes()
    block = frames_of(data)
    made.run_groups(data, 0, plain_of(data, block), 0, len(block))
    return made.finish()


def test_facts_of_transactions() -> None:
    log = LogBuilder()
    starts = []
    for first in ((GTID, gtid_body(5, 1_234_567_890_123_456)), (34, gtid_body(0, 77)), None):
        starts.append(len(log.data))
        if first is not None:
            log.add(*first)
        log.add(QUERY, query_body(b"BEGIN"))
        for type_code, body in CHANGES:
            log.add(type_code, body)
        log.add(XID, bytes(8))
    starts.append(len(log.data))
    log.add(MARIADB_GTID, mariadb_gtid_body(9, domain=3))
    log.add(*CHANGES[0])
    log.add(*CHANGES[1])
    log.add(QUERY, query_body(b"COMMIT"))
    in_header = 1_700_000_000_000_000
    found = walk_all(log)
    assert transactions(found) == [
        (f"{SID}:5".encode(), 1_234_567_890_123_456, starts[0], 7),
        (None, 77, starts[1], 7),
        (None, in_header, starts[2], 7),
        (b"3-1-9", in_header, starts[3], 7),  # of its COMMIT
    ]
    assert numbers(found.tables[0][1].txn, "I") == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 2


def test_transactions_without_wanted_rows_leave_no_trace() -> None:
    log = LogBuilder()
    log.data += log_of(CHANGES)[len(log.data) :]
    found = walk_all(log, BothImages(PLANS, operations=()))
    assert (found.transactions.count, found.tables) == (0, ())


def test_a_transaction_that_others_describe() -> None:
    data = log_of(CHANGES)
    block = frames_of(data)
    sink = BothImages(PLANS)
    made, _ = walker(sink)
    with pytest.raises(ValueError, match="begin_transaction"):
        made.run_rows(data, 0, block, 0, len(block))
    made.begin_transaction(b"some-gtid", 42, None, 4711)
    assert made.run_rows(data, 0, block, 2, 4) == 4
    assert made.run_rows(data, 0, block, 4, len(block)) == len(block)
    found = made.finish()
    assert transactions(found) == [(b"some-gtid", 42, 4711, None)]
    assert found.tables[0][1].count == 4


def test_changes_of_a_payload_have_its_place_and_are_numbered_through() -> None:
    data = log_of(CHANGES)
    block = frames_of(data)
    sink = BothImages(PLANS, operations=(INSERT, DELETE))
    made, _ = walker(sink)
    made.begin_transaction(None, 0, 1, 0)
    made.enter_payload(1000, 2000)
    made.run_rows(data, 0, block, 0, 4)
    made.run_rows(data, 0, block, 4, len(block))
    made.leave_payload()
    ((_, found),) = made.finish().tables
    assert numbers(found.pos, "q") == [1000] * 3
    assert numbers(found.end_pos, "q") == [2000] * 3
    assert numbers(found.row, "I") == [0, 1, 3]  # the update that nobody wants is number 2


# -- table ids ---------------------------------------------------------------------------------


def test_a_definition_is_asked_for_once() -> None:
    other = table_map("u", 8)
    data = log_of(
        CHANGES,
        [(TABLE_MAP, table_map(table_id=9)), (ROWS, rows_body(image((1, "a", DAY)), table_id=9))],
        [(TABLE_MAP, other), (ROWS, rows_body(image((1, "a", DAY)), table_id=8))],
        CHANGES,
    )
    made, asked = walker(BothImages(PLANS))
    block = frames_of(data)
    made.run_groups(data, 0, plain_of(data, block), 0, len(block))
    assert asked == [table_map(), other]


def test_an_id_that_means_another_table_now() -> None:
    sinks = {b"t": BothImages(PLANS), b"u": BothImages(PLANS)}

    def resolve(body: bytes, _format: EventFormat) -> TableSink:
        return sinks[b"t" if b"\x01t\0" in body else b"u"]

    made = RowWalker(resolve)
    made.set_format(FORMAT_1)
    row = (ROWS, rows_body(image((1, "a", DAY))))
    data = log_of(*[[(TABLE_MAP, table_map(name)), row] for name in "tutuu"])
    block = frames_of(data)
    made.run_groups(data, 0, plain_of(data, block), 0, len(block))
    found = {id(sink): buffers.count for sink, buffers in made.finish().tables}
    assert found == {id(sinks[b"t"]): 2, id(sinks[b"u"]): 3}


def test_ids_that_share_a_slot() -> None:
    ids = (7, 7 + 64, 7 + 128)
    maps = [(TABLE_MAP, table_map(f"t{i}", i)) for i in ids]
    last = ids[-1]
    changes = [
        (ROWS, rows_body(image((i, "a", DAY)), table_id=i, flags=STMT_END if i == last else 0))
        for i in ids
    ]
    found = walk(
        log_of([*maps, *changes], [*maps, *reversed(changes[:2]), changes[2]]), BothImages(PLANS)
    )
    assert column(found.after.columns[0], "i") == [7, 71, 135, 71, 7, 135]


@pytest.mark.parametrize(
    "events",
    [
        [CHANGES[1]],  # no table map
        [CHANGES[0], CHANGES[1], CHANGES[1]],  # the statement has ended
        [(TABLE_MAP, table_map(table_id=9)), CHANGES[1]],  # another id
    ],
)
def test_rows_without_a_table_map(events: list[Event]) -> None:
    made, _ = walker(BothImages(PLANS))
    data = log_of(CHANGES, events)
    block = frames_of(data)
    with pytest.raises(MissingContextError, match="table id 7") as caught:
        made.run_groups(data, 0, plain_of(data, block), 0, len(block))
    rows_frames = [f for f in map(block.frame, range(len(block))) if f.type_code == ROWS]
    assert caught.value.event_pos == rows_frames[-1].offset
    assert caught.value.event_type == "WRITE_ROWS_EVENT"


def test_a_table_map_does_not_outlive_its_transaction() -> None:
    without_end = (ROWS, rows_body(image((1, "a", DAY)), flags=0))
    made, _ = walker(BothImages(PLANS))
    data = log_of([CHANGES[0], without_end], [without_end])
    block = frames_of(data)
    with pytest.raises(MissingContextError):
        made.run_groups(data, 0, plain_of(data, block), 0, len(block))


def test_table_ids_are_forgotten_with_their_format() -> None:
    made, asked = walker(BothImages(PLANS))
    data = log_of([CHANGES[0], (ROWS, rows_body(image((1, "a", DAY)), flags=0)), CHANGES[1]])
    block = frames_of(data)
    made.begin_transaction(None, 0, None, 0)
    made.run_rows(data, 0, block, 0, 4)
    made.set_format(EventFormat(4, "8.4.0", "mysql", (8, 4, 0), 19, bytes(42), 1, 4))
    with pytest.raises(MissingContextError):
        made.run_rows(data, 0, block, 4, len(block))
    assert len(asked) == 1


def test_four_byte_table_ids() -> None:
    fmt = EventFormat(4, "5.1.4", "mysql", (5, 1, 4), 19, b"\x06" * 42, 1, 4)
    made, _ = walker(BothImages(PLANS), fmt=fmt)
    map_body, rows_data = table_map(), rows_body(image((5, "a", DAY)))
    version_1 = rows_data[:4] + rows_data[6:8] + rows_data[10:]
    data = log_of([(TABLE_MAP, map_body[:4] + map_body[6:]), (23, version_1)])
    block = frames_of(data)
    made.run_groups(data, 0, plain_of(data, block), 0, len(block))
    assert column(made.finish().tables[0][1].after.columns[0], "i") == [5]


@pytest.mark.parametrize("table_id", [0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF])
def test_the_event_that_only_ends_a_statement(table_id: int) -> None:
    dummy = table_id.to_bytes(6, "little") + struct.pack("<HH", STMT_END, 2) + b"\0"
    without_end = (ROWS, rows_body(image((1, "a", DAY)), flags=0))
    found = walk(log_of([CHANGES[0], without_end, (ROWS, dummy)]), BothImages(PLANS))
    assert found.count == 1
    with pytest.raises(MissingContextError):
        walk(log_of([CHANGES[0], without_end, (ROWS, dummy), without_end]), BothImages(PLANS))


def test_tables_and_operations_that_nobody_wants() -> None:
    data = log_of(CHANGES)
    block = frames_of(data)
    sizes = [f.length - 23 for f in map(block.frame, range(len(block))) if 30 <= f.type_code <= 32]
    made, _ = walker(None)
    made.run_groups(data, 0, plain_of(data, block), 0, len(block))
    assert (made.decoded_bytes, made.passed_bytes, made.rows) == (0, sum(sizes), 0)
    sink = BothImages(PLANS, operations=(UPDATE,))
    made, _ = walker(sink)
    made.run_groups(data, 0, plain_of(data, block), 0, len(block))
    assert (made.decoded_bytes, made.passed_bytes) == (sizes[1], sizes[0] + sizes[2])
    assert (made.rows, sink.taken(), sink.taken()) == (1, (0, 1, 0), (0, 0, 0))


# -- limits and resuming -----------------------------------------------------------------------


def many(count: int) -> list[Event]:
    """One transaction of so many statements of one row."""
    events: list[Event] = []
    for i in range(count):
        events += [CHANGES[0], (ROWS, rows_body(image((i, "x" * 100, DAY))))]
    return events


def test_a_huge_transaction_comes_in_pieces() -> None:
    log = LogBuilder()
    log.add(GTID, gtid_body(1, 55))
    log.data += log_of(many(3000))[len(LogBuilder().data) :]
    data = log.bytes()
    block = frames_of(data)
    made, asked = walker(BothImages(PLANS), limit_bytes=20_000)
    found, at, flushes = [], 0, 0
    while at < len(block):
        at = made.run_groups(data, 0, plain_of(data, block), at, len(block))
        assert made.is_full or at == len(block)
        assert made.held_bytes < 25_000
        walked = made.finish()
        assert transactions(walked) == [(f"{SID}:1".encode(), 55, log.offsets[1], 7)]
        for _, buffers in walked.tables:
            assert numbers(buffers.txn, "I") == [0] * buffers.count
            found += list(
                zip(numbers(buffers.seq, "q"), column(buffers.after.columns[0], "i"), strict=True)
            )
        flushes += 1
    assert found == [(i, i) for i in range(3000)]
    assert flushes > 10
    assert asked == [table_map()]


def test_a_minimal_image_of_a_wide_table_counts_as_wide() -> None:
    plans = [ColumnPlan(ColumnDefinition(i, "c", 8), Kernel.INT, 8) for i in range(200)]
    head = (7).to_bytes(6, "little") + struct.pack("<HHB", 0, 2, 200) + b"\x01" + bytes(24)
    events = [CHANGES[0], *[(ROWS, head + b"\0" + bytes(8)) for _ in range(500)]]
    data = log_of(events)
    block = frames_of(data)
    made, _ = walker(BothImages(plans), limit_bytes=100_000)
    at = made.run_groups(data, 0, plain_of(data, block), 0, len(block))
    assert 0 < at < 60


@pytest.mark.parametrize("present", [200, 1])
def test_the_text_around_values_counts_as_held_where_an_image_has_the_column(present: int) -> None:
    """A NULL is one bit of the log, and a line of text."""
    plans = [ColumnPlan(ColumnDefinition(i, "c", 1), Kernel.INT, 1) for i in range(200)]
    bitmap = ((1 << present) - 1).to_bytes(25, "little")
    head = (7).to_bytes(6, "little") + struct.pack("<HHB", STMT_END, 2, 200) + bitmap
    data = log_of([CHANGES[0], (ROWS, head + b"\xff" * ((present + 7) // 8) * 500)])
    block = frames_of(data)
    made, _ = walker(BothImages(plans, texts=[100] * 200), limit_bytes=1 << 20)
    rows = []
    at = 0
    while at < len(block):
        at = made.run_groups(data, 0, plain_of(data, block), at, len(block))
        rows += [buffers.count for _, buffers in made.finish().tables]
    assert sum(rows) == 500
    if present == 200:  # 20 kB of text a row
        assert max(rows) < 70
    else:
        assert rows == [500]


@pytest.mark.parametrize("code", [ROWS, 169])
def test_a_huge_event_comes_in_pieces(code: int) -> None:
    """Each row takes 3 bytes of the event, and 1,600 of memory."""
    plans = [ColumnPlan(ColumnDefinition(i, "c", 8), Kernel.INT, 8) for i in range(200)]
    plans[0] = ColumnPlan(ColumnDefinition(0, "c", 2), Kernel.INT, 2)
    head = (7).to_bytes(6, "little") + struct.pack("<HHB", STMT_END, 2, 200) + b"\x01" + bytes(24)
    images = b"".join(b"\0" + struct.pack("<h", i) for i in range(5000))
    if code == 169:
        images = bytes([0x82]) + len(images).to_bytes(2, "big") + zlib.compress(images)
    data = log_of([CHANGES[0], (code, head + images)], [CHANGES[0], CHANGES[1]])
    block = frames_of(data)
    made, _ = walker(BothImages(plans), limit_bytes=100_000)
    values: list[object] = []
    ordinals: list[int] = []
    at, flushes = 0, 0
    while at < 4:
        at = made.run_groups(data, 0, plain_of(data, block), at, 4)
        assert made.held_bytes < 120_000
        walked = made.finish()
        for _, buffers in walked.tables:
            assert walked.transactions.count == 1
            values += column(buffers.after.columns[0], "h")
            ordinals += numbers(buffers.row, "I")
            assert set(numbers(buffers.pos, "q")) == {block.frame(3).offset}
        flushes += 1
    assert values == ordinals == list(range(5000))
    assert flushes > 50
    assert made.decoded_bytes == block.frame(3).length - 23


def test_held_bytes_are_those_of_the_buffers() -> None:
    plans = (
        *PLANS,
        ColumnPlan(ColumnDefinition(3, "b", 254), Kernel.BYTES, 1, 200),
        ColumnPlan(ColumnDefinition(4, "n", 6), Kernel.NULL),
    )
    head = (7).to_bytes(6, "little") + struct.pack("<HHB", STMT_END, 2, 5) + b"\x1f\x1f"
    row = b"\x12" + struct.pack("<I", 5) + DAY + b"\x01x"
    data = log_of([CHANGES[0], (UPDATE_ROWS, head + row * 100)])
    block = frames_of(data)
    made, _ = walker(BothImages(plans), limit_bytes=16)
    at = made.run_groups(data, 0, plain_of(data, block), 0, len(block))
    held = made.held_bytes
    walked = made.finish()
    ((_, found),) = walked.tables
    t = walked.transactions
    buffers: list[memoryview | None] = [
        found.op,
        found.pos,
        found.end_pos,
        found.row,
        found.txn,
        found.seq,
    ]
    buffers += [found.server_id, found.start]
    buffers += [found.before.validity, found.after.validity]
    for c in (
        *found.before.columns,
        *found.after.columns,
        t.gtid,
        t.commit_us,
        t.start,
        t.thread_id,
    ):
        assert c is not None
        buffers += [c.validity, c.offsets, c.data]
    presence = sum(
        8 + len(bitmap) for side in (found.before, found.after) for _, bitmap in side.presence
    )
    assert held == sum(len(buffer) for buffer in buffers if buffer is not None) + presence
    assert at < len(block)


# -- compressed, partial, hostile --------------------------------------------------------------


@pytest.mark.parametrize(
    ("plain", "packed"), [(23, 166), (24, 167), (25, 168), (30, 169), (31, 170), (32, 171)]
)
def test_compressed_rows(plain: int, packed: int) -> None:
    update = plain in (24, 31)
    images = [image((i, "a" * 50, DAY)) for i in range(6)]
    body = rows_body(*images, bitmaps=(ALL, ALL) if update else (ALL,))
    if plain < 30:
        body = body[:8] + body[10:]
    head = len(body) - sum(map(len, images))
    data = body[head:]
    compressed = body[:head] + bytes([0x82]) + len(data).to_bytes(2, "big") + zlib.compress(data)
    expected = walk(log_of([CHANGES[0], (plain, body)]), BothImages(PLANS))
    found = walk(log_of([CHANGES[0], (packed, compressed)]), BothImages(PLANS))
    assert rows(found.before) == rows(expected.before)
    assert rows(found.after) == rows(expected.after)
    for cut in range(1, len(compressed)):
        with pytest.raises(BinlogError):
            walk(log_of([CHANGES[0], (packed, compressed[:cut])]), BothImages(PLANS))


def test_a_table_of_another_width() -> None:
    with pytest.raises(MalformedError, match="3 columns, their table map 2"):
        walk(log_of(CHANGES), BothImages(PLANS[:2]))


def outcome(body: bytes, make: Callable[[], TableSink]) -> str:
    """What a walk over an insert of such a body gives: rows, or a BinlogError, nothing else."""
    try:
        found = walk(log_of([CHANGES[0], (ROWS, body)]), make())
    except BinlogError as error:
        assert error.event_pos is not None
        return type(error).__name__
    assert found.count == found.after.count > 0
    return "rows"


def test_every_cut_of_a_rows_event() -> None:
    whole = rows_body(image((1, "abcdefgh", DAY)), image((2, None, None)))
    head = len(rows_body())
    ends = {len(whole), head + len(image((1, "abcdefgh", DAY)))}
    for cut in range(len(whole) + 1):
        result = outcome(whole[:cut], lambda: BothImages(PLANS))
        if cut in ends:
            assert result == "rows"
        else:
            assert result in ("TruncatedError", "MissingContextError"), cut


def test_any_mutation_of_rows_gives_rows_or_a_binlog_error() -> None:
    rng = random.Random(1)
    plans = (
        *PLANS,
        ColumnPlan(ColumnDefinition(3, "n", 246), Kernel.DECIMAL, 20, 5),
        ColumnPlan(ColumnDefinition(4, "j", 245), Kernel.JSON, 4),
        ColumnPlan(ColumnDefinition(5, "t", 18), Kernel.DATETIME2_TEXT, 3),
    )
    document = bytes.fromhex("0001000f000b0001000c0c006b026869")  # {"k": "hi"}
    row = b"\0" + struct.pack("<I", 5) + b"\x03abc" + DAY + b"\x80" + bytes(9)
    row += struct.pack("<I", len(document)) + document + bytes.fromhex("99b2460000") + b"\x00\x0a"
    head = (7).to_bytes(6, "little") + struct.pack("<HHB", STMT_END, 2, 6) + b"\x3f"
    assert outcome(head + row * 2, lambda: BothImages(plans)) == "rows"
    seen = set()
    for _ in range(3000):
        body = bytearray(head + row * rng.randrange(1, 4))
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(body))
            match rng.randrange(3):
                case 0:
                    body[at] = rng.randrange(256)
                case 1:
                    del body[at : at + rng.randrange(1, 5)]
                case _:
                    body[at:at] = rng.randbytes(rng.randrange(1, 5))
        seen.add(outcome(bytes(body), lambda: BothImages(plans)))
    assert seen >= {"rows", "TruncatedError", "MalformedError", "MissingContextError"}


def test_any_mutation_of_a_table_map_reaches_only_resolve() -> None:
    rng = random.Random(2)
    for _ in range(300):
        body = bytearray(table_map())
        body[rng.randrange(len(body))] = rng.randrange(256)
        body = body[: rng.randrange(len(body) + 1)]
        made, asked = walker(BothImages(PLANS))
        data = log_of([(TABLE_MAP, bytes(body)), CHANGES[1]])
        block = frames_of(data)
        try:
            made.run_groups(data, 0, plain_of(data, block), 0, len(block))
        except (TruncatedError, MissingContextError):
            continue
        assert asked == [bytes(body)]


def test_an_event_without_a_body() -> None:
    raw = LogBuilder(alg=None)
    raw.add(ROWS, b"")
    data = raw.bytes()
    block = frames_of(data)
    made, _ = walker(None)  # whose format says that four bytes are a checksum
    with pytest.raises(TruncatedError, match="no body"):
        made.run_groups(data, 0, plain_of(data, block), 1, 2)


def test_frames_that_are_not_there() -> None:
    made, _ = walker(None)
    data = log_of(CHANGES)
    block = frames_of(data)
    for first, last in ((-1, 2), (3, 2), (0, len(block) + 1)):
        with pytest.raises(IndexError):
            made.run_groups(data, 0, plain_of(data, block), first, last)
    with pytest.raises(ValueError, match="outside the buffer"):
        made.run_groups(data[:100], 0, plain_of(data, block), 0, len(block))
