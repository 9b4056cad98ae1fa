"""An HTTP proxy before an object store: it records requests, and fails as stores do."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Refusal", "StoreProxy", "StoreRequest"]

_OF_A_HOP = ("connection", "transfer-encoding", "content-length", "expect")


@dataclass(frozen=True, slots=True)
class StoreRequest:
    """A request that the proxy has seen: `target` is the path of the URL with its query."""

    method: str
    target: str

    @property
    def name(self) -> str:
        """The last part of the object's key."""
        return self.target.partition("?")[0].rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer of the proxy itself, an error in the form of S3."""

    status: int
    code: str
    message: str

    @property
    def body(self) -> bytes:
        return (
            '<?xml version="1.0" encoding="UTF-8"?>'
            f"<Error><Code>{self.code}</Code><Message>{self.message}</Message></Error>"
        ).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # clients connect at the same time


class StoreProxy:
    """Forwards HTTP requests to 127.0.0.1:`target`, from `address`.

    `requests` is what came. `refuse`, if set, is asked about each request before it is forwarded, and
    returns a Refusal to send instead, or None. `most_at_once` is the largest number of requests that
    waited for their answers at the same time. While it is smaller than `together`, an answer waits for
    more requests, at most `delay_s`.
    """

    def __init__(self, target: int) -> None:
        self.requests: list[StoreRequest] = []
        self.refuse: Callable[[StoreRequest], Refusal | None] | None = None
        self.delay_s = 0.0
        self.together = 0
        self.most_at_once = 0
        self._open = 0
        self._changed = threading.Condition()
        self._target = target
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def of(self, name: str) -> Counter[str]:
        """How often each method was used on objects whose names begin so."""
        return Counter(seen.method for seen in self.requests if seen.name.startswith(name))

    def count(self, change: int) -> None:
        """Note that a request has come (1), or has its answer (-1)."""
        with self._changed:
            self._open += change
            self.most_at_once = max(self.most_at_once, self._open)
            self._changed.notify_all()

    def hold(self) -> None:
        """Wait until `together` requests have waited at the same time, at most `delay_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self.most_at_once >= self.together, self.delay_s)

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                sent = self._sent()
                request = StoreRequest(self.command, self.path)
                proxy.requests.append(request)
                proxy.count(1)
                proxy.hold()
                proxy.count(-1)
                refusal = None if proxy.refuse is None else proxy.refuse(request)
                if refusal is None:
                    self._forward(sent)
                else:
                    self._answer(
                        refusal.status, [("Content-Type", "application/xml")], refusal.body
                    )

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815 - http.server's

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def _sent(self) -> bytes:
                if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = []
                while size := int(self.rfile.readline().partition(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                while self.rfile.readline().strip():  # trailers
                    pass
                return b"".join(parts)

            def _forward(self, sent: bytes) -> None:
                headers = {
                    name: value
                    for name, value in self.headers.items()
                    if name.lower() not in _OF_A_HOP
                }
                behind = http.client.HTTPConnection("127.0.0.1", proxy._target)
                try:
                    behind.request(self.command, self.path, sent or None, headers)
                    answer = behind.getresponse()
                    body = answer.read()
                finally:
                    behind.close()
                self._answer(answer.status, answer.getheaders(), body)

            def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
                self.send_response_only(status)
                length = len(body)
                for name, value in headers:
                    if name.lower() == "content-length" and self.command == "HEAD":
                        length = int(value)
                    if name.lower() not in _OF_A_HOP:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        return Handler
