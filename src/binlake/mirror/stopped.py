"""How work of a mirror is interrupted: the errors that end it, and a wait that `Mirror.stop` ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from binlake.errors import BinlogError

_PART_S = 2.0


class StoppedError(BinlogError):
    """The mirror was stopped before the work was complete."""


class PausedError(BinlogError):
    """The mirror is paused, so the work cannot begin, or was not completed."""


def wait_in_parts(stop: threading.Event, seconds: float, between: Callable[[], None]) -> None:
    """Wait until `stop` is set, so many seconds at most. `between` is called every two seconds."""
    ends = time.monotonic() + seconds
    while not stop.wait(max(0.0, min(_PART_S, ends - time.monotonic()))):
        if time.monotonic() >= ends:
            return
        between()
