"""Work of a server that lasts, during which something else must happen from time to time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from binlake.errors import ConnectionLostError
from binlake.source.replica.connection import ServerConnection

T = TypeVar("T")

# Ctrl-C and SIGTERM wait for the next pause
_EVERY_S = 1.0


def with_pauses(
    work: Callable[[], T],
    server: ServerConnection,
    pause: Callable[[], None],
    every_s: float = _EVERY_S,
) -> T:
    """Return the result of `work`, which only uses `server`, in a thread. Call `pause` every few seconds until then. If that
    raises an error, or the server is silent for too long, the connection ends, and the server ends the query.
    """
    with ThreadPoolExecutor(1, "binlake-compare") as pool:
        result = pool.submit(work)
        try:
            while not wait([result], every_s).done:
                pause()
        except BaseException:
            server.interrupt()  # else the pool waits until the server has finished
            wait([result])
            server.abort_statement()
            raise
        try:
            return result.result()
        except ConnectionLostError:
            server.abort_statement()
            raise
