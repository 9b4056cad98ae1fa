"""Select the events for a replica of MariaDB, by the GTID position of each domain and its
capabilities.

Source: MariaDB sql/sql_repl.cc, send_event_to_slave and gtid_state_from_binlog_pos. A replica
names its last transaction for each domain. The events of that domain are left out up to that
transaction; then an artificial GTID_LIST contains the position of the source. With UNTIL a domain
ends after the transaction named for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from binlake.events.common.query import QueryEvent
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.format import event_types as types
from binlake.format.event_types import Role, codes_of
from binlake.format.flags import FL_STANDALONE, LOG_EVENT_SKIP_REPLICATION_F
from binlake.serve import made_up
from binlake.serve.answers import lost
from binlake.serve.dump_selection import DumpSelection, SelectedEvents
from binlake.source.window import Window
from binlake.stream.event_at import event_at
from binlake.values.frame import EventFormat
from binlake.values.gtid import MariaGtid, MariaGtidSet

# The capability of a replica (@mariadb_slave_capability).
KNOWS_HOLES = 2
KNOWS_CHECKPOINTS = 3
KNOWS_GTIDS = 4


# Events of a statement that are not its last event (Log_event::is_part_of_group).
_IN_STATEMENT = codes_of(Role.GTID, Role.TABLE_MAP, Role.DATA) - {types.EXECUTE_LOAD_QUERY_EVENT}


@dataclass(frozen=True, slots=True)
class Wishes:
    """The request and capabilities of a replica of MariaDB.

    `server_id` is that of `serve`. `connect` is its last GTID of each domain, None if it follows
    by position; `until` the last GTIDs that it wants. `strict` is its gtid_strict_mode.
    `annotated`: it wants ANNOTATE_ROWS; `unmarked`: no events that are marked for skipping.
    """

    server_id: int
    connect: dict[int, MariaGtid] | None = None
    until: dict[int, MariaGtid] | None = None
    strict: bool = False
    capability: int = KNOWS_GTIDS
    annotated: bool = True
    unmarked: bool = False


class MariadbSelection(DumpSelection):
    """Examines single events only if a request needs it.

    `state` is how far every server had come in `start`, before the first event.
    """

    def __init__(self, wishes: Wishes, start: MariaGtidSet) -> None:
        self._wishes = wishes
        self._state = start.copy()
        self._waiting = dict(wishes.connect or {})
        self._until = None if wishes.until is None else dict(wishes.until)
        self._skipping: bool | None = None  # True: a group with its own end, False: one statement
        self._ends_group: bool | None = None  # the last group that is wanted: likewise
        self._announces_state = False
        if wishes.connect is not None:
            self._settle(start)

    def _settle(self, start: MariaGtidSet) -> None:
        """Note that the replica's last GTID of a domain may be the last before the first file."""
        for gtid in start.position().values():
            wanted = self._waiting.get(gtid.domain_id)
            if (
                wanted is not None
                and start.last(wanted.domain_id, wanted.server_id) == wanted.seq_no
            ):
                del self._waiting[gtid.domain_id]
        for gtid in start:
            until = None if self._until is None else self._until.get(gtid.domain_id)
            if until and until.server_id == gtid.server_id and until.seq_no <= gtid.seq_no:
                assert self._until is not None
                del self._until[gtid.domain_id]

    def begin(self, before: PreviousGtidsEvent | GtidListEvent | None) -> None:
        if isinstance(before, GtidListEvent):
            self._state = before.gtid_set

    @property
    def is_nothing_left(self) -> bool:
        """Check whether UNTIL only names transactions before the start."""
        return self._until is not None and not self._until and self._ends_group is None

    def farewell(self, format: EventFormat, position: int) -> bytes:
        """Return the GTID_LIST that tells the replica that it has everything it asked for."""
        return made_up.gtid_list(
            format, self._wishes.server_id, tuple(self._state), position, made_up.UNTIL_REACHED
        )

    def parts(self, window: Window) -> Iterator[SelectedEvents]:
        codes = bytes(window.block.type_code[: len(window)])
        if self._is_plain(window, codes):
            yield SelectedEvents(0, len(window))
            return
        start = 0
        for at, code in enumerate(codes):
            sent = self._event(window, at, code)
            if sent is True and not self._announces_state and self._ends_group is None:
                continue
            last = at + 1 if sent is True else at
            if start < last:
                yield SelectedEvents(start, last)
            start = at + 1
            if isinstance(sent, bytes):
                yield SelectedEvents(at, at + 1, sent)
            if self._announces_state and self._skipping is None:
                self._announces_state = False
                end = window.block.end(at)
                state = made_up.gtid_list(
                    window.format, self._wishes.server_id, tuple(self._state), end
                )
                yield SelectedEvents(at + 1, at + 1, state)
            if self._ends_group is not None and self._is_end(window, at, code, self._ends_group):
                yield SelectedEvents(
                    at + 1, at + 1, self.farewell(window.format, window.block.end(at))
                )
                self.is_over = True
                return
        if start < len(codes):
            yield SelectedEvents(start, len(codes))

    def _is_plain(self, window: Window, codes: bytes) -> bool:
        """Whether all events are sent unchanged."""
        if (
            self._waiting
            or self._until is not None
            or self._skipping is not None
            or self._announces_state
        ):
            return False
        wishes = self._wishes
        return (
            wishes.capability >= KNOWS_GTIDS
            and not wishes.unmarked
            and (wishes.annotated or types.ANNOTATE_ROWS_EVENT not in codes)
            and types.START_ENCRYPTION_EVENT not in codes
        )

    def _event(self, window: Window, at: int, code: int) -> bool | bytes:
        """Return whether an event is sent, or its replacement."""
        if code == types.GTID_EVENT:
            self._group(window, at)
        if self._skipping is not None:
            if self._is_end(window, at, code, self._skipping):
                self._skipping = None
            return False
        if self._wishes.unmarked and window.block.flags[at] & LOG_EVENT_SKIP_REPLICATION_F:
            return False
        if code == types.START_ENCRYPTION_EVENT:
            return made_up.ignorable(bytes(window.raw(at)), window.format)
        return self._known(window, at, code)

    def _known(self, window: Window, at: int, code: int) -> bool | bytes:
        """Return the event, or a replacement that the replica knows."""
        capability = self._wishes.capability
        if code == types.ANNOTATE_ROWS_EVENT:
            unknown = not self._wishes.annotated
        elif code == types.BINLOG_CHECKPOINT_EVENT:
            unknown = capability < KNOWS_CHECKPOINTS
        else:
            unknown = code in (types.GTID_EVENT, types.GTID_LIST_EVENT) and capability < KNOWS_GTIDS
        if not unknown:
            return True
        raw = bytes(window.raw(at))
        if code == types.GTID_EVENT:
            event = event_at(window, at)
            assert isinstance(event, MariadbGtidEvent)
            if not event.flags & FL_STANDALONE:
                return made_up.begin_in_place_of(raw, window.format)
        if capability >= KNOWS_HOLES:
            return False
        return made_up.dummy_in_place_of(raw, window.format)

    def _group(self, window: Window, at: int) -> None:
        """Return whether the transaction that begins is wanted."""
        event = event_at(window, at)
        assert isinstance(event, MariadbGtidEvent)
        gtid = MariaGtid(event.domain_id, event.frame.server_id, event.seq_no)
        has_end = not event.flags & FL_STANDALONE
        self._state.add(gtid)
        if self._has(gtid) or not self._is_wanted_until(gtid, has_end):
            self._skipping = has_end

    def _has(self, gtid: MariaGtid) -> bool:
        """Whether the replica has the transaction."""
        last = self._waiting.get(gtid.domain_id)
        if last is None:
            return False
        if gtid.server_id != last.server_id or gtid.seq_no < last.seq_no:
            return True
        del self._waiting[gtid.domain_id]
        self._announces_state = True
        if gtid.seq_no == last.seq_no:
            return True
        if self._wishes.strict:
            raise lost(
                f"The binlog on the master is missing the GTID {last} requested by the slave (even"
                f" though a subsequent sequence number does exist: {gtid}), and GTID strict mode is"
                " enabled"
            )
        return False

    def _is_wanted_until(self, gtid: MariaGtid, has_end: bool) -> bool:
        if self._until is None:
            return True
        until = self._until.get(gtid.domain_id)
        if until is None:
            return False
        if until.server_id != gtid.server_id or gtid.seq_no < until.seq_no:
            return True
        del self._until[gtid.domain_id]
        wanted = gtid.seq_no == until.seq_no
        if not self._until:
            self._ends_group = has_end
        return wanted

    @staticmethod
    def _is_end(window: Window, at: int, code: int, has_end: bool) -> bool:
        """Whether the event ends its group."""
        if not has_end:
            return code not in _IN_STATEMENT
        if code in (types.XID_EVENT, types.XA_PREPARE_LOG_EVENT):
            return True
        if code in (types.QUERY_EVENT, types.QUERY_COMPRESSED_EVENT):
            event = event_at(window, at)
            return isinstance(event, QueryEvent) and event.sql_raw.strip().upper() in (
                b"COMMIT", b"ROLLBACK",
            )  # fmt: skip
        return False
