"""The server answers only a browser with the token, on this machine."""

from __future__ import annotations

import http.client
import json
import logging
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from binlake.errors import OptionError
from binlake.source.resolve import resolve
from binlake.ui.assets import SCRIPTS, STYLES
from binlake.ui.opened_logs import LogSession
from binlake.ui.server import PageServer
from binlake.values.options import ReadOptions

Answer = tuple[int, dict[str, str], bytes]


class Client:
    """Speaks HTTP to a server, with any headers."""

    def __init__(self, server: PageServer) -> None:
        self.server = server
        self.path = urlsplit(server.url)._replace(scheme="", netloc="").geturl()

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.port)) as connection:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()

    def cookie(self) -> str:
        _, headers, _ = self.ask(self.path)
        return headers["set-cookie"].partition(";")[0]


@pytest.fixture
def client(golden: Path) -> Iterator[Client]:
    files = [str(golden / "mysql-9.7" / "transactions")]
    server = PageServer(LogSession(resolve(files), ReadOptions(), files), 0)
    with closing(server):
        server.start()
        yield Client(server)


def test_the_token_is_for_the_first_request_only(client: Client) -> None:
    status, headers, _ = client.ask(client.path)
    assert (status, headers["location"]) == (303, "/")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(headers["set-cookie"].split("; "))
    cookie = client.cookie()
    status, headers, page = client.ask("/", Cookie=cookie)
    assert status == 200
    assert b"token" not in page
    assert json.loads(client.ask("/api/state", Cookie=cookie)[2])["files"]["count"] > 0
    for name in (*STYLES, *SCRIPTS, "icon.svg"):
        assert client.ask(f"/static/{name}", Cookie=cookie)[0] == 200
    assert client.ask("/static/README.md", Cookie=cookie)[0] == 404
    assert client.ask("/static/..%2fassets.py", Cookie=cookie)[0] == 404


@pytest.mark.parametrize(
    "path", ["/", "/api/state", "/static/page.js", "/?token=x", "/?token=", "/nothing"]
)
def test_requests_without_the_token_are_refused(client: Client, path: str) -> None:
    for cookie in ("", "binlake_ui_1=x", f"binlake_ui_{client.server.port}=x", "ÿ;="):
        status, _, body = client.ask(path, Cookie=cookie)
        assert status == 403
        assert b"transactions" not in body


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.", "[::1]"]
)
def test_another_name_of_this_machine_is_refused(client: Client, host: str) -> None:
    """A page of another site cannot become this one by pointing its name at 127.0.0.1."""
    assert client.ask("/api/state", Cookie=client.cookie(), Host=host)[0] == 421
    assert client.ask(client.path, Host=host)[0] == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:1"])
def test_a_forwarded_port_is_served(client: Client, host: str) -> None:
    assert client.ask("/api/state", Cookie=client.cookie(), Host=host)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_only_reads(client: Client, method: str) -> None:
    assert client.ask("/api/undo", method, Cookie=client.cookie())[0] == 405


def test_every_answer_protects_the_page(client: Client) -> None:
    cookie = client.cookie()
    for path, given in (
        ("/", cookie),
        ("/", ""),
        ("/api/state", cookie),
        ("/api/rows?where=(", cookie),
        (client.path, ""),
    ):
        _, headers, _ = client.ask(path, Cookie=given)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_an_error_is_one_sentence(client: Client) -> None:
    cookie = client.cookie()
    for path in (
        "/api/rows?where=(",
        "/api/transaction",
        "/api/timeline?since=x",
        "/api/code?kind=x",
    ):
        status, _, body = client.ask(path, Cookie=cookie)
        assert status == 400
        assert list(json.loads(body)) == ["error"]


def test_the_token_is_not_logged(
    client: Client, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    client.ask(client.path)
    client.ask("/?token=wrong")
    client.ask("/api/state", Cookie=client.cookie())
    token = client.path.partition("=")[2]
    out, err = capfd.readouterr()
    assert token not in caplog.text + out + err


def test_it_listens_on_this_machine_only(client: Client) -> None:
    assert client.server.url.startswith("http://127.0.0.1:")
    with pytest.raises(OptionError, match="is in use; choose another with --port"):
        PageServer(
            LogSession(
                resolve([str(Path(__file__).parents[3] / "demo" / "mysql-9.7")]), ReadOptions(), []
            ),
            client.server.port,
        )
    with socket.socket() as other:
        other.settimeout(2)
        assert other.connect_ex(("127.0.0.2", client.server.port)) != 0


def test_tokens_differ(golden: Path, client: Client) -> None:
    files = [str(golden / "mysql-9.7" / "transactions")]
    with closing(PageServer(LogSession(resolve(files), ReadOptions(), files), 0)) as other:
        assert urlsplit(other.url).query != urlsplit(client.server.url).query
        assert len(urlsplit(other.url).query) > 40
