"""`batch_bytes` limits what batches take once they are finished, not only what the log holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlake.table.types.base import Target
from support.logs import costly_tables
from support.logs.table_log import decode

LIMIT = 1 << 20


@pytest.mark.parametrize("target", list(Target))
@pytest.mark.parametrize(
    ("shape", "count"), [("long_members", 500), ("long_sets", 500), ("compressed_values", 60)]
)
def test_values_that_grow_are_counted_as_they_will_be(
    tmp_path: Path, shape: str, count: int, target: Target
) -> None:
    log = tmp_path / "binlog.000001"
    log.write_bytes(getattr(costly_tables, shape)(count))
    sizes = []
    rows = 0
    for changes in decode(log, target, batch_bytes=LIMIT):
        (table,) = changes.tables
        rows += table.count
        sizes.append(sum(column.nbytes for column in table.after.columns))
    assert rows == count
    assert sum(sizes) > 20 * LIMIT
    assert max(sizes) < 3 * LIMIT


def test_lists_of_absent_columns_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "binlog.000001"
    log.write_bytes(costly_tables.long_names(200, 1000))
    sizes = [
        table.after.absent().nbytes
        for changes in decode(log, Target.TYPED, batch_bytes=LIMIT)
        for table in changes.tables
    ]
    assert sum(sizes) > 20 * LIMIT
    assert max(sizes) < 3 * LIMIT


def test_exports_hold_the_name_of_an_absent_column_once(tmp_path: Path) -> None:
    log = tmp_path / "binlog.000001"
    log.write_bytes(costly_tables.long_names(200, 1000))
    (table,) = (
        table
        for changes in decode(log, Target.EXPORTED, batch_bytes=LIMIT)
        for table in changes.tables
    )
    (typed, *_) = (
        table
        for changes in decode(log, Target.TYPED, batch_bytes=LIMIT)
        for table in changes.tables
    )
    absent = table.after.absent()
    assert absent.nbytes < LIMIT  # of 48 MB of names
    assert absent[0].as_py() == typed.after.absent()[0].as_py()
    assert len(absent) == 200
