"""Sessions of the page over golden logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from binlake.source.resolve import resolve
from binlake.ui.opened_logs import LogSession
from binlake.values.options import ReadOptions

OpensSession = Callable[..., LogSession]


@pytest.fixture
def session_of() -> Iterator[OpensSession]:
    """Opens a session that has read its logs: `session_of(path, since=…)`."""
    with ExitStack() as stack:

        def open_session(*paths: Path, **options: Any) -> LogSession:
            files = [str(path) for path in paths]
            session = LogSession(resolve(files), ReadOptions.parse(options), files)
            session.begin()
            stack.callback(session.close)
            assert session.ready.wait(60)
            return session

        yield open_session


@pytest.fixture
def demo() -> Path:
    """The demo logs of MySQL: two files, 572 transactions."""
    return Path(__file__).resolve().parents[3] / "demo" / "mysql-9.7"
