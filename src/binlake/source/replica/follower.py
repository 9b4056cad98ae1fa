"""A replica of a live server: blocks of its logs, without an end, across failures.

    follower = Follower("mysql://repl@db1,db2/", Position("", "binlog.000012", 4711))
    for item in follower:
        if isinstance(item, Block): …       # bytes of the server's file, whole events
        else: …                             # Idle: nothing more for now
        follower.acknowledge(item.file, item.offset)

After a lost connection the follower reconnects, after a growing pause, and continues at the next
event of the same file. If the server does not come back and you named others, the follower
continues by GTID at the first incomplete transaction, on a server that has the rest.

One module, although it is long: each way to go on after a failure needs the server, the position and the GTIDs of all attempts before.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from binlake.errors import (
    BinlogError,
    ChecksumError,
    ConnectionLostError,
    OptionError,
    PositionLostError,
    ServerError,
    TornLogError,
)
from binlake.format.magic import FIRST_EVENT
from binlake.source.replica.commands import Ack
from binlake.source.replica.connection import (
    ServerConnection,
    ServerLog,
    connect,
    without_spaces,
)
from binlake.source.replica.handshake import FollowOptions, start_dump
from binlake.source.replica.packets import PacketReader
from binlake.source.replica.pauses import Pauses
from binlake.source.replica.progress import Progress
from binlake.source.replica.stream import (
    PLAIN_TYPES,
    Block,
    DumpStream,
    Idle,
    Item,
    is_earlier_log,
)
from binlake.source.replica.url import ServerUrl
from binlake.values.closing import Closing
from binlake.values.gtid import GtidSet, MariaGtidSet
from binlake.values.position import NO_POSITION, LogPosition, Position

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
# MariaDB leaves a log as a crash has cut it off, and cannot send the event at its end.
_TORN = re.compile(r"truncated in the middle of event", re.IGNORECASE)
# MySQL does not send transactions with GTIDs if gtid_mode is OFF, nor those without if it is ON.
_GTID_MODE = re.compile(r"GTID_MODE = (ON|OFF)", re.IGNORECASE)
# ER_SPECIFIC_ACCESS_DENIED_ERROR
_NOT_ALLOWED = 1227
# Error codes of a dump that another try may fix: killed, shut down, out of resources.
_PASSING = (1053, 1077, 1317, 1927, 3168)


class Follower(Closing):
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
        self._pauses = Pauses(self.options.backoff_s, self.options.longest_backoff_s)
        self._refusals = 0
        self._bad_at = self.options.damaged
        self._closed = False
        self._turn = 0
        #: The last log that ended inside of an event, because the server crashed; "" if there is none.
        self.torn = ""
        self._left_open = ""
        # Whether the server was asked by GTID. Then binlake asks by GTID again, because after the
        # position there may be transactions from another server, in another order.
        self._by_gtid = False
        # Whether the GTIDs before the start are known, so that another server can leave them out.
        self._past_known = bool(start.gtid_set) or not start.file
        self._past_sought = self._past_known

    @property
    def position(self) -> Position:
        """The position of the next event, and the GTIDs of the transactions that have arrived completely."""
        gtids = self._start.gtid_set if self._progress is None else self._progress.gtid_set()
        return Position(self._identity, self._file, self._offset, gtids)

    @property
    def created(self) -> int | None:
        """The timestamp of the current file's format description, None while it is not known."""
        return self._created

    @property
    def damaged(self) -> tuple[str, str, int] | None:
        """The place of the last wrong checksum, for the `FollowOptions` of a follower that asks again."""
        return self._bad_at

    @property
    def format_description(self) -> bytes:
        """The current file's format description event as the source sent it, b"" before it arrives.

        The blocks do not contain it if following began inside the file.
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
                # one of several servers may lag, or may have purged its logs
                self._refusals += 1
                if self._refusals > _ROUNDS * (len(self.urls) - 1):
                    raise
                self._pause(ConnectionLostError(str(error)))
            except TornLogError as error:
                self._pass_torn_log(error)
            except ValueError:
                if not self._closed:  # otherwise `close` has closed the socket
                    raise
            finally:
                self._disconnect()

    def acknowledge(self, file: str, offset: int) -> None:
        """Everything before `offset` of `file` is durable: acknowledge it to a semi-synchronous source.

        Does nothing if no source waits. Iteration reports a connection that is lost meanwhile.
        """
        stream, server = self._stream, self.server
        if not self._semi_sync or stream is None or server is None or stream.awaited is None:
            return
        if (file, offset) < stream.awaited and file == stream.awaited.file:
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

    # -- one connection ----------------------------------------------------------------------

    def _one_connection(self) -> Iterator[Item]:
        """Yield everything from one connection. Returns the position at which a dump that does not wait ends."""
        server = self.server = connect(self.urls[self._turn % len(self.urls)])
        if self._closed:  # while it was connecting: `close` had no connection to end
            return
        by_gtid = self._place(server)
        known = self._known(server) if by_gtid else LogPosition(self._file, self._offset)
        progress = self._progress
        assert progress is not None
        gtids = progress.gtid_set() if by_gtid else None
        if gtids is not None and not known.file:
            # forget the part of a transaction that another server sent: this one sends it whole, or does not have it
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
            block_bytes=self.options.block_bytes, left_open=self._left_open,
        )  # fmt: skip
        moved_at = time.monotonic()
        try:
            for item in stream:
                before = self._file, self._offset
                self._take_note(stream, item, server.identity, by_gtid=by_gtid)
                if isinstance(item, Block) or before != (self._file, self._offset):
                    moved_at = time.monotonic()
                elif until is not None:
                    self._check_end_comes(moved_at)
                yield item
        except ChecksumError as error:
            self._judge_damage(error, (server.identity, stream.file, stream.offset))
        except ServerError as error:
            self._check_created(stream, server.identity)
            raise self._judged(error, server) from None
        if self.options.until_gtid and _has_reached(progress.gtid_set(), self.options.until_gtid):
            return
        if until is None or _is_before(LogPosition(self._file, self._offset), until):
            # the server ends a dump like this when it shuts down, or its thread is killed
            raise EOFError("the server has ended the dump")

    def _check_end_comes(self, moved_at: float) -> None:
        """Raise ServerError for a dump that does not wait, and yet sends heartbeats and neither events nor its end."""
        silent_s = time.monotonic() - moved_at
        if silent_s > self.options.dead_after_s:
            raise ServerError(
                f"for {silent_s:.0f} s the server has sent heartbeats, but neither events nor the end of its log",
                hint="omit --until-current to follow the server",
            )

    def _take_note(self, stream: DumpStream, item: Item, identity: str, *, by_gtid: bool) -> None:
        """Record that the server `identity` has sent something: the position is now one in its logs.

        Until then, the position and the open transaction are those of the previous server.
        """
        self._pauses.connected()
        self._check_created(stream, identity)
        # a log that must begin with a start of the server has been accepted
        if stream.created is not None:
            self._left_open = ""
        if (
            isinstance(item, Block) or item.confirmed
        ):  # otherwise the heartbeat shows only that time has passed
            self._failures = self._refusals = 0
        if not item.file:
            return
        if stream.created is not None or (identity, item.file) != (self._identity, self._file):
            self._created = stream.created
        self._progress = stream.progress
        self._identity, self._file, self._by_gtid = identity, item.file, by_gtid
        self._offset = item.end if isinstance(item, Block) else item.offset

    def _place(self, server: ServerConnection) -> bool:
        """Find the position to begin at on this server; return whether it is by GTID. Raises PositionLostError."""
        if self._progress is None:
            self._progress = Progress(server.flavour, self._start.gtid_set)
        elif self._progress.flavour != server.flavour:
            raise ServerError(
                f"{server.where} is not a {self._progress.flavour} server, as the previous one was"
            )
        same = self._identity in ("", server.identity)
        gtids = self._progress.gtid_set()
        bounded = bool(self.options.until_gtid)  # which needs a connection by GTID
        if bounded and (server.flavour != "mariadb" or (self._file and not gtids)):
            raise OptionError(
                "until-gtid needs a MariaDB server and a start by GTID", name="until-gtid",
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
                f"{server.where} is {server.identity}, but position {self._file}:{self._offset} "
                f"belongs to {self._identity}",
                hint="without GTIDs, a position is valid on one server only",
            )
        if not same and not self._past_known:
            start = (
                f"{self._start.file}:{self._start.offset}"
                if self._start.file
                else "(the oldest log)"
            )
            raise PositionLostError(
                f"{server.where} is {server.identity}, not {self._identity}, and the GTIDs before"
                f" the start {start} are unknown",
                hint="with a start by GTID, binlake can continue on another server",
            )
        _check_gtids(server, gtids)
        return True

    def _look_before(self, server: ServerConnection) -> None:
        """Before the first event arrives, ask for the GTIDs before the start."""
        if self._past_sought:
            return
        self._past_sought = True
        with contextlib.suppress(ServerError):  # without the privilege, they stay unknown
            past = server.gtids_before(self._file, self._offset)
            self._past_known = past is not None
            self._progress = Progress(server.flavour, past or "")

    def _known(self, server: ServerConnection) -> LogPosition:
        """The position on this server before which everything has been received, if it continues by GTIDs;
        `NO_POSITION` if there is none.
        """
        if self._identity not in ("", server.identity):
            return NO_POSITION
        with contextlib.suppress(ServerError):  # without the privilege, the logs cannot be listed
            if self._file not in [log.name for log in server.logs()]:
                return NO_POSITION
        return LogPosition(self._file, self._offset)

    def _check_log(self, server: ServerConnection) -> None:
        """Check that the server can have the wanted position. Raises PositionLostError."""
        try:
            logs = server.logs()
        except ServerError as error:
            if error.code != _NOT_ALLOWED:
                raise
            return  # the dump needs fewer privileges, and reports a lost position
        for log in logs:
            if log.name == self._file:
                if self._offset > log.size_bytes:
                    raise PositionLostError(
                        f"{server.where}: {log.name} ends at {log.size_bytes}, before the "
                        f"position {self._offset} to continue at",
                        hint="the server lost events that it had already sent (a crash with sync_binlog "
                        "other than 1), or its logs were reset",
                    )
                return
        raise PositionLostError(
            f"{server.where} no longer has {self._file}; it has {_names(logs)}",
            hint="its logs were purged or reset",
        )

    def _check_created(self, stream: DumpStream, identity: str) -> None:
        """Check that the file is still the one that was read. Raises PositionLostError."""
        known, now = self._created, stream.created
        is_same = (identity, stream.file) == (self._identity or identity, self._file)
        if is_same and None not in (known, now) and known != now:
            raise PositionLostError(
                f"{stream.file} of {identity} is not the file that was read before",
                hint="the server's logs were reset",
            )

    # -- errors -------------------------------------------------------------------------------

    def _judged(self, error: ServerError, server: ServerConnection) -> BinlogError:
        """Convert the error of a dump by its effect on the follower."""
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
        if _TORN.search(text):
            file = None if self._stream is None else self._stream.file
            return TornLogError(text, code=error.code, file=file)
        if _GTID_MODE.search(text):
            return ServerError(
                text,
                code=error.code,
                is_passing=True,
                hint="set gtid_mode to OFF_PERMISSIVE or ON_PERMISSIVE until binlake has read the logs from before the change, and a transaction behind it",
            )
        if _DAMAGED.search(text):
            return ServerError(text, code=error.code)
        # the text may also mean a server that lags, or that cannot read its log: the next start compares the logs
        return PositionLostError(f"{text} ({self._there()})", code=error.code, is_passing=True)

    def _pass_torn_log(self, error: TornLogError) -> None:
        """Go on with the log after the one that ends inside of an event: the transaction there was never committed.

        The stream refuses the next log if it does not begin with a start of the server. Raises `error` if there is no next log.
        """
        assert self._progress is not None
        file = str(error.file)
        with connect(self.urls[self._turn % len(self.urls)]) as server:
            names = [log.name for log in server.logs()]
            is_same = server.identity == self._identity
        later = names[names.index(file) + 1 :] if is_same and file in names else []
        if not later or file == self.torn or self.options.until_gtid:
            raise error
        self._say(
            f"{server.where}: {file} ends at {self._offset} inside of a transaction, because the server crashed:"
            f" continuing with {later[0]}"
        )
        self.torn = self._left_open = file
        self._file, self._offset, self._created, self._by_gtid = later[0], FIRST_EVENT, None, False
        self._progress = Progress(self._progress.flavour, self._progress.gtid_set())

    def _there(self) -> str:
        """Describe the server's logs, for a message."""
        try:
            with connect(self.urls[self._turn % len(self.urls)]) as server:
                purged = server.purged()
                logs = _names(server.logs())
        except BinlogError:
            return "and does not name its logs"
        return f"it has {logs}" + (f"; purged: {purged}" if purged else "")

    def _judge_damage(self, error: ChecksumError, position: tuple[str, str, int]) -> None:
        """One wrong checksum may be an error of the network; a second one at the same position is damage in the log."""
        if self._bad_at == position:
            raise error
        self._bad_at = position
        raise ConnectionLostError(str(error))

    def _lost(self, error: BaseException) -> ConnectionLostError:
        if isinstance(error, ConnectionLostError):
            return error
        where = self.server.where if self.server is not None else str(self.urls[0])
        return ConnectionLostError(f"{where}: {error}")

    def _pause(self, error: ConnectionLostError) -> None:
        """Wait before the next try, on the next server; raise `error` if no tries are left."""
        self._failures += 1
        # the server that was just lost may only have been restarted
        self._turn += self._failures > 1
        limit = self.options.attempts
        if limit is not None and self._failures > limit:
            if limit == 0:  # the caller decides about further attempts
                raise error
            raise error.hinted(f"binlake gives up after {self._failures} failures in a row")
        if self._failures == 1:
            self._say(f"{error}: trying again")
        deadline = time.monotonic() + self._pauses.next_s(len(self.urls))
        while not self._closed and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))

    def _disconnect(self) -> None:
        server, self.server, self._stream = self.server, None, None
        if server is not None:
            server.abort()


def _is_before(position: LogPosition, other: LogPosition) -> bool:
    """Whether a position in the server's logs lies before another."""
    if position.file == other.file:
        return position.offset < other.offset
    return is_earlier_log(position.file, other.file)


def _has_reached(gtids: str, until: str) -> bool:
    """Return whether GTIDs of MariaDB include others, in the domains that have any."""
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
    """Check that the server can continue from a MySQL set: it has all of it, and has purged nothing else.

    (MariaDB checks this itself.) Raises PositionLostError.
    """
    if server.flavour == "mariadb":
        return
    ours = GtidSet.parse(gtids)
    executed = GtidSet.parse(without_spaces(server.value("SELECT @@GLOBAL.gtid_executed")))
    errant = ours - executed
    if errant:
        raise PositionLostError(
            f"{server.where} has never had {errant}, which has been read already",
            hint="it lags behind the server that was read, or these transactions were only on that server (errant)",
            is_passing=True,
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
