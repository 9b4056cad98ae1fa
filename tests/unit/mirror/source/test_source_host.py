"""The host of a URL whose tables a mirror reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from binlake.errors import ConnectionLostError, OptionError, SourceError
from binlake.mirror.source import host
from binlake.mirror.source.host import SourceHost
from binlake.source.replica.url import ServerUrl
from binlake.values.position import Position, is_log_of

SERVERS = {"db2": "uuid-2", "db3": "uuid-3"}


@pytest.fixture(autouse=True)
def servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two servers answer, by host with their identities."""

    @contextmanager
    def connect(url: ServerUrl) -> Iterator[Any]:
        if url.host not in SERVERS:
            raise ConnectionLostError(f"{url.host} does not answer")
        yield SimpleNamespace(url=url, where=url.host, identity=SERVERS[url.host])

    monkeypatch.setattr(host, "connect", connect)
    monkeypatch.setattr(host, "check_history", lambda *_: None)  # see test_lagging_archive.py


def logs(place: str, identity: str = "") -> Any:
    """The logs of a server, or of a directory."""
    return SimpleNamespace(look=lambda: SimpleNamespace(inputs=(place,), server_uuid=identity))


def test_tables_are_read_where_the_log_is_read() -> None:
    """The first host may answer again after the log has changed to the second one."""
    assert not SourceHost("mysql://db2,db3/", logs("mysql://db3/")).has_archive
    assert SourceHost("mysql://db2,db3/", logs("mysql://db3/")).url() == "mysql://db3/"
    assert SourceHost("mysql://db2/", logs("mysql://db2/", "uuid-2")).copied_url() == "mysql://db2/"


@pytest.mark.parametrize(
    ("url", "identity", "found"),
    [
        ("mysql://db1,db2,db3/", "uuid-3", "mysql://db3/"),
        ("mysql://db1,db2,db3/", "", "mysql://db2/"),
        ("mysql://db2,db3/", "uuid-2", "mysql://db2/"),
        ("mysql://db1/", "uuid-3", "mysql://db1/"),  # it is the only one
    ],
)
def test_the_server_of_an_archive(url: str, identity: str, found: str) -> None:
    assert SourceHost(url, logs("/archive/db", identity)).has_archive
    assert SourceHost(url, logs("/archive/db", identity)).url() == found
    host = SourceHost(url, logs("/archive/db", identity))
    if not identity:  # rows of one server, and changes of another
        with pytest.raises(
            SourceError, match="/archive/db does not say of which server its logs are"
        ):
            host.copied_url()
    elif not url.startswith("mysql://db1/"):
        assert host.copied_url() == found


@pytest.mark.parametrize(
    ("url", "error", "why"),
    [
        ("mysql://db2/", SourceError, "of server uuid-9, but mysql://db2/ is server uuid-2"),
        ("mysql://db2,db3/", SourceError, "of server uuid-9, but mysql://db2/ is server uuid-2"),
        # it may be the server of the archive, and answer later
        ("mysql://db1,db2,db3/", ConnectionLostError, "db1 does not answer"),
    ],
)
def test_no_host_is_the_server_of_the_archive(url: str, error: type[Exception], why: str) -> None:
    """Its tables are not copied, and rounds go on."""
    other = SourceHost(url, logs("/archive/db", "uuid-9"))
    assert other.url() == "mysql://db2/"
    with pytest.raises(error, match=why):
        other.copied_url()


@pytest.mark.parametrize(
    ("identity", "server", "expected"),
    [
        ("", "uuid-1", True),
        ("uuid-1", "UUID-1", True),
        ("UUID-1", "UUID-1", True),
        ("uuid-1", "uuid-12", False),
        ("uuid-12", "uuid-1", False),
        ("server-1", "server-1", True),
        ("server-1-cd314f45", "server-1", True),
        ("server-11-cd314f45", "server-1", False),
        ("server-1", "server-11", False),
    ],
)
def test_the_server_of_logs(identity: str, server: str, expected: bool) -> None:
    assert is_log_of(identity, server) == expected


def test_a_log_is_compared_with_positions_of_its_own_server_only() -> None:
    """Without an order of the two, changes could be missing."""
    end, later = Position("uuid-2", "binlog.000009", 4), Position("uuid-3", "binlog.000001", 4)
    other = SourceHost("mysql://db3/", logs("/archive/db", "uuid-2"))
    with pytest.raises(SourceError, match="of server uuid-2, but mysql://db3/ is server uuid-3"):
        other.is_reached(end, later)


def test_no_host_answers() -> None:
    for found in (logs("/archive/db", "uuid-9"), logs("/archive/db")):
        with pytest.raises(ConnectionLostError, match="db1 does not answer"):
            SourceHost("mysql://db1,db4/", found).url()


def test_invalid_urls() -> None:
    with pytest.raises(OptionError):
        SourceHost("mysql://db1:port/")
