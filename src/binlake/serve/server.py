"""The listening socket: one thread for each connection, with limits that apply before the login."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from binlake.errors import BinlogError, OptionError, PeerGoneError, ServerError
from binlake.printable import printable
from binlake.serve.answers import ACCESS_DENIED, CON_COUNT, error, refused
from binlake.serve.channel import Channel
from binlake.serve.identity import identity
from binlake.serve.library import Library
from binlake.serve.login import log_in
from binlake.serve.logins import Logins, Pending
from binlake.serve.replicas import Replica, Replicas
from binlake.serve.session import ReplicaSession, Served
from binlake.serve.settings import Settings
from binlake.serve.tls import ServerTls

_ACCEPT_SECONDS = 0.5
_PAUSE_SECONDS = 0.2


class BinlogServer:
    """Serves one library. `note` receives one line for each event.

        server = BinlogServer(Settings("/archive", "replica", "secret"), print)
        server.start()      # listens at server.address
        server.run()        # until another thread (or a signal's handler) calls stop()
        server.close()

    Raises SourceError if there is nothing to serve, OptionError if it cannot listen.
    """

    def __init__(self, settings: Settings, note: Callable[[str], None]) -> None:
        self.settings = settings
        self.library = Library(
            settings.path, settings.source, settings.keyring, settings.poll_seconds
        )
        self.tls = ServerTls(settings.ssl_cert, settings.ssl_key)
        self.who = identity(settings, self.library)
        self.replicas = Replicas()
        self.refused_logins = 0
        self._note = note
        self._stop = threading.Event()
        self._served = Served(
            settings, self.library, self.who, self.replicas, time.monotonic(), self._stop, self.note
        )
        self._logins = Logins(settings.max_logins)
        self._admitted: set[int] = set()  # the connections that have logged in
        self._lock = threading.Lock()
        self._open: dict[int, tuple[Channel, threading.Thread]] = {}
        self._last_id = 0
        self._listener: socket.socket | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on."""
        assert self._listener is not None
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def not_ready(self) -> str:
        """Return the reason why replicas cannot be served now; empty if they can."""
        return "stopping" if self._stop.is_set() else self.library.problem

    def start(self) -> None:
        """Listen, and watch the files. Raises OptionError for an address that cannot be used."""
        settings = self.settings
        try:
            family = socket.AF_INET6 if ":" in settings.bind else socket.AF_INET
            self._listener = socket.create_server(
                (settings.bind, settings.port), family=family, backlog=64
            )
        except (OSError, OverflowError) as problem:
            raise OptionError(
                f"cannot listen on {settings.bind}:{settings.port}: {problem}", name="port"
            ) from None
        self._listener.settimeout(_ACCEPT_SECONDS)
        self.library.start()

    def run(self) -> None:
        """Accept connections until `stop`."""
        assert self._listener is not None
        while not self._stop.is_set():
            try:
                connection, address = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                if self._stop.is_set():
                    return
                time.sleep(_PAUSE_SECONDS)  # out of file descriptors: some will be closed
                continue
            self._accept(connection, str(address[0]), int(address[1]))

    def stop(self) -> None:
        """End `run`. May be called in a signal's handler."""
        self._stop.set()

    def close(self) -> None:
        """End all connections and release resources."""
        self._stop.set()
        if self._listener is not None:
            self._listener.close()
        self.library.stop()
        deadline = time.monotonic() + self.settings.stop_seconds
        with self._lock:
            left = list(self._open.values())
        self._logins.drop_all()
        for replica in self.replicas.listed():
            replica.end()
        for channel, thread in left:
            channel.abort()
            thread.join(max(deadline - time.monotonic(), 0))

    # -- connections -------------------------------------------------------------------------------

    def _accept(self, connection: socket.socket, host: str, port: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        channel = Channel(connection, self.settings.write_seconds)
        with self._lock:
            if self._stop.is_set():  # `close` has already ended all known connections
                channel.close()
                return
            pending, oldest = self._logins.begin(channel, host)
            self._begin(channel, pending, host, port)
        if oldest is not None:
            oldest.drop()
            self.note(f"{oldest.host} did not log in and was dropped for a newer connection")

    def _begin(self, channel: Channel, pending: Pending, host: str, port: int) -> None:
        """Start the thread of a connection; the caller holds the lock."""
        self._last_id += 1
        number = self._last_id
        thread = threading.Thread(
            target=self._serve,
            args=(channel, pending, number, host, port),
            name=f"replica-{number}",
            daemon=True,
        )
        self._open[number] = channel, thread
        thread.start()

    def note(self, text: str) -> None:
        """Print one line: clients choose names that go into it, even before they log in."""
        self._note(printable(text))

    def _serve(self, channel: Channel, pending: Pending, number: int, host: str, port: int) -> None:
        """One connection, in its thread."""
        replica = Replica(number, f"{host}:{port}", channel.abort)
        try:
            if self._log_in(channel, pending, replica, number):
                self.replicas.add(replica)
                ways = [" with TLS"] * channel.is_tls
                ways += [f", compressed by {channel.compression}"] * bool(channel.compression)
                self.note(f"{replica.address} connected" + "".join(ways))
                account = f"{self.settings.user}@{host}"
                ReplicaSession(channel, self._served, replica, account).run()
                self.note(f"{replica.name} left{_reached(replica)}")
        except PeerGoneError as problem:
            if not pending.dropped.is_set():
                self.note(f"{replica.name} {problem.message}{_reached(replica)}")
        except BinlogError as problem:
            self.note(f"{replica.name}: {problem}")
        except Exception as problem:  # noqa: BLE001 - one client must not print tracebacks here
            self.note(f"{replica.name}: internal error, {type(problem).__name__}: {problem}")
        finally:
            self.replicas.remove(replica)
            channel.close()
            with self._lock:
                self._admitted.discard(number)
                self._open.pop(number, None)

    def _log_in(self, channel: Channel, pending: Pending, replica: Replica, number: int) -> bool:
        host = pending.host
        try:
            deadline = time.monotonic() + self.settings.handshake_seconds
            log_in(
                channel, self.settings, self.tls, self.who, number, host, deadline,
                lambda: self._admit(number),
            )  # fmt: skip
        except ServerError as problem:
            if problem.code == ACCESS_DENIED:
                self.refused_logins += 1
                pending.dropped.wait(self._logins.delay(host))
            channel.write(error(problem))
            self.note(f"{replica.address} was refused: {problem.message}")
            self._logins.end(pending)
            return False
        except BaseException:
            self._logins.end(pending)
            raise
        self._logins.forget(host)
        return self._logins.end(pending)

    def _admit(self, number: int) -> None:
        """Give an authenticated client a place. Raises ServerError if there is none."""
        most = self.settings.max_connections
        with self._lock:
            if len(self._admitted) >= most:
                raise refused(CON_COUNT, "08004", f"Too many connections: {most} are open")
            self._admitted.add(number)


def _reached(replica: Replica) -> str:
    progress = replica.progress
    return f" at {progress.file}:{progress.position}" if progress.file else ""
