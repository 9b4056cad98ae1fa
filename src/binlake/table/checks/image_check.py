"""Check that the row images of a log can be decoded: the check of `verify` for logs without
checksums.

The kernels that decode rows decode every value, and the result is dropped. This finds an image
that is too short or too long, and an impossible DECIMAL or TIME. The check does not cover later
steps: logs of sound servers, too, contain text that is not valid in its character set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from binlake.core.rows.table_sink import BothImages, TableSink
from binlake.core.rows.walk import RowWalker
from binlake.errors import BinlogError, UnsupportedError
from binlake.events.common.table_map import table_map_of
from binlake.format.event_types import PARTIAL_UPDATE_ROWS_EVENT, TABLE_MAP_EVENT
from binlake.table.checks.logged_fractions import LoggedFractions
from binlake.table.plan import TypesOfTables
from binlake.table.types.base import Target
from binlake.values.frame import EventFormat
from binlake.values.options import ReadOptions

if TYPE_CHECKING:
    from binlake.source.window import Window


class RowImages:
    """Decodes the row images of one log; called with its windows, in order.

    It skips rows before the first TABLE_MAP (a relay log may begin inside a statement), updates
    with JSON differences, rows of pre-releases of MySQL 5.1, and rows with old temporals of
    MariaDB that do not decode and that no DDL declares.
    """

    def __init__(self, fractions: LoggedFractions | None = None) -> None:
        self._fractions = fractions or LoggedFractions()
        self._types = TypesOfTables(ReadOptions(), Target.TEXT, lambda _: None)
        self._start()

    def _start(self) -> None:
        """Start again, also after an error, when the walker does not know the tables of the
        statement any more.
        """
        self._walker = RowWalker(self._sink)
        self._walker.begin_transaction(None, 0, None, 0)
        self._inside = False  # a TABLE_MAP has been seen

    def __call__(self, window: Window) -> Iterator[BinlogError]:
        """Return an error for every statement of the window with undecodable rows, with
        `event_pos`.
        """
        if window.format.has_permuted_types:
            return
        self._fractions.begin(window)
        at = 0
        for index in self._fractions.statements(window):
            yield from self._errors(window, at, index)
            at = index + 1
            if self._fractions.take(window, index):
                self._walker.forget_tables()
        yield from self._errors(window, at, len(window))

    def _errors(self, window: Window, at: int, end: int) -> Iterator[BinlogError]:
        """Yield the errors of the events [at, end) of a window."""
        self._walker.set_format(window.format)
        codes = bytes(window.block.type_code[:end])
        while at < len(codes):
            if not self._inside:
                at = codes.find(TABLE_MAP_EVENT, at)
                if at < 0:
                    return
                self._inside = True
            if codes[at] == PARTIAL_UPDATE_ROWS_EVENT:
                at += 1
                continue
            partial = codes.find(PARTIAL_UPDATE_ROWS_EVENT, at)
            last = partial if partial >= 0 else len(codes)
            try:
                at = self._walker.run_rows(window.data, window.base, window.block, at, last)
                self._walker.finish()
            except BinlogError as error:
                index = window.block.find(error.event_pos)
                if not self._fractions.is_untold(window, index):
                    yield error
                at = index + 1
                self._start()
                self._walker.set_format(window.format)

    def _sink(self, body: bytes, fmt: EventFormat) -> TableSink | None:
        """Return a sink for all columns of the table of a TABLE_MAP event, None if there is none."""
        event = table_map_of(body, fmt)
        try:
            definition = (
                event.description.definition
            )  # not of the event, whose position is unknown here
        except UnsupportedError:
            return None  # pre-releases of 5.1 do not describe columns
        definition = self._fractions.complete(event, definition)
        types = self._types.types(definition)
        return BothImages(types.plan.columns)
