"""Find which history of an archive a server continues, and where the archive of a new server
begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO

from binlake.archive.folder import Folder
from binlake.archive.layout import (
    STATE,
    ArchiveState,
    checked_identity,
    checked_name,
    is_identity,
    mariadb_identity,
    number_of,
)
from binlake.errors import FormatError, OptionError, PositionLostError, SourceError
from binlake.format.magic import BINLOG_MAGIC, FIRST_EVENT
from binlake.source.bytes import open_reader
from binlake.source.log_file import LogFile
from binlake.source.reader import ByteReader
from binlake.source.replica.connection import ServerConnection, ServerLog, without_spaces
from binlake.source.replica.follower import Block, Follower, FollowOptions
from binlake.source.resolve import log_name
from binlake.source.streams import StreamReader
from binlake.stream.positions.gtid_search import head_gtids
from binlake.values.gtid import GtidSet, MariaGtidSet
from binlake.values.position import Position
from binlake.values.quantities import first_to_last

OLDEST = "oldest"
NEWEST = "newest"
# The beginning of a log identifies it: its time, and the GTIDs executed before it.
_BEGINNING_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Known:
    """A history in an archive."""

    directory: str
    state: ArchiveState


def known_histories(root: Folder) -> list[Known]:
    """Return the histories in an archive, the last written first. Raises SourceError."""
    found = []
    for name in root.directories():
        folder = root.sub(name)
        data = folder.read(STATE)
        if data is not None:
            found.append(Known(name, _state(data, folder.path_of(STATE), name)))
    return sorted(found, key=lambda known: known.state.written, reverse=True)


def _state(data: bytes, path: str, directory: str) -> ArchiveState:
    """Return the state of a history; if the store kept only half of it, the state by the
    directory's name.

    Recovery relies on the logs.
    """
    try:
        return ArchiveState.from_bytes(data, path)
    except SourceError:
        identity, _, generation = directory.partition(".")
        if not is_identity(identity):
            raise
        flavour = "mariadb" if identity.startswith("server-") else "mysql"
        return ArchiveState(identity, flavour, int(generation) if generation.isdecimal() else 1)


def history_of(
    root: Folder, known: Sequence[Known], server: ServerConnection
) -> tuple[str, ArchiveState | None]:
    """Return the identity of a server in an archive, and its newest history, None for a new
    server.

    A MariaDB server has no UUID. It is recognised by its `server_uid`, or, if that has changed, by
    its logs being those in the archive. Raises ServerError, SourceError.
    """
    identity = checked_identity(server.identity)
    newest: dict[str, ArchiveState] = {}
    for history in sorted(known, key=lambda history: history.state.generation):
        newest[history.state.identity] = history.state
    if server.flavour != "mariadb":
        return identity, newest.get(identity)
    uid = server.uid
    numbered = [s for i, s in newest.items() if i == identity or i.startswith(f"{identity}-")]
    for state in numbered:
        if uid and state.server_uid == uid:
            return state.identity, replace(state, server_uid=uid, address=server.where)
    for state in numbered:
        if _goes_on(root, state, server, uid):
            return state.identity, replace(state, server_uid=uid, address=server.where)
    return mariadb_identity(server.server_id, uid), None


def _goes_on(root: Folder, state: ArchiveState, server: ServerConnection, uid: str) -> bool:
    """Whether a server is the one of a history, although no identifier proves it."""
    if not uid:
        return True
    if state.offset > FIRST_EVENT and state.file in [log.name for log in server.logs()]:
        log = stored_log(root.sub(state.directory), state.file)
        if log is not None:
            with log:
                return begins_alike(server, log)
    # of an archive without such numbers; or there is nothing left to compare
    return not state.server_uid or state.address == server.where


def stored_log(folder: Folder, name: str) -> ByteReader | None:
    """Return a reader of a log in a directory, whatever its stored form, None if it is not there. Raises SourceError."""
    sizes = folder.sizes()
    for stored in (name, f"{name}.zst", f"{name}.gz"):
        if stored in sizes:
            return open_reader(folder.path_of(stored))
    return folder.open_log(name).reader() if name in folder.unfinished() else None


def is_there(server: ServerConnection, file: str, size: int) -> str | None:
    """Return None if a server can continue a log of which the archive has `size` bytes, else the
    reason.

    Raises PositionLostError if the log was purged: then the data in between is lost.
    """
    logs = server.logs()
    base = file.rpartition(".")[0]
    for log in logs:
        if log.name == file:
            if log.size_bytes >= size:
                return None
            return f"{file} has {log.size_bytes} bytes on the server, but {size} in the archive"
    same = [log.name for log in logs if log.name.rpartition(".")[0] == base]
    if not same:
        return f"the server's logs now have a different name: {logs[-1].name if logs else 'none'}"
    if number_of(checked_name(same[-1])) < number_of(file):
        return f"the server no longer has {file}; its newest log is {same[-1]}"
    raise PositionLostError(
        f"{server.where} has purged {file}, the next log of the archive; it has {same[0]} to"
        f" {same[-1]}",
        hint="the data in between is lost; use --restart-if-lost to begin another directory with"
        f" {same[0]}",
    )


def first_log(server: ServerConnection, known: Sequence[Known], wanted: str) -> tuple[str, str]:
    """Return the log with which the archive of a new server begins, and the reason as a sentence.

    `wanted` is a name, "newest", or "oldest". With "oldest", if this server has all
    transactions of another one in the archive (a failover), it is the log that holds the next one.
    Raises OptionError, ServerError.
    """
    logs = server.logs()
    names = [checked_name(log.name) for log in logs]
    if not names:
        raise PositionLostError(f"{server.where} has no logs")
    if wanted == NEWEST:
        return names[-1], "the newest log of the server"
    if wanted not in (OLDEST, ""):
        if wanted not in names:
            raise OptionError(
                f"{server.where} has no log {wanted}; it has {first_to_last(names)}",
                name="from",
            )
        return wanted, "as asked"
    for history in known:
        state = history.state
        if state.gtid_set and state.flavour == server.flavour and _has_all(server, state.gtid_set):
            name = _log_of_next(server, logs, state.gtid_set)
            if name is not None:
                return name, f"it contains the transactions after {history.directory}"
    return names[0], "the oldest log of the server"


def _has_all(server: ServerConnection, gtid_set: str) -> bool:
    """Whether a server has executed all of a set, so that it may have taken another's place."""
    if server.flavour == "mariadb":
        state = MariaGtidSet.parse(server.value("SELECT @@GLOBAL.gtid_binlog_state") or "")
        reached = MariaGtidSet.parse(gtid_set)
        return all((state.last(g.domain_id, g.server_id) or 0) >= g.seq_no for g in reached)
    executed = GtidSet.parse(without_spaces(server.value("SELECT @@GLOBAL.gtid_executed")))
    return not GtidSet.parse(gtid_set) - executed


