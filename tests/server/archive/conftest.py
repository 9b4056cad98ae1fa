"""A server for one test of archives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dev.servers import Server, running
from support.servers.archive_setups import SMALL_LOGS


@pytest.fixture
def fresh(name: str) -> Iterator[Server]:
    """A server with small logs, for one test."""
    with running(name, SMALL_LOGS) as started:
        yield started
