"""The end of the log of an archive's server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pymysql")

from binlake.errors import ServerError
from binlake.mirror.reporting.server_end import ArchivedServer
from binlake.mirror.source.host import SourceHost
from binlake.values.options import ReadOptions
from dev.servers.ports import ReservedPort


def test_a_server_that_does_not_answer_is_noted_once(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = ReservedPort()
    said: list[str] = []
    host = SourceHost(f"mysql://repl@127.0.0.1:{nothing.number}/")
    server = ArchivedServer(host, ReadOptions(), said.append, rest_s=0.0)
    assert server.look() is None
    assert server.look() is None
    nothing.release()
    [note] = said
    assert note.startswith("the lag of the archive is unknown: ")
    assert capsys.readouterr() == ("", "")


def test_a_server_that_does_not_answer_is_asked_again_later() -> None:
    asked: list[int] = []

    def copied_url() -> str:
        asked.append(1)
        raise ServerError("it is down")

    host: Any = SimpleNamespace(copied_url=copied_url)
    server = ArchivedServer(host, ReadOptions(), lambda _sentence: None, rest_s=3600.0)
    assert [server.look(), server.look()] == [None, None]
    assert len(asked) == 1
