"""The tables of a server that a mirror follows, with servers that do not run on Linux."""

from __future__ import annotations

import pytest

pytest.importorskip("pymysql")

from binlake.errors import UnsupportedError
from binlake.mirror.followed.wanted import WantedTables
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source.host import SourceHost
from support.servers.fake_server import OK, Conversation, fake_server


def on_macos(conversation: Conversation) -> None:
    """A server with lower_case_table_names=2, which Linux refuses."""
    conversation.login()
    while query := conversation.hear():
        if b"lower" in query:
            conversation.result(("lower_case_table_names", "2"))
        else:
            conversation.send(OK, 1)


@pytest.mark.parametrize("name", [("shop", "Orders"), ("Shop", "orders")])
def test_names_that_the_log_spells_in_lower_case(name: tuple[str, str]) -> None:
    """The mirror would find no changes of the table."""
    with fake_server(on_macos) as (port, _):
        host = SourceHost(f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none")
        tables = WantedTables(host, MirrorOptions(tables=("*.*",)))
        with pytest.raises(UnsupportedError, match="lower_case_table_names=2") as refused:
            tables.read(name)
    assert "to names in lower case" in str(refused.value)


def with_an_unreadable_table(conversation: Conversation) -> None:
    """A server whose tables `old` and `new` are damaged: it lists them, and answers nothing else about them."""
    conversation.login()
    while query := conversation.hear():
        if b"information_schema.TABLES" in query:
            conversation.result(
                ("shop", "new", "InnoDB", "0", "0"), ("shop", "old", "MyISAM", "0", "0")
            )
        elif b"SHOW" in query:
            conversation.send(b"\xff\xa9\x04#HY000Table is marked as crashed", 1)
        else:
            conversation.send(OK, 1)


def test_the_engine_of_a_table_that_the_server_cannot_read() -> None:
    """It decides what becomes of the table, and an error would end the mirror at this range of the log at each start."""
    for name, expected in (("old", False), ("new", True), ("gone", False)):
        with fake_server(with_an_unreadable_table) as (port, _):
            host = SourceHost(
                f"mysql://ada:pw@127.0.0.1:{port}/?ssl-mode=disabled&option-file=none"
            )
            tables = WantedTables(host, MirrorOptions())
            assert tables.has_transactions(("shop", name)) == expected
