"""When a mirror checks the settings of its server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from binlake.errors import IncompleteError, UnsupportedError
from binlake.mirror.followed.wanted import WantedTables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source import server_check
from binlake.mirror.source.host import SourceHost
from binlake.mirror.source.server_check import ServerCheck
from binlake.source.replica.health_settings import LogFilters
from support.servers.fake_server import OK, Conversation, fake_server

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
        before = len(checked)
        assert of.work() is (checks > before)
        assert len(checked) == checks
    assert notes == ["binlog_row_image=MINIMAL"]
    logs.connections = 3
    host.url = lambda: URLS[1]
    for _ in range(2):  # also if the caller continued
        with pytest.raises(IncompleteError, match="binlog_ignore_db"):
            of.work()


@pytest.mark.parametrize(("filters", "logged", "left_out"), [
    (LogFilters("", ""), ("shop", "Shop"), ()),
    (LogFilters("shop,crm", "crm"), ("shop", "crm"), ("Shop", "x")),
    (LogFilters("Shop", ""), ("Shop",), ("shop",)),
    (LogFilters("Shop", "", distinguishes_case=False), ("Shop", "shop"), ("x",)),
    (LogFilters("", "a,B"), ("A", "b", "x"), ("a", "B")),
    (LogFilters("", "a,B", distinguishes_case=False), ("x",), ("a", "A", "b")),
])  # fmt: skip
def test_databases_that_a_server_logs(
    filters: LogFilters, logged: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    assert [filters.logs(name) for name in logged] == [True] * len(logged)
    assert [filters.logs(name) for name in left_out] == [False] * len(left_out)


def with_filters(do_db: str, ignore_db: str) -> Callable[[Conversation], None]:
    """A server with these filters."""

    def talk(conversation: Conversation) -> None:
        conversation.login()
        while query := conversation.hear():
            if b"MASTER STATUS" in query or b"LOG STATUS" in query:
                conversation.result(("binlog.000001", "4", do_db, ignore_db, ""))
            elif b"log\\_bin'" in query:
                conversation.result(("log_bin", "ON"))
            elif b"lower" in query:
                conversation.result(("lower_case_table_names", "0"))
            else:
                conversation.send(OK, 1)

    return talk


URL = "mysql://ada:pw@127.0.0.1:{}/?ssl-mode=disabled&option-file=none"


@pytest.mark.parametrize(("do_db", "ignore_db"), [("shop", ""), ("", "scratch")])
def test_a_filter_that_logs_the_rows_of_all_mirrored_tables(do_db: str, ignore_db: str) -> None:
    """A server filters other statements than row changes by the default database of their session."""
    notes: list[str] = []
    with fake_server(with_filters(do_db, ignore_db)) as (port, _):
        url = URL.format(port)
        server_check.check_server(url, lambda: [("shop", "t")], MirrorOptions(), notes.append)
        assert len(notes) == 1
        assert notes[0].startswith("binlog_do_db is shop: " if do_db else "binlog_ignore_db is scr")
        assert "the log also lacks TRUNCATE, DROP, ALTER" in notes[0]
        assert "USE" in notes[0]


def test_a_filter_whose_database_has_another_case() -> None:
    with (
        fake_server(with_filters("Shop", "")) as (port, _),
        pytest.raises(IncompleteError, match="binlog_do_db is Shop"),
    ):
        server_check.check_server(URL.format(port), lambda: [("shop", "t")], MirrorOptions(), print)


def test_a_table_that_is_selected_later_and_whose_database_is_not_logged() -> None:
    with fake_server(with_filters("shop", "")) as (port, _):
        tables = WantedTables(SourceHost(URL.format(port)), MirrorOptions())
        with pytest.raises(UnsupportedError, match=r"crm\.t: .* lacks .* binlog_do_db is shop"):
            tables.read(("crm", "t"))
