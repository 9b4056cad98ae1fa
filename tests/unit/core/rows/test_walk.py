"""The walk over frames: transactions, table ids, presence, resuming, limits."""

from __future__ import annotations

import struct
import zlib

import pytest

from binlake.core.rows.table_sink import DELETE, INSERT, UPDATE, BothImages, TableSink
from binlake.core.rows.walk import RowWalker
from binlake.errors import MissingContextError
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
from support.logs.table_log import STMT_END, image, rows_body, table_map
from support.values.core_walk import (
    FORMAT_1,
    Event,
    column,
    frames_of,
    log_of,
    numbers,
    plain_of,
    walk,
    walker,
)
from support.values.walked_rows import CHANGES, DAY, PLANS, UPDATE_ROWS, transactions, walk_all


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
    assert numbers(found.row, "I") == [0, 1, 3]  # the unwanted update is number 2


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


def test_unwanted_tables_and_operations() -> None:
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
