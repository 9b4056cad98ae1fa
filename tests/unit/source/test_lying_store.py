"""A store that sends less of an object than it says: the read ends after a few attempts."""

from __future__ import annotations

import http.server
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from binlake.errors import SourceError
from binlake.source.bytes import open_reader

SAID, SENT = 50_000, 1000


class _Liar(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests: Counter[str]

    def log_message(self, format: str, *_args: object) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        self._say(200)

    def do_GET(self) -> None:
        self._say(206)
        self.wfile.write(bytes(SENT))
        self.close_connection = True

    def _say(self, status: int) -> None:
        self.requests[self.command] += 1
        self.send_response(status)
        self.send_header("Content-Length", str(SAID))
        self.send_header("Content-Range", f"bytes 0-{SAID - 1}/{SAID}")
        self.send_header("Last-Modified", "Mon, 23 Nov 2026 00:00:00 GMT")
        self.end_headers()


@contextmanager
def lying_store() -> Iterator[tuple[int, Counter[str]]]:
    """The port of a store whose objects all end too early, and what it is asked."""
    asked: Counter[str] = Counter()
    liar = type("Liar", (_Liar,), {"requests": asked})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), liar) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()


def test_an_object_shorter_than_its_listed_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with lying_store() as (port, asked):
        where = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        with pytest.raises(SourceError):
            open_reader(f"s3://archive/binlog.000001?{where}")
    assert 1 <= asked["GET"] <= 5
    assert asked["HEAD"] <= 5
