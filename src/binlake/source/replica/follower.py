"""A replica of a live server: blocks of its logs, without an end, across failures.

    follower = Follower("mysql://repl@db1,db2/", Position("", "binlog.000012", 4711))
    for item in follower:
        if isinstance(item, Block): …       # bytes of the server's file, whole events
        else: …                             # Idle: nothing more for now
        follower.acknowledge(item.file, item.offset)

After a lost connection the follower reconnects, after a growing pause, and continues at the next
event of the same file. If the server does not come back and you named others, the follower
continues by GTID at the first incomplete transaction, on a server that has the rest.
"""

from __future__ import annotations

import contextlib
import random
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Self

from binlake.errors import (
    BinlogError,
    ChecksumError,
    ConnectionLostError,
    OptionError,
    PositionLostError,
    ServerError,
)
from binlake.format.magic import FIRST_EVENT
from binlake.source.replica.commands import Ack
from binlake.source.replica.connection import (
    ServerConnection,
    ServerLog,
    connect,
)
from binlake.source.replica.packets import PacketReader
from binlake.source.replica.progress import Progress
from binlake.source.replica.session import FollowOptions, start_dump
from binlake.source.replica.stream import (
    PLAIN_TYPES,
    Block,
    DumpStream,
    Idle,
    Item,
    is_earlier_log,
)
from binlake.source.replica.url import ServerUrl
from binlake.values.gtid import GtidSet, MariaGtidSet
from binlake.values.position import Position

__all__ = ["Block", "FollowOptions", "Follower", "Idle", "Item"]

_RECEIVE_BYTES = 8 << 20
# How often each of several servers is tried for a position that it reports as unavailable.
_ROUNDS = 5

# ER_SOURCE_FATAL_ERROR_READING_BINLOG and the meanings of its text.
_FATAL = 1236
_TWICE = re.compile(r"same server_uuid|same server_id|same server id", re.IGNORECASE)
_DAMAGED = re.compile(
    r"bogus data|corrupt|truncated|max_allowed_packet|event read from|checksum", re.IGNORECASE
)
# ER_SPECIFIC_ACCESS_DENIED_ERROR
_NOT_ALLOWED = 1227
# Error codes of a dump that another try may mend: killed, shut down, out of resources.
_PASSING = (1053, 1077, 1317, 1927, 3168)


