"""The GTIDs of everything before a position in a log, maintained while a reader advances.

A file begins with the GTIDs executed before it (PREVIOUS_GTIDS, GTID_LIST); the grouper adds those
of its transactions. The text is that of `values.position.Position`: MySQL's set with all of its
intervals, MariaDB's `gtid_binlog_state` (the last GTID of every domain and server, the current one
of a domain last). The text is "" if the log has no GTIDs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlake.errors import SourceError
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.format.event_types import GTID_LIST_EVENT, PREVIOUS_GTIDS_LOG_EVENT, any_code
from binlake.stream.event_at import event_at
from binlake.stream.positions.gtid_search import HEAD_BYTES
from binlake.stream.runs import PlainRun
from binlake.values.gtid import GtidSet, MariaGtid, MariaGtidIntervals, MariaGtidSet
from binlake.values.gtid_filter import parse_gtid_filter

if TYPE_CHECKING:
    from binlake.source.window import Window

# The end of a GTID, too: a UUID of MySQL may begin with three groups of decimal digits.
_MARIADB = re.compile(r"\d+-\d+-\d+(?:,|$)")
_HEADS = any_code((PREVIOUS_GTIDS_LOG_EVENT, GTID_LIST_EVENT))


class GtidProgress:
    """A set of either flavour that only grows. `text` is its notation.

    `last_is_anonymous`: whether the last transaction that was added has no GTID; None before the first one of a log.
    """

    def __init__(self, text: str = "") -> None:
        self.last_is_anonymous: bool | None = None
        text = "".join(text.split())
        self._mariadb = MariaGtidSet()
        self._mysql = GtidSet()
        if _MARIADB.match(text):
            self._mariadb = MariaGtidSet.parse(text)
        else:
            self._mysql = GtidSet.parse(text)

    @property
    def text(self) -> str:
        """The set in the notation of its flavour. Raises SourceError for a log with GTIDs of both."""
        if self._mysql and len(self._mariadb):
            raise SourceError("the logs contain GTIDs of both MySQL and MariaDB")
        return str(self._mysql or self._mariadb)

    @property
    def is_of_mariadb(self) -> bool:
        """Whether the set has GTIDs of MariaDB, where every transaction has one."""
        return len(self._mariadb) > 0

    def pass_head(self, window: Window) -> None:
        """Add the GTIDs executed before the file, if this window contains the beginning of the
        file.
        """
        if window.start >= HEAD_BYTES:
            return
        codes = bytes(window.block.type_code[: len(window)])
        for match in _HEADS.finditer(codes):
            event = event_at(window, match.start())
            if isinstance(event, PreviousGtidsEvent):
                self._mysql |= event.gtids
            elif isinstance(event, GtidListEvent):
                self._add_list(event.gtid_set)

    def _add_list(self, before: MariaGtidSet) -> None:
        for gtid in before:
            if self._reached(gtid) < gtid.seq_no:
                self._mariadb.add(gtid)

    def _reached(self, gtid: MariaGtid) -> int:
        """Return the last sequence number of its domain and server, or -1."""
        last = self._mariadb.last(gtid.domain_id, gtid.server_id)
        return -1 if last is None else last

    def add_plain(self, run: PlainRun) -> None:
        """Add the GTIDs of the transactions of a run."""
        self.last_is_anonymous = run.plain.gtid(run.high - 1) is None
        for sid, first, last in run.plain.mysql_intervals(run.low, run.high):
            self._mysql.add_interval(sid, "", first, last + 1)
        for domain, server, _, last in run.plain.mariadb_intervals(run.low, run.high):
            self._mariadb.add(MariaGtid(domain, server, last))

    def add(self, event: GtidEvent | MariadbGtidEvent | None) -> None:
        """Add the GTID of one transaction, if it has one."""
        self.last_is_anonymous = event is None or event.gtid is None
        if isinstance(event, MariadbGtidEvent):
            self._mariadb.add(MariaGtid(event.domain_id, event.frame.server_id, event.seq_no))
        elif event is not None and event.gtid is not None:
            self._mysql.add(event.sid, event.gno, event.tag)

    def add_all(self, other: GtidProgress) -> None:
        """Add the GTIDs of another set."""
        self._mysql |= other._mysql
        self._add_list(other._mariadb)

    def has_all(self, other: GtidProgress) -> bool:
        """Whether this set contains all of `other`."""
        return other._mysql <= self._mysql and all(
            self._reached(gtid) >= gtid.seq_no for gtid in other._mariadb
        )

    def has_reached(self, other: GtidProgress) -> bool:
        """Whether this set contains the last transactions of `other`. Of MariaDB, it is the last GTID of each domain: the logs of a
        server that was set up from a backup do not show the servers that had written before.
        """
        return other._mysql <= self._mysql and all(
            self._reached(gtid) >= gtid.seq_no for gtid in other._mariadb.position().values()
        )

    def last_in_other_domains(self, other: GtidProgress) -> list[MariaGtid]:
        """Return the last GTIDs of `other` in the domains of MariaDB of which this set has none."""
        known = self._mariadb.position().keys()
        return [gtid for gtid in other._mariadb.position().values() if gtid.domain_id not in known]

    def is_place_of(self, other: GtidProgress) -> bool:
        """Whether both are the GTIDs before one place. Of MariaDB, the last GTID of each domain decides: not all sources
        report those of servers that have written before.
        """
        mine, its = self._mariadb.position(), other._mariadb.position()
        return self._mysql == other._mysql and mine == its

    def lacks(self, other: GtidProgress) -> str:
        """Return the GTIDs of `other` that are not in this set, as text."""
        missing = str(other._mysql - self._mysql)
        ahead = [str(gtid) for gtid in other._mariadb if self._reached(gtid) < gtid.seq_no]
        return missing or ",".join(ahead)

    def rest_of(self, gtids: str) -> str:
        """Return those of some GTIDs that are not in this set. Both texts have the form of the option `exclude_gtid`; "" is none."""
        if not gtids:
            return ""
        given = parse_gtid_filter(gtids)
        mariadb = given.mariadb - MariaGtidIntervals.up_to(self._mariadb)
        return str(given.mysql - self._mysql) or str(mariadb)


def shown_before(text: str) -> str:
    """Return the GTIDs up to a position, in the form of the option `exclude_gtid`; "" for none."""
    if _MARIADB.match(text):
        return str(MariaGtidIntervals.up_to(MariaGtidSet.parse(text)))
    return text
