"""Select the events of chosen tables and operations: options table, exclude_table and op for
events.

A transaction is shown if it changes a wanted row. Its control events (GTID, BEGIN, the statement's
text, XID) are shown with it, and those of its TABLE_MAP and rows events that belong to the wanted
tables and operations. DDL and statements logged as text change no row as an event, so here they
belong to no table.
"""

from __future__ import annotations

from collections.abc import Iterator

from binlake.errors import FormatError
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.source.log_file import Damage
from binlake.stream.groups.grouper import Ended
from binlake.stream.log_events import LogEvent, events_of_piece
from binlake.values.options import ReadOptions
from binlake.values.table_filter import TableFilter


class TableEvents:
    """Selects events of transactions."""

    def __init__(self, options: ReadOptions) -> None:
        self._tables = TableFilter(options)
        self._operations = frozenset(options.op)
        self._stops = options.on_error == Damage.STOP

    def of(self, ended: Ended) -> Iterator[LogEvent]:
        """Return the events to show of one transaction; none if it changes no wanted row.

        Raises FormatError.
        """
        if any(row_change for _, row_change in self._chosen(ended)):
            yield from (event for event, _ in self._chosen(ended))

    def _chosen(self, ended: Ended) -> Iterator[tuple[LogEvent, bool]]:
        """Return the events that stay, each with whether it changes wanted rows."""
        wanted: dict[int, bool] = {}
        for piece in ended.group.frames.events():
            for event in events_of_piece(piece):
                try:
                    decoded = event.event
                except FormatError:
                    if self._stops:
                        raise
                    yield event, False  # its reader reports the error
                    continue
                if isinstance(decoded, TableMapEvent):
                    known = self._tables.wants(decoded.database, decoded.table)
                    wanted[decoded.table_id] = known
                    if known:
                        yield event, False
                elif not isinstance(decoded, RowsEvent) or decoded.is_dummy:
                    yield event, False
                elif self._wants_rows(decoded, wanted):
                    yield event, True

    def _wants_rows(self, rows: RowsEvent, wanted: dict[int, bool]) -> bool:
        # a table without a TABLE_MAP cannot be excluded
        return wanted.get(rows.table_id, True) and (
            not self._operations or rows.operation in self._operations
        )
