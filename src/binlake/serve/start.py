"""Find where a stream begins: the request of a replica as a file, a position and a selection.

By position it is the position in the request. By GTID it is the newest file before which nothing
was executed that the replica lacks, found from the beginnings of the files (as in
stream/positions/gtid_search.py). A request that cannot be served is error 1236 with a text that
names the available logs.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from binlake.core.events.checksum import event_crc32, stored_crc32
from binlake.core.events.frames import read_frame
from binlake.errors import TruncatedError
from binlake.events.mariadb.gtid_list import GtidListEvent
from binlake.events.mysql.previous_gtids import PreviousGtidsEvent
from binlake.format.event_header import CHECKSUM_BYTES, HEADER_BYTES
from binlake.format.magic import FIRST_EVENT
from binlake.printable import printable, truncated
from binlake.serve.answers import lost, no_such_log
from binlake.serve.dump_selection import DumpSelection, Everything, MissingTransactions
from binlake.serve.library import Library
from binlake.serve.mariadb_selection import MariadbSelection, Wishes
from binlake.source.chain import LogPath
from binlake.source.log_file import LogFile
from binlake.values.gtid import GtidSet, MariaGtid, MariaGtidIntervals, MariaGtidSet

_MAX_SHOWN = 200  # characters of a set of GTIDs in an error's text


@dataclass(frozen=True, slots=True)
class Start:
    """Byte `position` of the log `name`, and the selection of events."""

    name: str
    position: int
    selection: DumpSelection
    by_gtid: bool = False


def by_position(library: Library, name: str, position: int) -> Start:
    """Return the start that a file name and a position mean. Raises ServerError (1236),
    BinlogError.
    """
    file = library.chain.files[0] if not name else library.find(name)
    if file is None:
        raise no_such_log(_shown(name), library.chain.shown)
    if position < FIRST_EVENT:
        raise lost(
            f"Client requested source to start replication from position < 4: {position} of"
            f" {file.name}"
        )
    if position > FIRST_EVENT:
        _check_boundary(library, file, position)
    return Start(file.name, position, Everything())


def of_mariadb_position(library: Library, name: str, position: int, wishes: Wishes) -> Start:
    """Return the start that a file name and a position mean for a replica of MariaDB.

    The replica may not support all events of the log (`wishes`). Raises ServerError (1236), BinlogError.
    """
    start = by_position(library, name, position)
    return Start(start.name, start.position, MariadbSelection(wishes, MariaGtidSet()))


def by_gtid_set(library: Library, have: GtidSet, server_uuid: str) -> Start:
    """MySQL: everything that is not in `have`. Raises ServerError (1236), BinlogError."""
    purged = library.purged()
    missing = purged - have
    if missing:
        raise lost(
            "Cannot replicate because the source purged required binary logs: the archive has"
            f" {library.chain.shown} and begins after {_shown(str(purged))}; the replica lacks"
            f" {_shown(str(missing))} of that. Provision it from a backup, or take these from"
            " elsewhere"
        )
    ours = GtidSet.parse(f"{server_uuid}:1-{(1 << 63) - 2}") & have
    if ours:
        raise lost(
            "Replica has more GTIDs than the source has, using the source's SERVER_UUID:"
            f" {_shown(str(ours))}"
        )
    for file in reversed(library.chain.files):
        head = library.head(file)
        before = None if head is None else head.before
        if isinstance(before, PreviousGtidsEvent) and not before.gtids - have:
            return Start(file.name, FIRST_EVENT, MissingTransactions(have), by_gtid=True)
    first = library.chain.files[0]  # files before GTIDs: nothing records their predecessors
    return Start(first.name, FIRST_EVENT, MissingTransactions(have), by_gtid=True)


def by_connect_state(library: Library, wishes: Wishes, *, ignore_duplicates: bool) -> Start:
    """MariaDB: after the replica's last GTID of each domain.

    Raises ServerError (1236), BinlogError.
    """
    connect = wishes.connect or {}
    if connect:
        _check_connect_state(library, connect, ignore_duplicates=ignore_duplicates)
    for file in reversed(library.chain.files):
        head = library.head(file)
        before = None if head is None else head.before
        if isinstance(before, GtidListEvent) and _begins_early_enough(before, connect):
            selection = MariadbSelection(wishes, before.gtid_set)
            return Start(file.name, FIRST_EVENT, selection, by_gtid=True)
    first = library.head(library.chain.files[0])
    if first is not None and first.before is None:  # files before GTIDs
        name = library.chain.files[0].name
        return Start(name, FIRST_EVENT, MariadbSelection(wishes, MariaGtidSet()), by_gtid=True)
    begins = "" if first is None or first.before is None else str(MariaGtidSet(first.before.gtids))  # type: ignore[arg-type]
    raise lost(
        "Could not find GTID state requested by slave in any binlog files. Probably the slave state"
        f" is too old and required binlog files have been purged: the archive has {library.chain.shown}"
        f" and begins after {_shown(begins)}"
    )


def _begins_early_enough(before: GtidListEvent, connect: dict[int, MariaGtid]) -> bool:
    """Whether a file and those after it hold everything that a replica lacks
    (contains_all_slave_gtid).
    """
    current = before.gtid_set.position()
    for gtid in before.gtids:
        wanted = connect.get(gtid.domain_id)
        if wanted is None:
            return False
        if gtid.server_id != wanted.server_id or wanted.seq_no > gtid.seq_no:
            continue
        # in an earlier file: only if nothing of the domain came after it there
        if wanted.seq_no < gtid.seq_no or current[gtid.domain_id] != gtid:
            return False
    return True


def _check_connect_state(
    library: Library, connect: dict[int, MariaGtid], *, ignore_duplicates: bool
) -> None:
    """Whether the log holds the replica's last transaction of each domain."""
    executed = library.executed()
    assert isinstance(executed, MariaGtidIntervals)
    reached: dict[int, dict[int, int]] = {}
    for (domain, server), last in executed.last_numbers():
        reached.setdefault(domain, {})[server] = last
    for wanted in connect.values():
        servers = reached.get(wanted.domain_id)
        if servers is None:  # a domain that comes from elsewhere
            continue
        if servers.get(wanted.server_id, 0) >= wanted.seq_no:
            continue
        newest = max(servers.values())
        if ignore_duplicates and newest < wanted.seq_no:
            continue
        there = ", ".join(f"{wanted.domain_id}-{s}-{n}" for s, n in sorted(servers.items()))
        diverged = (
            ". Since the master's binlog contains GTIDs with higher sequence numbers, it probably"
            " means that the slave has diverged due to executing extra erroneous transactions"
            if newest >= wanted.seq_no
            else ""
        )
        raise lost(
            f"Error: connecting slave requested to start from GTID {wanted}, which is not in the"
            f" master's binlog, which ends at {_shown(there)}{diverged}"
        )


