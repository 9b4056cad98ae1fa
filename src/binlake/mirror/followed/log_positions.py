"""Places of copies in the log: its end, and the place of the oldest chunk of a table."""

from __future__ import annotations

from binlake.errors import BinlogError, OptionError, PositionLostError, ServerError
from binlake.follow.offsets import StreamOffset
from binlake.follow.planner import StreamPlanner
from binlake.mirror.control import position_key
from binlake.mirror.source.archive_lag import lags
from binlake.mirror.source.host import SourceHost
from binlake.stream.positions.boundary import UNLIMITED
from binlake.values.position import FilePosition, Position


class LogPositions:
    """Finds places in the log of `host`. It remembers the newest one, and reads the log from there on: without it, a file of the
    log is read from its start, and a mirror may copy thousands of tables.
    """

    def __init__(self, planner: StreamPlanner, host: SourceHost) -> None:
        self._planner = planner
        self._host = host
        self._newest: StreamOffset | None = None
        self._oldest: dict[str, tuple[Position, StreamOffset]] = {}

    def end(self) -> StreamOffset:
        """Return the last existing boundary. Raises BinlogError."""
        found = None if self._newest is None else self._after(self._newest)
        self._newest = self._planner.latest() if found is None else found
        return self._newest

    def at(self, position: Position) -> StreamOffset:
        """Return a position with everything known about it: the transactions before it, and its log. Raises ServerError if the
        log ends before it, BinlogError if the log does not have its file.
        """
        found = self._from_newest(position)
        if found is None:
            found = self._from_start_of_file(position)
        is_before = position_key(found.position) < position_key(position)
        if is_before and not self._is_same_place(found.position, position):
            # changes between the two would be lost
            raise ServerError(
                f"the log does not reach {position}, the server's position when the mirror read a row"
            )
        if self._newest is None or position_key(self._newest.position) < position_key(
            found.position
        ):
            self._newest = found
        return found

    def of_oldest(self, table: str, oldest: Position) -> StreamOffset:
        """Return the place of the oldest chunk of a table, which `at` finds once: a copy that gives way often asks each time."""
        known = self._oldest.get(table)
        if known is None or known[0] != oldest:
            known = oldest, self.at(oldest)
            self._oldest[table] = known
        try:
            return self._planner.here(known[1])
        except PositionLostError:  # a new log may have the same position
            del self._oldest[table]
            raise

    def _after(self, start: StreamOffset, until: StreamOffset | None = None) -> StreamOffset | None:
        """The last boundary from `start` on, up to `until`; None if the log no longer has `start`."""
        try:
            return self._planner.advance(start, UNLIMITED, until)
        except PositionLostError:
            return None

    def _from_newest(self, position: Position) -> StreamOffset | None:
        """The position if it is a boundary after the newest one that is known."""
        known = self._newest
        if known is None or known.position.server_uuid != position.server_uuid:
            return None
        if position_key(position) < position_key(known.position):
            return None
        found = self._after(known, StreamOffset(position))
        is_there = found is not None and position_key(found.position) == position_key(position)
        return found if is_there else None

    def _from_start_of_file(self, position: Position) -> StreamOffset:
        try:
            return self._planner.at_position(FilePosition(position.file, position.offset))
        except OptionError as error:
            found = self._without_its_file(position)
            if found is not None:
                return found
            raise BinlogError(
                f"the log does not have {position}, the server's position when the mirror read the first row",
                hint=f"{error.hint}; read the log of the same server, from that position on",
            ) from None

    def _without_its_file(self, position: Position) -> StreamOffset | None:
        """The place of a position whose file the log no longer has, or an archive does not have yet; None if there is none."""
        end = self.end()
        if self._is_same_place(end.position, position):
            return end
        try:
            return self._planner.here(StreamOffset(position, is_anonymous=False))
        except PositionLostError:
            return None

    def _is_same_place(self, end: Position, later: Position) -> bool:
        """Whether no change lies between the end of an archive and a later position of its server."""
        return lags(end, later) and self._host.is_reached(end, later)
