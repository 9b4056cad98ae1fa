"""The logs of a live server, for a stream that follows them.

The driver asks the server where its log ends, which is always between two transactions. The driver
and the executors read with dumps that do not wait, each from a boundary on. Passwords are not sent
between processes: every process finds its own (environment, password file, ~/.my.cnf).
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from binlake.errors import ConnectionLostError, PositionLostError, ServerError
from binlake.follow.logs import LogsNow, StreamLogs
from binlake.printable import printable
from binlake.source.chain import LogPath
from binlake.source.replica.connection import ServerConnection, connect_any
from binlake.source.replica.url import ServerUrl
from binlake.stream.positions.gtid_progress import GtidProgress
from binlake.stream.positions.gtid_search import head_gtids, is_barely_begun
from binlake.stream.positions.splits import numbered
from binlake.values.options import ReadOptions
from binlake.values.position import Position

T = TypeVar("T")

#: How long to try again after a server has not answered, before the query fails.
PATIENCE_S = 30.0
_FIRST_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True)
class _Listing:
    """The files of a server while `newest` is its current one."""

    server: ServerConnection
    newest: str
    files: Mapping[int, LogPath]


def patiently(
    ask: Callable[[], T],
    patience_s: float,
    forget: Callable[[], None] = lambda: None,
    started: str = "query",
    stop: threading.Event | None = None,
) -> T:
    """Return what `ask` returns; ask again for `patience_s` seconds while the server is not available, 0: never.

    `forget` drops the connection that was lost; `started` is what the user started; `stop` ends the wait. The time counts
    from the first failure: it may itself have taken longer, when the network has forgotten a connection. Raises what `ask` raises.
    """
    deadline, pause = 0.0, _FIRST_PAUSE_S
    stop = stop or threading.Event()
    while True:
        try:
            return ask()
        except ConnectionLostError as error:
            forget()
            if not patience_s:
                raise
            if not deadline:
                deadline = time.monotonic() + patience_s
                pauses = f"trying again for {patience_s:.0f} seconds"
                print(f"binlake: {printable(f'{error.message}; {pauses}')}", file=sys.stderr)
            left = deadline - time.monotonic()
            if left <= 0:
                raise error.hinted(
                    f"binlake tried again for {patience_s:.0f} seconds; start the {started} again "
                    "to continue"
                ) from None
            if stop.wait(min(left, pause * random.uniform(0.5, 1.0))):
                raise
            pause = min(2 * pause, 5.0)


class ServerLogs(StreamLogs):
    """The logs of the first server of a URL that answers.

    If the server is not available, binlake tries again for `patience_s` seconds, 0: never, or until `stop` is set. `started`:
    what the user has started, and is to start again after that.
    """

    pause_s = 0.05

    def __init__(
        self,
        url: str,
        options: ReadOptions,
        patience_s: float = PATIENCE_S,
        stop: threading.Event | None = None,
        started: str = "query",
    ) -> None:
        super().__init__(options)
        self._patience_s = patience_s
        self._stop = stop
        self._started = started
        self._urls = ServerUrl.parse_all(url)
        self._server: ServerConnection | None = None
        self._listing: _Listing | None = None
        self._unlogged: tuple[str, str] | None = None
        self._created: dict[tuple[str, str], int | None] = {}

    def _look(self) -> LogsNow:
        return self._patiently(self._ask)

    def created(self, now: LogsNow, number: int) -> int | None:
        # needed whenever an offset is checked, and each needs a dump: so once per file and login
        key = (now.server_uuid, now.files[number].name)
        created = self._created.get(key)
        if created is None:
            created = self._created[key] = super().created(now, number)
        return created

    def gives_gtids(self) -> bool | None:
        return self._patiently(self._asked_for_gtids)

    def _asked_for_gtids(self) -> bool:
        return self._connected().gives_gtids

    def unlogged_gtids(self, now: LogsNow) -> str:
        return self._patiently(partial(self._asked_for_unlogged_gtids, now))

    def _patiently(self, ask: Callable[[], T]) -> T:
        return patiently(ask, self._patience_s, self.close, self._started, self._stop)

    def _asked_for_unlogged_gtids(self, now: LogsNow) -> str:
        server = self._connected()
        # (after a lost connection, another server may answer)
        purged = server.purged() if server.identity == now.server_uuid else ""
        if self._unlogged is None or self._unlogged[0] != purged:
            self._unlogged = purged, self._not_logged(server, purged)
        return self._unlogged[1]

    def _not_logged(self, server: ServerConnection, purged: str) -> str:
        """Return those of the GTIDs that were purged before that are not in the beginning of the oldest log, either."""
        # else gtid_purged also contains all that it has replicated
        if not purged or not _logs_updates(server):
            return ""
        # listed afterwards: a log that is purged meanwhile only adds to the beginning
        files = self._listed(server, server.end()[0])
        listed = LogsNow((str(server.url),), files, server.identity)
        head = None
        for number in listed.numbers:
            with self.open(listed, number) as log:
                head = head_gtids(log)
                if not is_barely_begun(log):
                    break
        return "" if head is None else GtidProgress(str(head)).lacks(GtidProgress(purged))

    def close(self) -> None:
        super().close()
        if self._server is not None:
            self._server.close()
        self._server = self._listing = self._unlogged = None

    def _ask(self) -> LogsNow:
        server = self._connected()
        name, offset = server.end()
        known = self._listing
        if known is None or known.server is not server or known.newest != name:
            self._created.clear()
            known = self._listing = _Listing(server, name, self._listed(server, name))
        files = dict(known.files)
        newest = next(reversed(files))
        if files[newest].name != name:
            raise ServerError(f"{server.where} does not list its current log {name}")
        files[newest] = LogPath(files[newest].path, name, newest, offset)
        end = Position(server.identity, name, offset)
        return LogsNow((str(server.url),), files, server.identity, end)

    def _listed(self, server: ServerConnection, newest: str) -> dict[int, LogPath]:
        """Return the logs up to the current one of the look."""
        files = []
        for log in server.logs():
            suffix = log.name.rpartition(".")[2]
            if not suffix.isdecimal():
                raise ServerError(f"{server.where} names a log {log.name!r}, without a number")
            url = str(server.url.log(log.name))
            files.append(LogPath(url, log.name, int(suffix), log.size_bytes))
            if log.name == newest:
                break
        if not files:
            raise PositionLostError(f"{server.where} has no binary logs")
        return numbered(files)

    def _connected(self) -> ServerConnection:
        """Return the existing connection, or one to the first server that answers."""
        if self._server is None:
            self._server = connect_any(self._urls)
            self.connections += 1
        return self._server


def _logs_updates(server: ServerConnection) -> bool:
    """Whether a server of MySQL logs the transactions that it replicates."""
    name = "log_replica_updates" if server.version >= (8, 0, 26) else "log_slave_updates"
    return (server.variable(name) or "").upper() in ("ON", "1")
