"""The commits of one table's changes in a range of the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from binlake.mirror.followed.table import Followed
from binlake.mirror.modes.mode import Emptying
from binlake.mirror.options import MirrorOptions
from binlake.mirror.tables.change import Change, CommitConflictError, CommittedBesideError
from binlake.spark.streaming.offsets import StreamOffset

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES = 3


def commit_range(
    table: Followed,
    batches: list[pa.RecordBatch],
    end: StreamOffset,
    round_number: int,
    options: MirrorOptions,
) -> int:
    """Commit the changes from the table's place to `end`; returns how many rows changed.

    Raises what `Followed.changes` and `MirrorTable.commit` raise: CommitConflictError where another program
    commits, the first time or repeatedly, depending on the options.
    """
    for attempt in range(_TRIES):
        try:
            changes = table.changes(batches, options.commit_bytes)
            return _commit_parts(table, changes, end, round_number, options)
        except CommitConflictError:
            if options.on_other_writer == "refuse" or attempt == _TRIES - 1:
                raise
            table.lake.reload()
    raise AssertionError("the last attempt returns or raises")


def commit_emptied(
    table: Followed, of: Emptying, end: StreamOffset, round_number: int, options: MirrorOptions
) -> None:
    """Commit the removal of all rows of a table, which is then at `end`. Raises what `Mode.emptied` and `MirrorTable.commit` raise."""
    changes = table.mode.emptied(of, options.commit_bytes)
    _commit_parts(table, changes, end, round_number, options)


def _commit_parts(
    table: Followed,
    changes: Iterator[Change],
    end: StreamOffset,
    round_number: int,
    options: MirrorOptions,
) -> int:
    """One part, unless the range is larger than memory should hold.

    All parts except the last keep the position at which the range begins, so after a kill the range is applied again.
    """
    unfinished = table.position_properties(table.offset, round_number)
    before = Change()
    rows = 0
    for change in changes:
        rows += _commit(table, before, unfinished, options)
        before = change
    return rows + _commit(table, before, table.position_properties(end, round_number), options)


def _commit(
    table: Followed, change: Change, properties: dict[str, str], options: MirrorOptions
) -> int:
    if change.is_empty:
        return 0
    try:
        return table.lake.commit(change, properties)
    except CommittedBesideError:
        if options.on_other_writer == "refuse":
            raise
        table.lake.reload()
        return sum(rows.num_rows for rows in (change.upserts, change.deletes) if rows is not None)
