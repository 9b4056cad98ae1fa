"""The listening socket: one thread for each connection, limits before anybody is trusted."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable

from binlake.errors import BinlogError, OptionError, ServerError
from binlake.serve.answers import ACCESS_DENIED, CON_COUNT, error, printable, refused
from binlake.serve.channel import Channel, PeerGoneError
from binlake.serve.identity import identity
from binlake.serve.library import Library
from binlake.serve.login import log_in
from binlake.serve.replicas import Replica, Replicas
from binlake.serve.session import Served, Session
from binlake.serve.settings import Settings
from binlake.serve.tls import ServerTls

__all__ = ["BinlogServer"]

_ACCEPT_SECONDS = 0.5
_STOP_SECONDS = 10.0
# A wrong password is answered later each time, up to this.
_FIRST_DELAY_SECONDS = 0.2
_LAST_DELAY_SECONDS = 5.0
_FORGET_SECONDS = 60.0
_HOSTS_REMEMBERED = 1024


class BinlogServer:
    """Serves one library. `say` gets one line for each thing that happens.

        server = BinlogServer(Settings("/archive", "replica", "secret"), print)
        server.start()      # listens at server.address
        server.run()        # until another thread (or a signal's handler) calls stop()
        server.close()

    Raises SourceError and OptionError where there is nothing to serve or nowhere to listen.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self.settings = settings
        self.library = Library(
            settings.path, settings.source, settings.keyring, settings.poll_seconds
        )
        self.tls = ServerTls(settings.certificate, settings.private_key)
        self.who = identity(settings, self.library)
        self.replicas = Replicas()
        self.refused_logins = 0
        self._tell = say
        self._stop = threading.Event()
        self._served = Served(
            settings, self.library, self.who, self.replicas, time.monotonic(), self._stop, self._say
        )
        self._hosts = _Hosts(settings.max_logins)
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

    def start(self) -> None:
        """Listen, and watch the files. Raises OptionError for an address that cannot be had."""
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
                time.sleep(_FIRST_DELAY_SECONDS)  # out of file descriptors: some will come back
                continue
            self._accept(connection, str(address[0]), int(address[1]))

    def stop(self) -> None:
        """End `run`. May be called in a signal's handler."""
        self._stop.set()

    def close(self) -> None:
        """End all connections and give back what is held."""
        self._stop.set()
        if self._listener is not None:
            self._listener.close()
        self.library.stop()
        deadline = time.monotonic() + _STOP_SECONDS
        with self._lock:
            left = list(self._open.values())
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
            if self._stop.is_set():  # `close` has seen all that there is to end
                channel.close()
                return
            if len(self._open) < self.settings.max_connections:
                self._begin(channel, host, port)
                return
        self._turn_away(channel, host)

    def _begin(self, channel: Channel, host: str, port: int) -> None:
        """Start the thread of a connection; the caller holds the lock."""
        self._last_id += 1
        number = self._last_id
        thread = threading.Thread(
            target=self._serve,
            args=(channel, number, host, port),
            name=f"replica-{number}",
            daemon=True,
        )
        self._open[number] = channel, thread
        thread.start()

    def _say(self, text: str) -> None:
        """One line: clients choose names that go into it, before anybody trusts them."""
        self._tell(printable(text))

    def _turn_away(self, channel: Channel, host: str) -> None:
        """In the listening thread, so without waiting: an ERR packet fits into any socket's buffer."""
        try:
            channel.write(error(refused(CON_COUNT, "08004", "Too many connections")))
        except PeerGoneError:
            pass
        finally:
            channel.close()
        self._say(f"{host} was turned away: {self.settings.max_connections} connections are open")

    def _serve(self, channel: Channel, number: int, host: str, port: int) -> None:
        """One connection, in its thread."""
        replica = Replica(number, f"{host}:{port}", channel.abort)
        try:
            if self._log_in(channel, replica, number, host):
                self.replicas.add(replica)
                ways = [" with TLS"] * channel.is_tls
                ways += [f", compressed by {channel.compression}"] * bool(channel.compression)
                self._say(f"{replica.address} connected" + "".join(ways))
                account = f"{self.settings.user}@{host}"
                Session(channel, self._served, replica, account).run()
                self._say(f"{replica.name} left{_reached(replica)}")
        except PeerGoneError as problem:
            self._say(f"{replica.name} {problem.message}{_reached(replica)}")
        except BinlogError as problem:
            self._say(f"{replica.name}: {problem}")
        finally:
            self.replicas.remove(replica)
            channel.close()
            with self._lock:
                self._open.pop(number, None)

    def _log_in(self, channel: Channel, replica: Replica, number: int, host: str) -> bool:
        if not self._hosts.begin(host):
            channel.write(error(refused(CON_COUNT, "08004", "Too many connections are logging in")))
            return False
        try:
            deadline = time.monotonic() + self.settings.handshake_seconds
            log_in(channel, self.settings, self.tls, self.who, number, host, deadline)
        except ServerError as problem:
            if problem.code == ACCESS_DENIED:
                self.refused_logins += 1
                self._stop.wait(self._hosts.delay(host))
            channel.write(error(problem))
            self._say(f"{replica.address} was refused: {problem.message}")
            return False
        finally:
            self._hosts.end(host)
        self._hosts.forget(host)
        return True


class _Hosts:
    """Logins under way and wrong passwords, by host: one host cannot keep another's replicas out."""

    def __init__(self, max_logins: int) -> None:
        self._max_logins = max_logins
        self._lock = threading.Lock()
        self._under_way: Counter[str] = Counter()
        self._by_host: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def begin(self, host: str) -> bool:
        """Whether one more login may begin; then `end` is owed."""
        with self._lock:
            if self._under_way[host] >= self._max_logins:
                return False
            self._under_way[host] += 1
            return True

    def end(self, host: str) -> None:
        """A login has ended."""
        with self._lock:
            self._under_way[host] -= 1
            if not self._under_way[host]:
                del self._under_way[host]

    def delay(self, host: str) -> float:
        """Seconds to wait before telling a host that its password is wrong again."""
        with self._lock:
            count, at = self._by_host.pop(host, (0, 0.0))
            now = time.monotonic()
            count = 1 if now - at > _FORGET_SECONDS else count + 1
            self._by_host[host] = count, now
            while len(self._by_host) > _HOSTS_REMEMBERED:
                self._by_host.popitem(last=False)
        return min(_FIRST_DELAY_SECONDS * 2.0 ** min(count - 1, 10), _LAST_DELAY_SECONDS)

    def forget(self, host: str) -> None:
        """A host has logged in."""
        with self._lock:
            self._by_host.pop(host, None)


def _reached(replica: Replica) -> str:
    progress = replica.progress
    return f" at {progress.file}:{progress.position}" if progress.file else ""
