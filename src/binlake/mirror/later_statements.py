"""The search of the log for a statement that may have changed a table after a position."""

from __future__ import annotations

from collections.abc import Callable

from binlake.follow.planner import StreamPlanner
from binlake.mirror.apply.decode import statements_in
from binlake.mirror.archive_wait import ArchiveWait
from binlake.mirror.followed.table import Followed
from binlake.mirror.options import MirrorOptions
from binlake.stream.positions.boundary import Limits
from binlake.table.schema.ddl_effects import concerns
from binlake.values.position import Position


def may_have_changed(
    planner: StreamPlanner,
    options: MirrorOptions,
    table: Followed,
    until: Position,
    wait: ArchiveWait,
    between: Callable[[], None],
) -> bool:
    """Return whether the log after the table's position contains a statement that may concern the table.

    If an archive has not reached `until`, a position of the server, wait for it first. `between` is called before each part of
    the log, and may end the search by an error. Raises BinlogError, LogLagsError.
    """
    while not wait.has_reached(until):
        between()
    last, limits = planner.latest(), Limits.of_memory(options.round_bytes)
    start = planner.here(table.offset)
    while True:
        between()
        end = planner.advance(start, limits, last)
        if end.key == start.key:
            return False
        found = statements_in(planner.splits(start, end), options.read_options([table.id]))
        if any(concerns(ddl, table.database, table.name) for ddl in found):
            return True
        start = end
