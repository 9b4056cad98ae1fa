"""Answer Prometheus and probes of health on a port, whatever else connects to it.

The server of prometheus_client has a thread for each connection, waits for a request without a
limit, and prints a stack trace for each connection that breaks and each unreadable `Accept`. An
attacker who reaches the port could keep Prometheus away and fill the journal.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from binlake.errors import OptionError, SourceError, needing
from binlake.printable import printable

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

T = TypeVar("T")
#: Name without the prefix, kind (gauge or counter), meaning, and the value of a sample; None: there is no sample.
Metric: TypeAlias = tuple[str, str, str, Callable[[T], float | None]]

_MOST_CONNECTIONS = 16
_IDLE_SECONDS = 10.0
# prometheus_client compares versions as numbers.
_UNREADABLE_VERSION = re.compile(r"version=(?!\d+(?:\.\d+)*\s*(?:[;,]|$))", re.ASCII)


class MetricsPort:
    """Serves the metrics of a registry until `close`, and two paths for probes.

    `/healthz` answers as long as the process does. `/readyz` answers 503 while `not_ready` returns a
    reason, which is the body.

    There are at most 16 connections: a new one ends the oldest, and a scrape takes milliseconds.
    So connections that send nothing, or a byte now and then, do not keep Prometheus away. A connection
    that sends nothing for `idle_s` ends. Raises SourceError if it cannot listen.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        address: str,
        port: int,
        not_ready: Callable[[], str] = lambda: "",
        idle_s: float = _IDLE_SECONDS,
    ) -> None:
        from prometheus_client import make_wsgi_app

        app = make_wsgi_app(registry)
        probes: dict[str, Callable[[], str]] = {"/healthz": lambda: "", "/readyz": not_ready}

        def answer(environ: dict[str, Any], start_response: Any) -> Any:
            if (probe := probes.get(environ["PATH_INFO"])) is not None:
                return _of_probe(probe(), start_response)
            if _UNREADABLE_VERSION.search(environ.get("HTTP_ACCEPT", "")):
                del environ["HTTP_ACCEPT"]
            return app(environ, start_response)

        handler = type("_Handler", (_Handler,), {"timeout": idle_s})  # of one receive
        try:
            family, *_, where = socket.getaddrinfo(
                address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            kind = type("_Server", (_Server,), {"address_family": family})
            self._server: _Server = kind(where[:2], handler)
        except (OSError, OverflowError) as error:
            raise SourceError(
                f"cannot serve metrics on {address}:{port}: {getattr(error, 'strerror', '') or error}"
            ) from None
        self._server.set_app(answer)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="binlake-metrics", daemon=True
        )
        self._thread.start()
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Stop serving, and end all connections."""
        self._server.shutdown()
        self._server.server_close()
        self._server.end_all()
        self._thread.join()


class _Families:
    """A collector as a registry takes it."""

    def __init__(self, collect: Callable[[], Iterator[Any]]) -> None:
        self.collect = collect


def registry_of(collect: Callable[[], Iterator[Any]]) -> CollectorRegistry:
    """Return a registry of the families that `collect` yields at each scrape. Raises OptionError without the extra."""
    with needing("metrics need prometheus_client", "server", OptionError):
        from prometheus_client import CollectorRegistry
    registry = CollectorRegistry()
    registry.register(_Families(collect))
    return registry


def families(
    prefix: str,
    metrics: Iterable[Metric[T]],
    labels: Sequence[str],
    samples: Sequence[tuple[Sequence[str], T]],
) -> Iterator[Any]:
    """Yield a family for each metric, with a sample for each of `samples`: its label values and the object that holds the value."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kinds: dict[str, Any] = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
    for name, kind, meaning, value in metrics:
        family = kinds[kind](prefix + name, meaning, labels=labels)
        for texts, one in samples:
            if (number := value(one)) is not None:
                family.add_metric(texts, float(number))
        yield family


class _Handler(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:  # a request is nothing to report
        pass


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each of a few connections; the oldest one gives way."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # connections that the kernel holds until they are accepted

    def __init__(self, *given: Any) -> None:
        self._open: dict[socket.socket, None] = {}  # the oldest first
        self._lock = threading.Lock()
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            while len(self._open) >= _MOST_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                _end(oldest)
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:  # only its own thread closes a socket, and no other thread ends it later
            self._open.pop(request, None)
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that breaks or takes too long."""

    def end_all(self) -> None:
        """End the connections that are still open."""
        with self._lock:
            for request in self._open:
                _end(request)


def _of_probe(why_not: str, start_response: Any) -> list[bytes]:
    status = "503 Service Unavailable" if why_not else "200 OK"
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{printable(why_not) or 'ok'}\n".encode()]


def _end(request: socket.socket) -> None:
    """Wake the thread of a connection, which then closes it."""
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)
