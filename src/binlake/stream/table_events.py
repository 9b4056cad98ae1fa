"""The events of chosen tables and operations: options table, exclude_table and op for events.

A transaction is shown when it changes a row that is wanted; then its control events (GTID,
BEGIN, the statement's text, XID) come with it, and of the TABLE_MAP and rows events those of the
wanted tables and operations. What changes no row as an event, a DDL or a statement logged as
text, belongs to no table here.
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

__all__ = ["TableEvents"]


class TableEvents:
    """Chooses among the events of transactions."""

    def __init__(self, options: ReadOptions) -> None:
        self._tables = TableFilter(options)
        self._operations = frozenset(options.op)
        self._stops = options.on_error == Damage.STOP

    def of(self, ended: Ended) -> Iterator[LogEvent]:
        """The events to show of one transaction; none if it changes no row that is wanted.

        Raises FormatError.
        """
        if any(row_change for _, row_change in self._chosen(ended)):
            yield from (event for event, _ in self._chosen(ended))

    def _chosen(self, ended: Ended) -> Iterator[tuple[LogEvent, bool]]:
        """The events that stay, each with whether it changes wanted rows."""
        wanted: dict[int, bool] = {}
        for piece in ended.group.frames.events():
            for event in events_of_piece(piece):
                try:
                    decoded = event.event
                except FormatError:
                    if self._stops:
                        raise
                    yield event, False  # the reader says what is wrong with it
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
        # of a table that no TABLE_MAP names nobody can say that it is not wanted
        return wanted.get(rows.table_id, True) and (
            not self._operations or rows.operation in self._operations
        )
