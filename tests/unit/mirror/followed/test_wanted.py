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
