"""The connection that the tool's options describe."""

from __future__ import annotations

from typing import Any

import pytest

from binlake.cli.mysqlbinlog.flags import RemoteFlags
from binlake.cli.mysqlbinlog.server import server_url, tls_mode
from binlake.errors import OptionError


@pytest.mark.parametrize(
    ("given", "host", "port", "socket"),
    [
        ({}, "", 0, ""),
        ({"host": "localhost"}, "", 0, ""),  # what the option file says, as the tool
        ({"host": "localhost", "port": 3307}, "localhost", 3307, ""),
        ({"host": "localhost", "protocol": "tcp"}, "localhost", 0, ""),
        ({"protocol": "TCP", "port": 3307}, "localhost", 3307, ""),
        ({"host": "db1", "protocol": "tcp"}, "db1", 0, ""),
        ({"host": "db1", "socket": "/run/s", "port": 1, "protocol": "socket"}, "", 0, "/run/s"),
    ],
)
def test_where_the_server_is(given: dict[str, Any], host: str, port: int, socket: str) -> None:
    url = server_url(RemoteFlags(**given), {})
    assert (url.host, url.port, url.unix_socket) == (host, port, socket)


@pytest.mark.parametrize(
    "given",
    [
        {"protocol": "pipe"},
        {"protocol": "tcp", "socket": "/run/s"},
        {"protocol": "socket"},
    ],
)
def test_contradictory_server_options_are_rejected(given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="--protocol"):
        server_url(RemoteFlags(**given), {})


@pytest.mark.parametrize(
    ("mode", "ssl", "verify", "means"),
    [
        (None, None, None, None),
        ("VERIFY_CA", None, None, "VERIFY_CA"),
        (None, True, None, "required"),
        (None, False, None, "disabled"),
        (None, False, False, "disabled"),
        (None, True, False, "required"),
        (None, None, True, "verify_identity"),
        (None, None, False, None),
    ],
)
def test_how_far_tls_is_insisted_on(
    mode: str | None, ssl: bool | None, verify: bool | None, means: str | None
) -> None:
    assert tls_mode(mode, ssl=ssl, verify=verify) == means


@pytest.mark.parametrize(
    ("mode", "ssl", "verify"),
    [("REQUIRED", True, None), ("REQUIRED", None, True), (None, False, True)],
)
def test_duplicate_tls_options(mode: str | None, ssl: bool | None, verify: bool | None) -> None:
    with pytest.raises(OptionError):
        tls_mode(mode, ssl=ssl, verify=verify)
