"""Select the events of a chain for a replica: all, or those of transactions that it does not have.

A selection reads the windows in order and cuts each into parts: ranges of events that are sent
unchanged, and events made for the replica in between. It is the only state of a stream besides its
position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.format import event_types as types
from binlake.source.window import Window
from binlake.stream.event_at import event_at
from binlake.values.gtid import GtidSet


class SelectedEvents(NamedTuple):
    """Events [first, last) of a window; or, with `made`, an event that replaces them (or None:
    nothing, but they count as passed).
    """

    first: int
    last: int
    made: bytes | None = None


class DumpSelection(ABC):
    """Selects events. `is_over`: nothing more is wanted, the stream may end.

    `passes_silently`: whether a heartbeat must tell the replica about events that were left out,
    because it counts its position event by event.
    """

    passes_silently = True
    is_over = False

    def begin(self, before: PreviousGtidsEvent | GtidListEvent | None) -> None:
        """Note that a file begins before which these GTIDs were executed."""
        return

    @abstractmethod
    def parts(self, window: Window) -> Iterator[SelectedEvents]:
        """Return the parts of the window to send, in order; events in no part are left out."""


class Everything(DumpSelection):
    """Selects all events, unchanged."""

    def parts(self, window: Window) -> Iterator[SelectedEvents]:
        yield SelectedEvents(0, len(window))


_BOUNDARIES = types.any_code(
    (
        types.GTID_LOG_EVENT, types.GTID_TAGGED_LOG_EVENT, types.ANONYMOUS_GTID_LOG_EVENT, types.ROTATE_EVENT,
        types.STOP_EVENT, types.FORMAT_DESCRIPTION_EVENT, types.PREVIOUS_GTIDS_LOG_EVENT,
    )
)  # fmt: skip
_NAMED = (types.GTID_LOG_EVENT, types.GTID_TAGGED_LOG_EVENT)


class MissingTransactions(DumpSelection):
    """MySQL: the transactions whose GTIDs are not in `have`, and everything that has none."""

    passes_silently = False

    def __init__(self, have: GtidSet) -> None:
        self._have = have
        self._skipping = False
        self._all = not have

    def begin(self, before: PreviousGtidsEvent | GtidListEvent | None) -> None:
        # after the start of a file before which all of them were executed, none can come again
        if isinstance(before, PreviousGtidsEvent) and not self._have - before.gtids:
            self._all = True

    def parts(self, window: Window) -> Iterator[SelectedEvents]:
        if self._all and not self._skipping:
            yield SelectedEvents(0, len(window))
            return
        codes = bytes(window.block.type_code[: len(window)])
        start = 0
        for match in _BOUNDARIES.finditer(codes):
            at = match.start()
            skip = codes[at] in _NAMED and self._is_had(window, at)
            if skip == self._skipping:
                continue
            if skip and start < at:
                yield SelectedEvents(start, at)
            start = at
            self._skipping = skip
        if not self._skipping:
            yield SelectedEvents(start, len(window))

    def _is_had(self, window: Window, index: int) -> bool:
        event = event_at(window, index)
        assert isinstance(event, GtidEvent)
        return self._have.contains(event.sid, event.gno, event.tag)
