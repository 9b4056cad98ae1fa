"""Copy the logs of servers into an archive: connect, find where to continue, write, and reconnect.

    Archiver(urls, open_folder("/backup/binlogs"), ArchiveOptions()).run()

The archiver follows one server at a time: the first of `urls` that answers, and the next one when
that server stays away. Each server has its own directory. The directory of a server that takes
another's place begins with the log that holds the next transaction.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile

from binlake.archive.finishing import Finish, Finisher
from binlake.archive.folder import Folder
from binlake.archive.layout import ArchiveState, number_of
from binlake.archive.metrics import ArchiveMetrics
from binlake.archive.retention import Retention, expired, purge
from binlake.archive.start import (
    OLDEST,
    Known,
    begins_alike,
    first_log,
    gtid_text,
    gtids_before,
    history_of,
    is_there,
    known_histories,
    stored_log,
)
from binlake.archive.writer import AnotherHistory, HistoryWriter
from binlake.errors import BinlogError, OptionError, PositionLostError, ServerError
from binlake.format.event_header import TIMESTAMP_AT, TYPE_AT
from binlake.format.magic import FIRST_EVENT
from binlake.source.replica.connection import ServerConnection, connect
from binlake.source.replica.follower import Block, Follower, FollowOptions, Idle
from binlake.source.replica.pauses import Pauses
from binlake.source.replica.url import ServerUrl
from binlake.values.position import NO_POSITION, LogPosition, Position

# While more data is coming, a crash of the machine may lose this much; none of it is acknowledged.
_SYNC_BYTES = 64 << 20
_SYNC_SECONDS = 1.0
# An object store wants few and large objects.
_STORE_SYNC_SECONDS = 10.0
# How often an idle server gets an acknowledgement.
_IDLE_SYNC_SECONDS = 0.05
_LOOK_SECONDS = 15.0
_TRIES_PER_SERVER = 3
_BEGINNINGS_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """How an archive is made.

    - `until_current`: end where the server's log ends now.
    - `finish`: how complete logs are finished.
    - `first`: the log with which the archive of a new server begins: a name, "oldest" or "newest".
    - `restart_if_lost`: if the server has purged the next log, begin another directory instead of failing.
    - `sync_s`: how long data may wait, while more is coming, before it is made durable (None: 1
      second, in an object store 10).
    - `most_beginnings`: how many directories the archive begins for an address within an hour: a server whose logs
      are reset again and again would fill the disk with copies of its first log.
    - `attempts`: how many connections in a row may fail before the archiver gives up; None: no limit.
    """

    until_current: bool = False
    finish: Finish = field(default_factory=Finish)
    first: str = OLDEST
    restart_if_lost: bool = False
    retention: Retention = field(default_factory=Retention)
    sync_s: float | None = None
    attempts: int | None = None
    backoff_s: float = 0.5
    longest_backoff_s: float = 30.0
    most_beginnings: int = 20


class Archiver:
    """Archives servers into `root`. `say` receives messages for the user, one line each."""

    def __init__(
        self,
        urls: Sequence[ServerUrl],
        root: Folder,
        options: ArchiveOptions,
        say: Callable[[str], None] = lambda _: None,
        metrics: ArchiveMetrics | None = None,
    ) -> None:
        self._urls = [url.log("") for url in urls]
        self._root = root
        self._options = options
        self._say = say
        self.metrics = metrics if metrics is not None else ArchiveMetrics()
        self._failures = 0
        self._pauses = Pauses(options.backoff_s, options.longest_backoff_s)
        self._turn = 0
        self._identity = ""  # of the last server
        # whose logs were reset, and what shows it: its next connection begins another history
        self._reset = ("", "")
        self._closed = threading.Event()
        self._follower: Follower | None = None
        self._finishers: dict[str, Finisher] = {}
        self._unreadable = ""  # the last message about a log that stops the age limit
        self._was_connected = False
        self._end = NO_POSITION  # of the logs in the archive
        self._failed_at: LogPosition | None = None
        self._damaged: tuple[str, str, int] | None = None  # the position of the last wrong checksum
        for url in self._urls:
            if url.option("skip-replication", "keep") != "keep":
                raise OptionError(
                    "an archive contains all events of a log: it does not support skip-replication",
                    name="skip-replication",
                )

    def run(self) -> None:
        """Archive until the server's end (`until_current`), until `close`, or without an end.

        Raises BinlogError for an error that a retry cannot solve.
        """
        try:
            while not self._closed.is_set():
                try:
                    self._follow(self._urls[self._turn % len(self._urls)])
                    if self._options.until_current:
                        return
                except AnotherHistory as why:
                    self._reset = (self._identity, str(why))
                except (ServerError, OSError, EOFError) as error:
                    if self._closed.is_set():
                        return
                    self._judge(error)
        finally:
            for finisher in self._finishers.values():
                finisher.wait()
                if self._closed.is_set():
                    finisher.stop()

    @property
    def failed(self) -> int:
        """How many complete logs could not be indexed or compressed; stderr has the reasons."""
        return sum(finisher.failed for finisher in self._finishers.values())

    def close(self) -> None:
        """End `run`, from another thread or a signal handler. Logs that are not indexed or
        compressed yet are left to the next start.
        """
        self._closed.set()
        if self._follower is not None:
            self._follower.close()

    # -- one connection ------------------------------------------------------------------------

    def _follow(self, url: ServerUrl) -> None:
        with connect(url) as server:
            writer, start = self._begin(server)
        self._was_connected, self._identity = True, writer.state.identity
        path = writer.folder.path
        if path not in self._finishers:
            self._finishers[path] = Finisher(
                writer.folder, self._options.finish, self._say, self._closed
            )
        finisher = self._finishers[path]
        try:
            finisher.begin(writer.end.file)
            self._copy(url, writer, start, finisher)
            if self._options.until_current:
                self._finish(writer, finisher)
                finisher.wait()
                self._purge(writer, finisher)
        finally:
            if self._follower is not None:
                self._damaged = self._follower.damaged
            self._follower = None
            self._end = writer.end
            self.metrics.lost_connection()
            writer.close()
            self._finish(writer, finisher)

    def _begin(self, server: ServerConnection) -> tuple[HistoryWriter, Position]:
        """Open the directory of a server; return the position to request."""
        known = known_histories(self._root)
        identity, state = history_of(self._root, known, server)
        why = self._reset[1] if self._reset[0] == identity else ""
        if state is not None and not why:
            with ExitStack() as unused:
                writer = HistoryWriter(self._root.sub(state.directory), state)
                start = writer.resume()
                unused.callback(writer.close)
                why = self._why_not(server, writer, start) or ""
                if not why:
                    start = start or self._first(server, [])
                    self._greet(server, writer, start)
                    unused.pop_all()
                    return writer, replace(start, server_uuid=server.identity)
        _check_beginnings(server, [one.state for one in known], self._options.most_beginnings)
        generation = 1 if state is None else state.generation + 1
        begun = ArchiveState(
            identity, server.flavour, generation, server_uid=server.uid, address=server.where
        )
        others = [history for history in known if history.state.identity != identity]
        start = self._first(server, [] if state is not None else others)
        if state is not None:
            self._say(
                f"{why}: the archive continues in {begun.directory}/; the logs in the old"
                " directory are kept"
            )
        with ExitStack() as unused:
            writer = HistoryWriter(self._root.sub(begun.directory), begun)
            writer.resume()
            unused.callback(writer.close)
            self._reset = ("", "")
            self._greet(server, writer, start)
            unused.pop_all()
        return writer, replace(start, server_uuid=server.identity)

    def _why_not(
        self, server: ServerConnection, writer: HistoryWriter, start: Position | None
    ) -> str | None:
        """Return why a server cannot continue a directory. Raises PositionLostError."""
        if start is None:
            return None
        file, size = writer.end
        if (
            file != start.file
        ):  # the archive has complete logs only: the next one may not have begun
            file, size = start.file, 0
        try:
            why_not = is_there(server, file, size)
        except PositionLostError as error:
            if not self._options.restart_if_lost:
                raise
            return error.message
        if why_not is not None:
            return why_not
        log = writer.last_bytes
        if log is None:  # a history from before a reset has files of the same names
            file = writer.end.file
            is_kept = file in [found.name for found in server.logs()]
            log = stored_log(writer.folder, file) if is_kept else None
        if log is None:
            return None
        with log:
            alike = begins_alike(server, log)
        return None if alike else f"{file} on the server differs from the log in the archive"

    def _first(self, server: ServerConnection, others: Sequence[Known]) -> Position:
        name, why = first_log(server, others, self._options.first)
        self._say(f"begins with {name}: {why}")
        before = gtids_before(server, name)
        return Position(server.identity, name, FIRST_EVENT, gtid_text(before))

    def _greet(self, server: ServerConnection, writer: HistoryWriter, start: Position) -> None:
        found = writer.resumed
        file, size = writer.end
        self.metrics.server = writer.state.directory
        self.metrics.file, self.metrics.offset = file or start.file, size
        with suppress(BinlogError, ValueError):
            self._measure(server, start.file, size if file == start.file else 0)
        self._say(f"{server.where} is {server.flavour} {server.version_text}, {server.identity}")
        if found is not None:
            lost = (
                f", and discards {found.lost} bytes of an incomplete event after it"
                if found.lost
                else ""
            )
            self._say(f"continues at {file}:{found.size}{lost}")

    def _copy(
        self, url: ServerUrl, writer: HistoryWriter, start: Position, finisher: Finisher
    ) -> None:
        until_current = self._options.until_current
        options = FollowOptions.of(
            url, attempts=0, until_current=until_current, damaged=self._damaged
        )
        pacer = _Pacer(writer, self._options, semi_sync=options.semi_sync)
        begun_at = writer.end
        with Follower(url, start, options) as follower:
            self._follower = follower
            if self._closed.is_set():
                return
            for item in follower:
                self.metrics.connected = True
                self._pauses.connected()
                if isinstance(item, Block):
                    writer.take(item)
                    self._count(item)
                else:
                    self.metrics.nothing_more()
                if writer.end != begun_at or _is_the_end(item, writer):
                    self._failures = 0
                if pacer.is_due(item):
                    self._sync(writer, follower)
                    pacer.synced()
                elif pacer.is_due_soon() and writer.sync_soon(follower.position.gtid_set):
                    pacer.synced()
                self._count_durable(writer)
                if writer.finished and writer.state.file == writer.end.file:
                    self._finish(writer, finisher)
                if pacer.is_time_to_look():
                    self._look(url, writer)
        # the end of a dump that does not wait
        writer.sync(follower.position.gtid_set)
        self._count_durable(writer)

    def _count(self, block: Block) -> None:
        # the header of the last event is not looked for: the first one's time is as good
        self.metrics.came(
            len(block.data), int.from_bytes(block.data[TIMESTAMP_AT:TYPE_AT], "little")
        )

    def _sync(self, writer: HistoryWriter, follower: Follower) -> None:
        file, offset = writer.sync(follower.position.gtid_set)
        if file:
            follower.acknowledge(file, offset)

    def _count_durable(self, writer: HistoryWriter) -> None:
        """Update the numbers for durable data."""
        metrics = self.metrics
        metrics.file, metrics.offset = writer.state.file, writer.state.offset
        while writer.syncs:
            metrics.syncs += 1
            metrics.sync_s += writer.syncs.popleft()

    def _finish(self, writer: HistoryWriter, finisher: Finisher) -> None:
        names, writer.finished = writer.finished, []
        for name in names:
            self.metrics.logs_finished += 1
            self._say(f"{name} is complete")
        finisher.add(names)
        self._purge(writer, finisher)

    def _purge(self, writer: HistoryWriter, finisher: Finisher) -> None:
        self.metrics.logs_unfinished = finisher.unfinished
        found = expired(writer.folder, self._options.retention, writer.end[0])
        self._note_unreadable(found.unreadable)
        names = list(takewhile(lambda name: not finisher.is_at(name), found.names))
        if not names:
            return
        writer.settle()  # it writes the index file, too
        purge(writer.folder, names)
        finisher.forget(names)
        for name in names:
            self._say(f"removed {name}: its retention has ended")

    def _note_unreadable(self, error: BinlogError | None) -> None:
        """Report, once, a log that keeps the age limit from removing the logs before it."""
        self.metrics.retention_blocked = error is not None
        said = "" if error is None else str(error)
        if error is not None and said != self._unreadable:
            self._say(
                f"retention by age removes no more logs, because the next log cannot be read: {said}. Replace a"
                " damaged log with an intact copy. --keep-bytes works without reading the logs"
            )
        self._unreadable = said

    def _look(self, url: ServerUrl, writer: HistoryWriter) -> None:
        """Do the periodic work beside the copying."""
        for finisher in self._finishers.values():  # also of former histories
            finisher.poll()
        self._purge(writer, self._finishers[writer.folder.path])
        if self.metrics.caught_up:
            return
        with suppress(BinlogError, ValueError), connect(url) as server:
            self._measure(server, *writer.end)

    def _measure(self, server: ServerConnection, file: str, offset: int) -> None:
        """Return how many bytes a server has after a position of its logs."""
        later = [log for log in server.logs() if number_of(log.name) >= number_of(file)]
        self.metrics.has_more(max(0, sum(log.size_bytes for log in later) - offset))

    # -- errors --------------------------------------------------------------------------------

    def _judge(self, error: BaseException) -> None:
        """Wait for another attempt, or raise the error."""
        mends = not isinstance(error, BinlogError) or error.retryable
        if not self._was_connected:
            self._turn += 1
            if not mends or self._turn >= len(self._urls):
                raise error
            self._say(f"{error}: trying {self._urls[self._turn].where}")
            return
        if not mends:
            # the logs may have been reset while they were followed: the next connection finds out
            if self._failed_at == self._end:
                raise error
            self._failed_at = self._end
        self._pause(error)

    def _pause(self, error: BaseException) -> None:
        """Wait before the next attempt; raise `error` if there are no more attempts."""
        self._failures += 1
        options = self._options
        if options.attempts is not None and self._failures > options.attempts:
            raise error
        if self._failures == 1:
            self._say(f"{error}: trying again")
        self.metrics.reconnections += 1
        if self._failures % _TRIES_PER_SERVER == 0:
            self._turn += 1
        self._closed.wait(self._pauses.next_s())


def _check_beginnings(server: ServerConnection, states: Sequence[ArchiveState], most: int) -> None:
    """Raise ServerError if the archive has begun `most` directories for an address lately."""
    since = time.time() - _BEGINNINGS_SECONDS
    lately = [one for one in states if one.address == server.where and one.written >= since]
    if len(lately) >= most:
        raise ServerError(
            f"{server.where}: the archive has begun {len(lately)} directories for this server within"
            " an hour, because its logs were reset or its identity changed; it does not begin another",
            hint="find out why the logs of this server are reset",
        )


def _is_the_end(item: Block | Idle, writer: HistoryWriter) -> bool:
    """Whether a server has reported that the archive has everything.

    Receiving the same bytes again is not progress: the next event may end the connection again.
    """
    return isinstance(item, Idle) and item.confirmed and (item.file, item.offset) == writer.end


class _Pacer:
    """Decides when to make received data durable."""

    def __init__(self, writer: HistoryWriter, options: ArchiveOptions, *, semi_sync: bool) -> None:
        cheap = writer.folder.cheap_sync
        self._waited = semi_sync
        usual = _SYNC_SECONDS if cheap else _STORE_SYNC_SECONDS
        self._longest = usual if options.sync_s is None else options.sync_s
        self._idle = _IDLE_SYNC_SECONDS if cheap else self._longest
        self._bytes = 0
        self._last = self._looked = time.monotonic()

    def is_due(self, item: Block | Idle) -> bool:
        """Whether to sync now: a caller waits for it, or there is nothing else to do."""
        if isinstance(item, Block):
            self._bytes += len(item.data)
            return self._waited
        return time.monotonic() - self._last >= self._idle

    def is_due_soon(self) -> bool:
        """Whether so much data, or for so long, is not durable that a sync should start in the
        background.
        """
        return self._bytes >= _SYNC_BYTES or time.monotonic() - self._last >= self._longest

    def synced(self) -> None:
        """Note that the sync is done."""
        self._bytes = 0
        self._last = time.monotonic()

    def is_time_to_look(self) -> bool:
        """Whether it is time for the periodic work."""
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return False
        self._looked = now
        return True