class Follower:
    """Follows the servers of `urls` (the first that answers) from `start` on.

    `start.file` "" begins after `start.gtid_set`, and if that is empty too, at the oldest log.
    `start.server_uuid` is the server of the file; on another server the GTID set counts. Iterating
    raises PositionLostError (the position no longer exists), AuthError, ServerError,
    ChecksumError; `close`, from another thread too, ends it. `say` receives one line when a
    connection is lost.
    """

    def __init__(
        self,
        urls: str | ServerUrl | Iterable[str | ServerUrl],
        start: Position,
        options: FollowOptions | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.urls = _parsed(urls)
        self._say = say
        given = FollowOptions.of(self.urls[0]) if options is None else options
        # two with one UUID would disconnect each other, also when they share their options
        self.options = replace(given, replica_uuid=str(uuid.uuid4()))
        self.server: ServerConnection | None = None
        self._start = start
        self._identity = start.server_uuid
        self._file = start.file
        self._offset = max(start.offset, FIRST_EVENT)
        self._created = self.options.created
        self._progress: Progress | None = None
        self._stream: DumpStream | None = None
        self._semi_sync = False
        self._replica_id = 0
        self._failures = 0
        self._refusals = 0
        self._bad_at = self.options.damaged
        self._closed = False
        self._turn = 0
        # Whether the server was asked by GTID. Then it is asked so again: what comes behind the
        # place may hold transactions that came from another server, in another order.
        self._by_gtid = False
        # Whether the GTIDs before the start are known, which another server is not to send.
        self._past_known = bool(start.gtid_set) or not start.file
        self._past_sought = self._past_known

    @property
    def position(self) -> Position:
        """Where the next event lies, and the GTIDs of the transactions that have come whole."""
        gtids = self._start.gtid_set if self._progress is None else self._progress.gtid_set()
        return Position(self._identity, self._file, self._offset, gtids)

    @property
    def created(self) -> int | None:
        """The timestamp of the current file's format description, None while it is not known."""
        return self._created

    @property
    def damaged(self) -> tuple[str, str, int] | None:
        """Where a wrong checksum came last, for the `FollowOptions` of a follower that asks again."""
        return self._bad_at

    @property
    def format_description(self) -> bytes:
        """The current file's format description event as the source sent it, b"" before it came.

        What begins inside of a file has none in its blocks.
        """
        return b"" if self._stream is None else self._stream.format_description

    def __iter__(self) -> Iterator[Item]:
        while not self._closed:
            try:
                yield from self._one_connection()
                return
            except (ConnectionLostError, OSError, EOFError) as error:
                self._pause(self._lost(error))
            except PositionLostError as error:
                # one of several may only be behind, or be the one that purged
                self._refusals += 1
                if self._refusals > _ROUNDS * (len(self.urls) - 1):
                    raise
                self._pause(ConnectionLostError(str(error)))
            except ValueError:
                if not self._closed:  # else a socket that `close` took away
                    raise
            finally:
                self._disconnect()

    def acknowledge(self, file: str, offset: int) -> None:
        """Everything before `offset` of `file` is durable: tell a semi-synchronous source.

        Does nothing where none waits. A connection that is lost meanwhile is noticed by iterating.
        """
        stream, server = self._stream, self.server
        if not self._semi_sync or stream is None or server is None or stream.awaited is None:
            return
        if (file, offset) < stream.awaited and file == stream.awaited[0]:
            return
        stream.awaited = None
        try:
            server.driver.send(Ack(file, offset).encode())
        except Exception:  # noqa: BLE001 - PyMySQL's and the system's; iterating says it
            return

    def close(self) -> None:
        """End the connection and the iteration."""
        self._closed = True
        self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- one connection ----------------------------------------------------------------------

    def _one_connection(self) -> Iterator[Item]:
        """Everything that one connection brings. Returns where a dump that does not wait ends."""
        server = self.server = connect(self.urls[self._turn % len(self.urls)])
        by_gtid = self._place(server)
        known = self._known(server, by_gtid=by_gtid)
        progress = self._progress
        assert progress is not None
        gtids = progress.gtid_set() if by_gtid else None
        if gtids is not None and not known[0]:
            # what came of a transaction elsewhere is forgotten: it comes again whole, or is not here
            progress = Progress(server.flavour, gtids)
        until = server.end() if self.options.until_current else None
        report = start_dump(server, self.options, self._file, self._offset, gtids, self._replica_id)
        self._replica_id = report.replica_id
        self._semi_sync = report.semi_sync
        receiver = server.driver.begin_stream(self.options.dead_after_s)
        receiver.grow(_RECEIVE_BYTES)
        reader = PacketReader(
            receiver, PLAIN_TYPES, self.options.max_event_bytes, semi_sync=report.semi_sync
        )
        stream = self._stream = DumpStream(
            reader, "" if by_gtid else self._file, report.offset, progress,
            known=known, source=server.identity, by_gtid=by_gtid, verify=self.options.verify_checksum,
            drops=self.options.skip_replication == "drop",
            gaps=self.options.skip_replication == "filter",
            block_bytes=self.options.block_bytes,
        )  # fmt: skip
        try:
            for item in stream:
                self._take_note(stream, item, server.identity, by_gtid=by_gtid)
                yield item
        except ChecksumError as error:
            self._judge_damage(error, (server.identity, stream.file, stream.offset))
        except ServerError as error:
            self._check_created(stream, server.identity)
            raise self._judged(error, server) from None
        if self.options.until_gtid and _has_reached(progress.gtid_set(), self.options.until_gtid):
            return
        if until is None or _is_before((self._file, self._offset), until):
            # the server ends a dump like this when it shuts down, or its thread is killed
            raise EOFError("the server has ended the dump")

    def _take_note(self, stream: DumpStream, item: Item, identity: str, *, by_gtid: bool) -> None:
        """Something has come of the server `identity`: the place behind it is where we are now.

        Not before: until then the place, and the transaction that is open there, are those of the
        server that was followed before.
        """
        self._check_created(stream, identity)
        if isinstance(item, Block) or item.confirmed:  # else only time has passed
            self._failures = self._refusals = 0
        if not item.file:
            return
        if stream.created is not None or (identity, item.file) != (self._identity, self._file):
            self._created = stream.created
        self._progress = stream.progress
        self._identity, self._file, self._by_gtid = identity, item.file, by_gtid
        self._offset = item.end if isinstance(item, Block) else item.offset

    def _place(self, server: ServerConnection) -> bool:
        """Find out where to begin on this server; whether by GTID. Raises PositionLostError."""
        if self._progress is None:
            self._progress = Progress(server.flavour, self._start.gtid_set)
        elif self._progress.flavour != server.flavour:
            raise ServerError(
                f"{server.where} is no {self._progress.flavour}, as the one before was"
            )
        same = self._identity in ("", server.identity)
        gtids = self._progress.gtid_set()
        bounded = bool(self.options.until_gtid)  # which goes with a connection by GTID only
        if bounded and (server.flavour != "mariadb" or (self._file and not gtids)):
            raise OptionError(
                "until-gtid is MariaDB's, and goes with a start by GTID", name="until-gtid",
                hint="give the GTIDs to start after, as --after does",
            )  # fmt: skip
        if self._file and same and not bounded and not self._by_gtid:
            self._check_log(server)
            self._identity = server.identity
            self._look_before(server)
            return False
        if not self._file and not gtids and not bounded:
            self._file, self._offset = server.logs()[0].name, FIRST_EVENT
            self._identity = server.identity
            self._past_known = self._past_sought = False
            self._look_before(server)
            return False
        if not gtids and not bounded:
            raise PositionLostError(
                f"{server.where} is {server.identity}, not {self._identity}, whose "
                f"{self._file}:{self._offset} is wanted",
                hint="without GTIDs a position means nothing on another server",
            )
        if not same and not self._past_known:
            start = (
                f"{self._start.file}:{self._start.offset}"
                if self._start.file
                else "(the oldest log)"
            )
            raise PositionLostError(
                f"{server.where} is {server.identity}, not {self._identity}, of which what is"
                " before"
                f" the start {start} is not known",
                hint="a start by GTID can be followed on another server, too",
            )
        _check_gtids(server, gtids)
        return True

    def _look_before(self, server: ServerConnection) -> None:
        """Learn, before anything has come, the GTIDs of what is before the start."""
        if self._past_sought:
            return
        self._past_sought = True
        with contextlib.suppress(ServerError):  # who may not ask learns nothing
            past = server.gtids_before(self._file, self._offset)
            self._past_known = past is not None
            self._progress = Progress(server.flavour, past or "")

    def _known(self, server: ServerConnection, *, by_gtid: bool) -> tuple[str, int]:
        """The place on this server before which all has come; ("", 0) where there is none."""
        if by_gtid:
            if self._identity not in ("", server.identity):
                return "", 0
            with contextlib.suppress(ServerError):  # who may not list them is not asked
                if self._file not in [log.name for log in server.logs()]:
                    return "", 0
        return self._file, self._offset

    def _check_log(self, server: ServerConnection) -> None:
        """Whether the wanted place can be on the server at all. Raises PositionLostError."""
        try:
            logs = server.logs()
        except ServerError as error:
            if error.code != _NOT_ALLOWED:
                raise
            return  # the dump itself needs less, and will tell
        for log in logs:
            if log.name == self._file:
                if self._offset > log.size_bytes:
                    raise PositionLostError(
                        f"{server.where}: {log.name} ends at {log.size_bytes}, before "
                        f"{self._offset}, from where it is wanted",
                        hint="the server lost what it had already sent (a crash with sync_binlog "
                        "other than 1), or its logs were reset",
                    )
                return
        raise PositionLostError(
            f"{server.where} has no {self._file} any more: {_names(logs)} are there",
            hint="its logs were purged or reset",
        )

    def _check_created(self, stream: DumpStream, identity: str) -> None:
        """Whether the file is still the one that was read. Raises PositionLostError."""
        known, now = self._created, stream.created
        is_same = (identity, stream.file) == (self._identity or identity, self._file)
        if is_same and None not in (known, now) and known != now:
            raise PositionLostError(
                f"{stream.file} of {identity} is another file than the one that was read",
                hint="the server's logs were reset",
            )

    # -- what goes wrong ---------------------------------------------------------------------

    def _judged(self, error: ServerError, server: ServerConnection) -> BinlogError:
        """The error of a dump, by what it means for us."""
        text = f"{server.where}: {error.message}"
        if isinstance(error, PositionLostError | ConnectionLostError):
            return error
        if error.code in _PASSING:
            return ConnectionLostError(text, code=error.code)
        if error.code != _FATAL:
            return type(error)(text, hint=error.hint, **error.context)
        if _TWICE.search(text):
            return ServerError(
                text, code=error.code, hint="another replica has our number: leave server-id away"
            )
        if _DAMAGED.search(text):
            return ServerError(text, code=error.code)
        return PositionLostError(f"{text} ({self._there()})", code=error.code)

    def _there(self) -> str:
        """What the server has, for a message."""
        try:
            with connect(self.urls[self._turn % len(self.urls)]) as server:
                purged = server.purged()
                logs = _names(server.logs())
        except BinlogError:
            return "and does not say what it has"
        return f"there are {logs}" + (f"; purged: {purged}" if purged else "")

    def _judge_damage(self, error: ChecksumError, place: tuple[str, str, int]) -> None:
        """A wrong checksum once may be the network's; twice at one place it is the log's."""
        if self._bad_at == place:
            raise error
        self._bad_at = place
        raise ConnectionLostError(str(error))

    def _lost(self, error: BaseException) -> ConnectionLostError:
        if isinstance(error, ConnectionLostError):
            return error
        where = self.server.where if self.server is not None else str(self.urls[0])
        return ConnectionLostError(f"{where}: {error}")

    def _pause(self, error: ConnectionLostError) -> None:
        """Wait before the next try, on the next server; raise `error` where tries are used up."""
        self._failures += 1
        # the server that was just lost may only have been restarted
        self._turn += self._failures > 1
        limit = self.options.attempts
        if limit is not None and self._failures > limit:
            raise error.hinted(f"binlake gives up after {self._failures} failures in a row")
        if self._failures == 1:
            self._say(f"{error}: trying again")
        rounds = (self._failures - 1) // len(self.urls)
        longest = min(self.options.longest_backoff_s, self.options.backoff_s * 2 ** min(rounds, 16))
        # not for secrets: so that many do not come back at one time
        deadline = time.monotonic() + random.uniform(longest / 2, longest)
        while not self._closed and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))

    def _disconnect(self) -> None:
        server, self.server, self._stream = self.server, None, None
        if server is not None:
            server.abort()


