"""Rows events that are compressed, cut off or mutated: the walk returns their rows or raises a BinlogError."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable

import pytest

from binlake.core.rows.table_sink import BothImages, TableSink
from binlake.errors import BinlogError, MalformedError, MissingContextError, TruncatedError
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel
from support.logs.log_builder import ROWS, TABLE_MAP, LogBuilder
from support.logs.table_log import ALL, STMT_END, image, rows_body, table_map
from support.values.core_walk import frames_of, log_of, plain_of, walk, walker
from support.values.walked_rows import CHANGES, DAY, PLANS, rows


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
    """The result of a walk over an insert with such a body: rows, or a BinlogError, nothing else."""
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