def _check_boundary(library: Library, file: LogPath, position: int) -> None:
    """Check that an event begins at a position, or the log ends there. Raises ServerError if not."""
    with library.open(file) as log:
        if _begins_event(log, position):
            return
        below, above = FIRST_EVENT, 0
        with suppress(TruncatedError):  # a torn tail is the end
            for window in log.windows(verify=False):
                at = window.block.find(position)
                if at < len(window):
                    above = window.frame(at).offset
                    below = window.frame(at - 1).offset if at else below
                    break
                below = window.frame(len(window) - 1).offset
        if position in (above, log.size):
            return
        if log.size is not None and position > log.size:
            raise lost(
                "Client requested source to start replication from position > file size:"
                f" {file.name} has {log.size} bytes, wanted is {position}"
            )
    raise lost(
        f"bogus data in log event: no event begins at position {position} of {file.name}; events"
        f" around it begin at {below}" + (f" and {above}" if above else "")
    )


def _begins_event(log: LogFile, position: int) -> bool:
    """Whether the bytes at a position are an event, without a walk from the start."""
    head = log.reader.read_at(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES or log.format is None:
        return False
    frame = read_frame(head, position, 0)
    if frame.length < HEADER_BYTES + CHECKSUM_BYTES or frame.log_pos != frame.end & 0xFFFFFFFF:
        return False
    if not log.format.checksum_bytes:
        return True
    raw = log.reader.read_at(position, frame.length)
    return len(raw) == frame.length and stored_crc32(raw) == event_crc32(raw)


def _shown(text: str) -> str:
    """Return a text from outside, shortened to leave room in an error."""
    return truncated(printable(text) or "nothing", _MAX_SHOWN)
