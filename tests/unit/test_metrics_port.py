"""The port for Prometheus, attacked: it answers a scrape whatever else connects, and prints nothing."""

from __future__ import annotations

import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest

from binlake.archive.metrics import ArchiveMetrics, archive_families, serve_metrics
from binlake.metrics_port import _MOST_CONNECTIONS, MetricsPort, registry_of
from support.servers.archiving import until

pytest.importorskip("prometheus_client")

SECONDS = 60
ODD = 'a"b\\c\nbinlake_archive_connected{server="forged"} 1\n#\u2028\x85\x1b[2J'


def made(idle_s: float) -> MetricsPort:
    metrics = ArchiveMetrics()
    metrics.server = metrics.file = ODD
    registry = registry_of(lambda: archive_families([metrics]))
    return MetricsPort(registry, "127.0.0.1", 0, idle_s=idle_s)


@pytest.fixture
def served() -> Iterator[MetricsPort]:
    with closing(made(idle_s=10)) as port:
        yield port


def scraped(port: MetricsPort, accept: str = "*/*") -> str:
    address = f"http://127.0.0.1:{port.port}/metrics"
    wanted = urllib.request.Request(address, headers={"Accept": accept})
    with urllib.request.urlopen(wanted, timeout=SECONDS) as answer:
        text: str = answer.read().decode()
    return text


def connected(port: MetricsPort) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port.port), timeout=SECONDS)


def answer_to(port: MetricsPort, request: bytes) -> bytes:
    """The answer before it ends the connection, which it may do before it has read everything."""
    with connected(port) as one:
        found = b""
        try:
            one.sendall(request)
            one.shutdown(socket.SHUT_WR)
            while piece := one.recv(1 << 16):
                found += piece
        except OSError:  # that it has ended already has more than one errno
            pass
    return found


def probed(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_an_archive_is_ready_while_all_servers_are_connected() -> None:
    one, other = ArchiveMetrics(), ArchiveMetrics()
    one.server, other.server, one.connected = "db1", "db2\u2028", True
    port = serve_metrics([one, other], "127.0.0.1", 0)
    try:
        assert probed(port.port, "/healthz") == (200, "ok\n")
        assert probed(port.port, "/readyz") == (503, "not connected: db2\\u2028\n")
        other.connected = True
        assert probed(port.port, "/readyz") == (200, "ok\n")
        assert "binlake_archive_connected" in probed(port.port, "/metrics")[1]
    finally:
        port.close()


@pytest.mark.parametrize("said", [b"", b"GET /metr", b"GET / HTTP/1.1\r\nA: b\r\n"])
def test_unfinished_requests_give_way(said: bytes) -> None:
    """A byte now and then kept each of them alive, and every scrape was refused."""
    before = threading.active_count()
    with ExitStack() as stack:
        served = stack.enter_context(closing(made(idle_s=10 * SECONDS)))  # none ends by itself
        for _ in range(3 * _MOST_CONNECTIONS):
            stack.enter_context(connected(served)).sendall(said)
        assert "binlake_archive_connected" in scraped(served)
        until(lambda: threading.active_count() <= before + 2 * _MOST_CONNECTIONS)


def test_a_request_byte_by_byte_does_not_stay(served: MetricsPort) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(served)) for _ in range(_MOST_CONNECTIONS)]
        for byte in b"GET /metrics HTTP":
            for one in slow:
                with suppress(ConnectionError):
                    one.sendall(bytes([byte]))
            if byte == ord("/"):
                assert "binlake_archive_connected" in scraped(served)
        assert "binlake_archive_connected" in scraped(served)


@pytest.mark.parametrize(
    ("request_bytes", "said"),
    [
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n", b" 414 "),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 500 + b"\r\n", b" 431 "),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * 200_000 + b"\r\n\r\n", b" 431 "),
        (b"\x1b[2J\x00\r\n\r\n", b"400"),
        (b"GET / HTTP/" + b"9" * 5000 + b".1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", b" 405 "),
        (b"GET /?name[]=" + b"%00%1b" * 5000 + b" HTTP/1.0\r\n\r\n", b" 200 "),
        (b"GET \xff\xfe HTTP/1.0\r\n\r\n", b" 200 "),
    ],
    ids=["address", "headers", "header", "rubbish", "version", "length", "names", "bytes"],
)
def test_invalid_requests(
    served: MetricsPort, request_bytes: bytes, said: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    found = answer_to(served, request_bytes)
    assert said in found or not found
    assert len(found) < 100_000
    assert "binlake_archive_connected" in scraped(served)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("version", ["x", "1.x", "9" * 5000 + "x", "", "1.0.0.0.", "\xb2"])
@pytest.mark.parametrize("kind", ["application/openmetrics-text", "text/plain"])
def test_invalid_versions(
    served: MetricsPort, kind: str, version: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each was a stack trace on stderr."""
    assert "binlake_archive_connected" in scraped(served, f"{kind}; version={version}; q=0.1")
    assert capfd.readouterr() == ("", "")


def test_the_format_that_prometheus_accepts_is_returned(served: MetricsPort) -> None:
    text = scraped(served, "application/openmetrics-text;version=1.0.0,text/plain;q=0.2")
    assert text.endswith("# EOF\n")


def test_connections_that_break_print_nothing(
    served: MetricsPort, capfd: pytest.CaptureFixture[str]
) -> None:
    for request in (b"", b"GET", b"GET /metrics HTTP/1.0\r\n\r\n"):
        one = connected(served)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.sendall(request)
        one.close()  # a reset
    assert "binlake_archive_connected" in scraped(served)
    served.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("accept", ["*/*", "application/openmetrics-text; version=1.0.0"])
def test_names_stay_in_their_labels(served: MetricsPort, accept: str) -> None:
    text = scraped(served, accept)
    samples: list[Any] = []
    if text.endswith("# EOF\n"):
        from prometheus_client.openmetrics.parser import text_string_to_metric_families
    else:
        from prometheus_client.parser import text_string_to_metric_families
    for family in text_string_to_metric_families(text):
        samples += family.samples
    assert samples
    assert {sample.labels["server"] for sample in samples} == {ODD}
