"""Holes in a chain of logs: a log that is missing, and one that is cut off.

A server ends a log with ROTATE, or with STOP when it shuts down. After a crash, a log has neither of them,
but the next one contains the time at which the server started (`LogFile.at_startup`). A log without either of
these signs is an incomplete copy: it was copied while the server wrote it, and was not copied again.

Relay logs have no such sign, because a replica that crashes continues in a log without a start. A server sends
whole logs only (`source.replica.stream`), and MariaDB's InnoDB binlog ends a file where it is full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from binlake.core.events.frames import read_frame
from binlake.errors import SourceError
from binlake.format.event_header import CHECKSUM_BYTES, HEADER_BYTES
from binlake.format.event_types import ROTATE_EVENT, STOP_EVENT
from binlake.format.flags import LOG_EVENT_ARTIFICIAL_F
from binlake.format.magic import FIRST_EVENT
from binlake.source.bytes import is_uri
from binlake.source.chain import Chain, LogPath
from binlake.source.log_file import LogFile
from binlake.source.replica.url import is_server_url
from binlake.values.frame import Frame

if TYPE_CHECKING:
    from binlake.stream.filters import TransactionFilter

#: Receives a sentence about a hole, and may refuse the read.
TakesHole = Callable[[str], None]

# The longest ROTATE: its header, the position in the next log, and the name of that log.
_MOST_BYTES = HEADER_BYTES + 8 + 512 + CHECKSUM_BYTES
_MASK32 = 0xFFFFFFFF


def lacking(hole: str) -> str:
    """Return the warning about a hole for a read that continues."""
    return f"{hole}: the result lacks transactions"


def refusing(what_to_do: str) -> TakesHole:
    """Return a function that raises SourceError for a hole, with this hint."""

    def refuse(hole: str) -> None:
        raise SourceError(hole, hint=what_to_do)

    return refuse


def closes_log(last: Frame) -> bool:
    """Whether the server has closed a log with this event."""
    is_end = last.type_code in (ROTATE_EVENT, STOP_EVENT)
    return is_end and not last.flags & LOG_EVENT_ARTIFICIAL_F


def written_before(log: LogFile, since_us: int | None) -> bool:
    """Whether the server had written everything before a log by the time `since_us`."""
    # `created` has whole seconds
    return (
        since_us is not None
        and log.created is not None
        and (log.created + 1) * 1_000_000 <= since_us
    )


def closed(log: LogFile) -> bool | None:
    """Whether the server has closed a log that a read has passed; None if that is not known: of an object in a
    store, the end is not requested again.
    """
    if log.ibb is not None:
        return True
    if log.tail is not None:
        return False
    if log.last_event is not None:
        return closes_log(log.last_event)
    return None if is_uri(log.path) else closed_by_its_end(log)


def closed_by_its_end(log: LogFile) -> bool | None:
    """Whether the last bytes of a log show that the server has closed it; None if they cannot be read alone."""
    if not log.is_splittable or log.encrypted_from is not None:
        return None
    with log.reopen() as again:
        return _ends_closed(again)


def cut_off(
    log: LogFile,
    following: LogPath | None,
    open_log: Callable[[], LogFile],
    since_us: int | None = None,
    is_closed: Callable[[LogFile], bool | None] = closed,
) -> str:
    """Return a sentence if a log that a read has passed is cut off before `following`, the next log of its
    chain, which `open_log` opens; "" if it is whole, or if that cannot be known, or if the read wants only what
    was written since a later time. `is_closed` decides whether the server has closed the log.

    Raises BinlogError.
    """
    if following is None or log.is_relay or log.at_startup is None or is_server_url(log.path):
        return ""
    if is_closed(log) is not False:
        return ""
    with open_log() as after:
        if after.at_startup is not False or after.is_relay or written_before(after, since_us):
            return ""
    return (
        f"{log.shown} is an incomplete copy: it ends without ROTATE or STOP, and {following.name} follows without"
        " a start of the server"
    )


def next_log(chain: Chain, ordinal: int) -> LogPath | None:
    """Return the log whose number follows that of a file of a chain; None if the chain does not have it."""
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
        if hole and self._filters.since_us is not None:
            with self._open(ordinal) as log:
                if written_before(log, self._filters.since_us):
                    return
        if hole:
            self.take(hole)

    def after(self, ordinal: int, log: LogFile) -> None:
        """Report a file that the read has passed, if it is cut off. Raises BinlogError."""
        following = ordinal + 1
        if self._filters.byte_range(following) is None:
            return
        path, since_us = next_log(self._chain, ordinal), self._filters.since_us
        if hole := cut_off(log, path, lambda: self._open(following), since_us):
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
