"""Holes in a chain of logs: a log that is missing, and one that is cut off.

A server ends a log with ROTATE, or with STOP when it shuts down. After a crash, a log has neither of them,
but the next one contains the time at which the server started (`LogFile.at_startup`), and begins with the GTIDs
that the server found in its logs. A log without either of these signs is an incomplete copy: it was copied while the
server wrote it, and was not copied again. Before a start of the server, only GTIDs show that.

Relay logs have no such sign, because a replica that crashes continues in a log without a start. A server sends
whole logs only (`source.replica.stream`), and MariaDB's InnoDB binlog ends a file where it is full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from binlake.core.events.frames import read_frame
from binlake.errors import FormatError, KeyringError, SourceError, UnsupportedError
from binlake.format.event_header import CHECKSUM_BYTES, HEADER_BYTES
from binlake.format.event_types import ROTATE_EVENT, STOP_EVENT
from binlake.format.flags import LOG_EVENT_ARTIFICIAL_F
from binlake.format.magic import FIRST_EVENT
from binlake.source.bytes import is_read_once, is_uri
from binlake.source.chain import Chain, LogPath
from binlake.source.log_file import LogFile
from binlake.source.replica.url import is_server_url
from binlake.stream.positions.boundary import UNLIMITED, BoundaryScan
from binlake.stream.positions.gtid_progress import GtidProgress
from binlake.stream.positions.gtid_search import head_gtids
from binlake.values.frame import Frame

if TYPE_CHECKING:
    from binlake.stream.filters import TransactionFilter

#: Receives a sentence about a hole, and may refuse the read.
TakesHole = Callable[[str], None]

# The longest ROTATE: its header, the position in the next log, and the name of that log.
_MOST_BYTES = HEADER_BYTES + 8 + 512 + CHECKSUM_BYTES
_MASK32 = 0xFFFFFFFF
# The first version whose GTID events contain the time of the commit.
_FIRST_COMMIT_TIMES = (8, 0, 1)
_MOST_SHOWN = 100  # characters of a set of GTIDs in a message


def lacking(hole: str, filters: TransactionFilter) -> str:
    """Return the warning about a hole for a read that continues."""
    # the GTIDs of the transactions in the hole are not known
    verb = "may lack" if filters.chooses_gtids else "lacks"
    return f"{hole}: the result {verb} transactions"


def refusing(what_to_do: str) -> TakesHole:
    """Return a function that raises SourceError for a hole, with this hint."""

    def refuse(hole: str) -> None:
        raise SourceError(hole, hint=what_to_do)

    return refuse


def closes_log(last: Frame) -> bool:
    """Whether the server has closed a log with this event."""
    is_end = last.type_code in (ROTATE_EVENT, STOP_EVENT)
    return is_end and not last.flags & LOG_EVENT_ARTIFICIAL_F


def wants_gap(
    filters: TransactionFilter, before: Callable[[], LogFile], after: Callable[[], LogFile]
) -> bool:
    """Whether a read may want transactions of the logs that are missing between two logs, which the functions open.

    Raises BinlogError.
    """
    if filters.since_us is not None:
        with after() as log:
            if _written_before(log, filters.since_us):
                return False
    if filters.until_us is not None:
        with before() as log:
            return not _reaches(log, filters.until_us)
    return True


def _written_before(log: LogFile, since_us: int | None) -> bool:
    """Whether the server had written everything before a log by the time `since_us`."""
    # `created` has whole seconds
    return (
        since_us is not None
        and log.created is not None
        and (log.created + 1) * 1_000_000 <= since_us
    )


def _reaches(log: LogFile, until_us: int | None) -> bool:
    """Whether the last event of a log is of the time `until_us` or later, and everything behind it, too.

    Only MySQL 8.0.1 and later log when a transaction committed. The time of others is that at which a statement began,
    which may be long before its place in the log; and a relay log has two clocks.
    """
    if until_us is None or is_server_url(log.path) or log.is_relay or not _has_commit_times(log):
        return False
    last = log.last_event or _walk_to_end(log)
    return last is not None and last.timestamp * 1_000_000 >= until_us


def _has_commit_times(log: LogFile) -> bool:
    known = log.format
    return known is not None and known.flavour == "mysql" and known.version >= _FIRST_COMMIT_TIMES


def _walk_to_end(log: LogFile) -> Frame | None:
    """Return the last whole event of a log; None if there is none, or if damage or a missing key prevents a walk to its
    end.
    """
    last = None
    with log.reopen() as again:
        try:
            for window in again.windows(verify=False):
                last = window.frame(len(window) - 1) if len(window) else last
        except (FormatError, KeyringError, UnsupportedError):
            return None if again.tail is None else last
    return last


def closed(log: LogFile, begin: int) -> bool | None:
    """Whether the server has closed a log that has been read from byte `begin` to its end; None if that is not known."""
    if log.ibb is not None:
        return True
    if log.tail is not None:
        return False
    if log.last_event is not None:
        return closes_log(log.last_event)
    if log.is_splittable and log.encrypted_from is None:
        with log.reopen() as again:
            return _ends_closed(again)
    if begin == FIRST_EVENT:  # an index has selected parts: a walk would take longer than the read
        return None
    last = _walk_to_end(log)  # the read began at the end, and has seen no event
    return None if last is None else closes_log(last)


def closed_as_read(log: LogFile, begin: int) -> bool | None:
    """Return the result of `closed`, without a request for the end of an object in a store: None if the read has not seen it."""
    is_seen = log.ibb is not None or log.tail is not None or log.last_event is not None
    return closed(log, begin) if is_seen or not is_uri(log.path) else None


def cut_off(
    log: LogFile,
    following: LogPath | None,
    open_log: Callable[[], LogFile],
    is_closed: Callable[[], bool | None],
    filters: TransactionFilter | None = None,
) -> str:
    """Return a sentence if a log that a read has passed is cut off before `following`, the next log of its
    chain, which `open_log` opens; "" if it is whole, or if that cannot be known, or if the times of `filters` exclude
    what is missing. `is_closed` returns what `closed` or `closed_as_read` says about the log.

    Raises BinlogError.
    """
    if following is None or log.is_relay or log.at_startup is None or is_server_url(log.path):
        return ""
    if is_read_once(following.path):  # what this check reads would be missing from the read itself
        return ""
    if is_closed() is not False or (filters is not None and _reaches(log, filters.until_us)):
        return ""
    with open_log() as after:
        if after.at_startup is None or after.is_relay:
            return ""
        if filters is not None and _written_before(after, filters.since_us):
            return ""
        why = "without a start of the server"
        if after.at_startup:
            lost = _lost_before_start(log, after)
            why = f"transactions that neither log contains: {lost}" if lost else ""
    if not why:
        return ""
    return f"{log.shown} is an incomplete copy: it ends without ROTATE or STOP, and {following.name} follows {why}"


def _lost_before_start(log: LogFile, after: LogFile) -> str:
    """Return the GTIDs that the server found when it started, and that a log does not contain; "" if there are none, or
    if that is not known. An object in a store is not read again for that.
    """
    if is_uri(log.path):
        return ""
    scan = BoundaryScan(UNLIMITED, GtidProgress())
    try:
        found = head_gtids(after)
        if not found:
            return ""
        with log.reopen() as again:
            if head_gtids(again) is None:
                return ""
            scan.as_far_as(again, FIRST_EVENT)
    except (FormatError, KeyringError, UnsupportedError):
        return ""
    lost = scan.gtids.lacks(GtidProgress(str(found)))
    return lost if len(lost) <= _MOST_SHOWN else f"{lost[:_MOST_SHOWN]}…"


def next_log(chain: Chain, ordinal: int) -> LogPath | None:
    """Return the log with the number after the number of a file of a chain; None if the chain does not have it."""
    if ordinal + 1 >= len(chain.files):
        return None
    number, following = chain.files[ordinal].number, chain.files[ordinal + 1]
    return following if number is not None and following.number == number + 1 else None


class Holes:
    """Finds the holes between those files of a chain that a read wants. `open_log` opens a file by its ordinal, and
    `take` receives sentences.
    """

    def __init__(
        self,
        chain: Chain,
        filters: TransactionFilter,
        open_log: Callable[[int], LogFile],
        take: TakesHole,
    ) -> None:
        self._chain = chain
        self._filters = filters
        self._open = open_log
        self.take = take

    def before(self, ordinal: int) -> None:
        """Report the logs that are missing between a file and the one before it. Raises BinlogError."""
        hole = self._chain.gap_before(ordinal)
        files = (lambda: self._open(ordinal - 1), lambda: self._open(ordinal))
        if hole and wants_gap(self._filters, *files):
            self.take(hole)

    def after(self, ordinal: int, log: LogFile, begin: int) -> None:
        """Report a file that the read has passed from byte `begin` on, if it is cut off. Raises BinlogError."""
        following = ordinal + 1
        if self._filters.byte_range(following) is None:
            return
        path = next_log(self._chain, ordinal)
        hole = cut_off(
            log,
            path,
            lambda: self._open(following),
            lambda: closed_as_read(log, begin),
            self._filters,
        )
        if hole:
            self.take(hole)


def _ends_closed(log: LogFile) -> bool | None:
    """Look for the event that closes a log in its last bytes."""
    size = log.size
    if size is None:
        return None
    begin = max(FIRST_EVENT, size - _MOST_BYTES)
    data = log.reader.read_at(begin, size - begin)
    for at in range(len(data) - HEADER_BYTES + 1):
        frame = read_frame(data, begin, at)
        if frame.end == size and frame.log_pos == size & _MASK32 and closes_log(frame):
            return True
    return False
