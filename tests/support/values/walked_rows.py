"""Small logs of a table with three columns, and their rows and transactions as the walk returns them."""

from __future__ import annotations

from binlake.core.images.image import ImageBuffers
from binlake.core.rows.table_sink import BothImages, TableSink
from binlake.core.rows.walk import WalkedRows
from binlake.values.plan import ColumnDefinition, ColumnPlan, Kernel
from support.logs.log_builder import ROWS, TABLE_MAP, LogBuilder
from support.logs.table_log import ALL, day, image, rows_body, table_map
from support.values.core_walk import column, frames_of, is_valid, plain_of, walker

__all__ = [
    "CHANGES",
    "DAY",
    "DELETE_ROWS",
    "PLANS",
    "UPDATE_ROWS",
    "rows",
    "transactions",
    "walk_all",
]

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