def _is_before(place: tuple[str, int], other: tuple[str, int]) -> bool:
    """Whether a place in the server's logs lies before another."""
    (file, offset), (other_file, other_offset) = place, other
    return offset < other_offset if file == other_file else is_earlier_log(file, other_file)


def _has_reached(gtids: str, until: str) -> bool:
    """Whether GTIDs of MariaDB go as far as others, in the domains of which any have come."""
    position = MariaGtidSet.parse(gtids).position()
    return all(
        gtid.domain_id not in position or position[gtid.domain_id].seq_no >= gtid.seq_no
        for gtid in MariaGtidSet.parse(until)
    )


def _parsed(urls: str | ServerUrl | Iterable[str | ServerUrl]) -> tuple[ServerUrl, ...]:
    given: Sequence[str | ServerUrl]
    given = [urls] if isinstance(urls, str | ServerUrl) else list(urls)
    parsed: list[ServerUrl] = []
    for url in given:
        parsed += [url] if isinstance(url, ServerUrl) else ServerUrl.parse_all(url)
    if not parsed:
        raise OptionError("no server given", name="url")
    return tuple(url.log("") for url in parsed)


def _check_gtids(server: ServerConnection, gtids: str) -> None:
    """Whether the server can go on from a MySQL set: it has all of it, and nothing else is purged.

    (MariaDB finds out when it is asked.) Raises PositionLostError.
    """
    if server.flavour == "mariadb":
        return
    ours = GtidSet.parse(gtids)
    executed = GtidSet.parse("".join((server.value("SELECT @@GLOBAL.gtid_executed") or "").split()))
    errant = ours - executed
    if errant:
        raise PositionLostError(
            f"{server.where} has never had {errant}, which has been read already",
            hint="it lags behind the server that was read, or these transactions were only on that server (errant)",
        )
    lost = GtidSet.parse(server.purged()) - ours
    if lost:
        raise PositionLostError(
            f"{server.where} has purged {lost}, which has not been read yet",
            hint=f"there are {_names(server.logs())}",
        )


def _names(logs: Sequence[ServerLog]) -> str:
    if not logs:
        return "no logs"
    return f"{logs[0].name} to {logs[-1].name}" if len(logs) > 1 else f"{logs[0].name} alone"
