"""Which events are shown: positions, times, servers and GTIDs as the servers' tools choose them.

The tools choose events, not transactions: a stop position in the middle of one shows its first
half, which the text then rolls back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.format import event_types as types
from binlake.stream.log_events import LogEvent
from binlake.values.frame import Frame
from binlake.values.gtid import Gtid, GtidSet

_FORMATS = (types.FORMAT_DESCRIPTION_EVENT, types.START_EVENT_V3)
_GTIDS = (types.GTID_LOG_EVENT, types.GTID_TAGGED_LOG_EVENT, types.ANONYMOUS_GTID_LOG_EVENT)
_OUTSIDE_OF_GROUPS = (
    *_FORMATS,
    types.ROTATE_EVENT,
    types.STOP_EVENT,
    types.PREVIOUS_GTIDS_LOG_EVENT,
)


class Choice(Enum):
    """The treatment of an event."""

    SHOW = "show"
    PASS = "pass"
    HIDE = "hide"  # MySQL: its GTID leaves it out, but its place is said
    STOP = "stop"  # it, and all after it


@dataclass(frozen=True, slots=True)
class EventSelection:
    """The selecting options; None and empty mean no limit.

    `start_position` is in the first file, `stop_position` in the last. Times are seconds since
    1970. `offset` is the number of events to skip first. MariaDB's positions can be GTIDs, a
    sequence number per domain: those after `start_gtids`, up to `stop_gtids`.
    """

    start_position: int | None = None
    stop_position: int | None = None
    start_time: int | None = None
    stop_time: int | None = None
    offset: int = 0
    server_ids: frozenset[int] = frozenset()
    ignored_server_ids: frozenset[int] = frozenset()
    domain_ids: frozenset[int] = frozenset()
    ignored_domain_ids: frozenset[int] = frozenset()
    start_gtids: dict[int, int] = field(default_factory=dict)
    stop_gtids: dict[int, int] = field(default_factory=dict)
    include_gtids: GtidSet | None = None
    exclude_gtids: GtidSet | None = None

    @property
    def is_by_position_only(self) -> bool:
        """Whether only positions select."""
        return replace(self, start_position=None, stop_position=None) == EventSelection()

    @property
    def by_maria_gtid(self) -> bool:
        """Whether servers, domains or GTIDs of MariaDB choose."""
        servers = self.server_ids | self.ignored_server_ids
        domains = self.domain_ids | self.ignored_domain_ids
        return bool(self.start_gtids or self.stop_gtids or servers or domains)


class Selector:
    """Chooses from the events of `files` logs, which come in their order."""

    def __init__(self, selection: EventSelection, files: int) -> None:
        self._wanted = selection
        self._last_file = files - 1
        self._left_out = selection.offset
        self._start_time = selection.start_time
        self._group = Choice.SHOW
        self._open_domains = set(selection.stop_gtids)  # whose last wanted GTID is not reached

    def choose(self, event: LogEvent, file: int) -> Choice:
        """Decide about an event of the log with this ordinal. Raises BinlogError."""
        wanted = self._wanted
        frame = event.frame
        if frame.type_code in _FORMATS:
            self._left_out -= bool(self._left_out)
            self._group = Choice.SHOW
            return Choice.STOP if self._is_late(frame) else Choice.SHOW
        if file == 0 and wanted.start_position is not None and event.pos < wanted.start_position:
            return Choice.PASS
        if event.inner is None and self._left_out:
            self._left_out -= 1
            return Choice.PASS
        if self._start_time is not None and frame.timestamp < self._start_time:
            return Choice.PASS
        if frame.type_code != types.ROTATE_EVENT and not self._is_server_wanted(frame.server_id):
            return Choice.PASS
        self._start_time = None
        if self._is_late(frame):
            return Choice.STOP
        stop = wanted.stop_position
        if file == self._last_file and stop is not None and event.pos >= stop:
            return Choice.STOP
        return self._by_group(event)

    def _is_late(self, frame: Frame) -> bool:
        return self._wanted.stop_time is not None and frame.timestamp >= self._wanted.stop_time

    def _is_server_wanted(self, server_id: int) -> bool:
        wanted = self._wanted
        if wanted.server_ids and server_id not in wanted.server_ids:
            return False
        return server_id not in wanted.ignored_server_ids

    def _by_group(self, event: LogEvent) -> Choice:
        """The decision for the GTID of the event's transaction."""
        code = event.frame.type_code
        if code in _OUTSIDE_OF_GROUPS:
            return Choice.PASS if self._group is Choice.PASS else Choice.SHOW
        if event.checksum == "bad" and (code in _GTIDS or code == types.GTID_EVENT):
            # a GTID that is not what the server wrote can choose nothing
            event.window.verify(event.index, event.index + 1)
        if code in _GTIDS:
            self._group = Choice.HIDE if self._is_gtid_hidden(event) else Choice.SHOW
        elif code == types.GTID_EVENT:
            self._group = self._by_maria_gtid(event)
        return self._group

    def _is_gtid_hidden(self, event: LogEvent) -> bool:
        wanted = self._wanted
        if wanted.include_gtids is None and wanted.exclude_gtids is None:
            return False
        said = event.event
        assert isinstance(said, GtidEvent)
        if said.gtid is None:
            return wanted.include_gtids is not None
        gtid = Gtid(said.sid, said.gno, said.tag)
        if wanted.include_gtids is not None and gtid not in wanted.include_gtids:
            return True
        return wanted.exclude_gtids is not None and gtid in wanted.exclude_gtids

    def _by_maria_gtid(self, event: LogEvent) -> Choice:
        wanted = self._wanted
        said = event.event
        assert isinstance(said, MariadbGtidEvent)
        domain = said.domain_id
        if wanted.stop_gtids and not self._open_domains:
            return Choice.STOP
        if wanted.domain_ids and domain not in wanted.domain_ids:
            return Choice.PASS
        if domain in wanted.ignored_domain_ids:
            return Choice.PASS
        if said.seq_no <= wanted.start_gtids.get(domain, -1):
            return Choice.PASS
        if not wanted.stop_gtids:
            return Choice.SHOW
        last = wanted.stop_gtids.get(domain, -1)
        if said.seq_no >= last:
            self._open_domains.discard(domain)
        return Choice.SHOW if said.seq_no <= last else Choice.PASS
