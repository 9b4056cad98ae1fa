"""A server that is not available: binlake tries again, until a time has passed or the work is to end."""

from __future__ import annotations

import threading

import pytest

from binlake.errors import ConnectionLostError
from binlake.follow.server_logs import patiently


def test_a_stop_ends_the_wait() -> None:
    stop = threading.Event()
    times: list[int] = []

    def ask() -> None:
        times.append(len(times))
        if len(times) == 2:
            stop.set()
        raise ConnectionLostError("db1: Connection refused", code=2003)

    with pytest.raises(ConnectionLostError, match="refused") as caught:
        patiently(ask, 3600.0, stop=stop)
    assert len(times) == 2
    assert caught.value.hint is None, "binlake has not tried for an hour"