def _log_of_next(server: ServerConnection, logs: Sequence[ServerLog], gtid_set: str) -> str | None:
    """Return the last log before which only transactions of the set were executed."""
    low, high = 0, len(logs) - 1
    if not _began_within(server, logs[0].name, gtid_set):
        return None  # the next transaction was purged on this server
    while low < high:
        middle = (low + high + 1) // 2
        if _began_within(server, logs[middle].name, gtid_set):
            low = middle
        else:
            high = middle - 1
    return logs[low].name


def _began_within(server: ServerConnection, name: str, gtid_set: str) -> bool:
    """Whether everything executed before a log began is in a set. Raises ServerError."""
    before = gtids_before(server, name)
    if isinstance(before, GtidSet):
        return not before - GtidSet.parse(gtid_set)
    if isinstance(before, MariaGtidSet):
        reached = {gtid.domain_id: gtid.seq_no for gtid in MariaGtidSet.parse(gtid_set)}
        return all(gtid.seq_no <= reached.get(gtid.domain_id, 0) for gtid in before)
    return False


def gtids_before(server: ServerConnection, name: str) -> GtidSet | MariaGtidSet | None:
    """Return the GTIDs executed before a log, as it records them; None if it does not. Raises
    ServerError.
    """
    data = BINLOG_MAGIC
    for piece in _beginning(server, name):
        data += piece
        reader = StreamReader(name, partial(BytesIO, data), reopenable=True)
        with suppress(FormatError), LogFile(reader, name) as log:
            if (found := head_gtids(log)) is not None:
                return found
    return None


def gtid_text(gtids: GtidSet | MariaGtidSet | None) -> str:
    """Return the set in the form of a position: for MariaDB the last GTID of each domain."""
    if isinstance(gtids, MariaGtidSet):
        return gtids.position_text()
    return "" if gtids is None else str(gtids)


def begins_alike(server: ServerConnection, log: ByteReader) -> bool:
    """Whether a server's log and an archived one begin with the same bytes. Raises ServerError."""
    at = FIRST_EVENT
    for data in _beginning(server, log_name(log.name)):
        known = log.read_at(at, len(data))
        if known != data[: len(known)]:
            return False
        at += len(data)
    return True


def _beginning(server: ServerConnection, name: str) -> Iterator[bytes]:
    """Return the first bytes of a server's log, from its first event on."""
    # one more attempt: a wrong checksum is an error only when it comes again
    options = FollowOptions.of(server.url, attempts=1, until_current=True, semi_sync=False)
    start = Position(server.identity, name, FIRST_EVENT)
    left = _BEGINNING_BYTES
    with Follower(server.url, start, replace(options, block_bytes=_BEGINNING_BYTES)) as follower:
        for item in follower:
            if not isinstance(item, Block) or item.file != name or left <= 0:
                return
            left -= len(item.data)
            yield item.data
