"""The commits of what a range of log changed in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlake.mirror.followed import Followed
from binlake.mirror.iceberg.jvm import CommitConflictError
from binlake.mirror.iceberg.table import Change
from binlake.mirror.options import MirrorOptions
from binlake.spark.offsets import StreamOffset

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["commit_range"]

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
    commits, at once or again and again, as the options say.
    """
    for attempt in range(_TRIES):
        try:
            return _commit_parts(table, batches, end, round_number, options.commit_bytes)
        except CommitConflictError:
            if options.on_other_writer == "refuse" or attempt == _TRIES - 1:
                raise
            table.lake.reload()
    raise AssertionError("the last attempt returns or raises")


def _commit_parts(
    table: Followed,
    batches: list[pa.RecordBatch],
    end: StreamOffset,
    round_number: int,
    commit_bytes: int,
) -> int:
    """One part, unless the range is larger than memory should hold.

    All parts but the last keep the place where the range begins: after a kill it is applied again.
    """
    unfinished = table.position_properties(table.offset, round_number)
    changes = table.changes(batches, commit_bytes)
    before = next(changes)
    rows = 0
    for change in changes:
        rows += _commit(table, before, unfinished)
        before = change
    return rows + _commit(table, before, table.position_properties(end, round_number))


def _commit(table: Followed, change: Change, properties: dict[str, str]) -> int:
    return 0 if change.is_empty else table.lake.commit(change, properties)
