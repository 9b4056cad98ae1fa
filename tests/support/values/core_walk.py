"""Walk the frames of small logs with the core alone: no files, no events, no Arrow."""

from __future__ import annotations

import array
import itertools
from collections.abc import Sequence
from functools import lru_cache

from binlake.core.columns.sink import SinkBuffers
from binlake.core.events.frames import FORMAT, FrameBlock, scan
from binlake.core.events.plain_groups import PlainGroups
from binlake.core.events.steps import Steps
from binlake.core.rows.table_sink import TableBuffers, TableSink
from binlake.core.rows.walk import RowWalker
from binlake.stream.groups.step_table import rules_of
from binlake.values.frame import EventFormat
from support.logs.log_builder import QUERY, XID, LogBuilder, query_body

FORMAT_1 = EventFormat(4, "8.0.36", "mysql", (8, 0, 36), 19, bytes(42), 1, 4)

Event = tuple[int, bytes]


def log_of(*transactions: Sequence[Event]) -> bytes:
    """BEGIN, the events, XID, for each."""
    log = LogBuilder()
    for events in transactions:
        log.add(QUERY, query_body(b"BEGIN"))
        for type_code, body in events:
            log.add(type_code, body)
        log.add(XID, bytes(8))
    return log.bytes()


def frames_of(data: bytes) -> FrameBlock:
    block = FrameBlock()
    pos, why = 4, FORMAT
    while why == FORMAT:
        pos, why = scan(data, 0, pos, len(data), 19, block)
    return block


@lru_cache(maxsize=8)
def plain_of(data: bytes, block: FrameBlock, fmt: EventFormat = FORMAT_1) -> PlainGroups:
    """The plain transactions among the frames of a log."""
    return PlainGroups(Steps(rules_of(fmt), data, 0, block))


def walker(
    sink: TableSink | None = None, limit_bytes: int = 1 << 30, fmt: EventFormat = FORMAT_1
) -> tuple[RowWalker, list[bytes]]:
    """A walker that sends all rows to one sink, and the definitions that it was asked for."""
    asked: list[bytes] = []

    def resolve(body: bytes, _format: EventFormat) -> TableSink | None:
        asked.append(body)
        return sink

    made = RowWalker(resolve, limit_bytes)
    made.set_format(fmt)
    return made, asked


def walk(data: bytes, sink: TableSink) -> TableBuffers:
    made, _ = walker(sink)
    block = frames_of(data)
    assert made.run_groups(data, 0, plain_of(data, block), 0, len(block)) == len(block)
    tables = made.finish().tables
    assert [found for found, _ in tables] == [sink]
    return tables[0][1]


def numbers(view: memoryview, code: str) -> list[int]:
    values: array.array[int] = array.array(code, view.tobytes())
    return values.tolist()


def is_valid(validity: memoryview | None, row: int) -> bool:
    return validity is None or bool(validity[row >> 3] >> (row & 7) & 1)


def column(found: SinkBuffers | None, code: str) -> list[object]:
    assert found is not None
    values: list[object]
    if found.offsets is None:
        values = list(numbers(found.data, code))
    else:
        ends = numbers(found.offsets, "i")
        values = [bytes(found.data[a:b]) for a, b in itertools.pairwise(ends)]
    return [v if is_valid(found.validity, i) else None for i, v in enumerate(values)]
