"""When a mirror checks the settings of its server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from binlake.errors import IncompleteError
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source import server_check
from binlake.mirror.source.server_check import ServerCheck

URLS = ("mysql://db1/", "mysql://db2/")


def test_the_settings_are_checked_again_after_each_new_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a failover, the log of the other host may lack changes."""
    checked: list[str] = []
    notes: list[str] = []

    def check(url: str, _wanted: Any, _options: Any, note: Callable[[str], None]) -> None:
        checked.append(url)
        note("binlog_row_image=MINIMAL")
        if url == URLS[1]:
            raise IncompleteError("binlog_ignore_db")

    monkeypatch.setattr(server_check, "check_server", check)
    host: Any = SimpleNamespace(url=lambda: URLS[0])
    logs: Any = SimpleNamespace(connections=0)
    of = ServerCheck(host, logs, lambda: (), MirrorOptions(), notes.append, threading.Event())
    of.begin(URLS[0])
    for connections, checks in ((0, 1), (1, 1), (2, 2), (2, 2)):
        logs.connections = connections
        of.work()
        assert len(checked) == checks
    assert notes == ["binlog_row_image=MINIMAL"]
    logs.connections = 3
    host.url = lambda: URLS[1]
    for _ in range(2):  # also if the caller continued
        with pytest.raises(IncompleteError, match="binlog_ignore_db"):
            of.work()
