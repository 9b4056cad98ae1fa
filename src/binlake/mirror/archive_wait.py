"""Wait for an archive that lags behind the server."""

from __future__ import annotations

import threading
import time

from binlake.follow.planner import StreamPlanner
from binlake.mirror.followed.first_copy import LogLagsError
from binlake.mirror.source.host import SourceHost
from binlake.values.position import Position

_PAUSE_S = 1.0


class ArchiveWait:
    """Waits for the log to reach positions of the server `host`, `patience_s` seconds from now at most, or until `stop` is set."""

    def __init__(
        self, planner: StreamPlanner, host: SourceHost, stop: threading.Event, patience_s: float
    ) -> None:
        self._planner = planner
        self._host = host
        self._stop = stop
        self._deadline = time.monotonic() + patience_s

    def has_reached(self, position: Position) -> bool:
        """Return whether the log reaches a position, after a pause if it does not. Raises LogLagsError after the last moment."""
        log = self._planner.head().position
        if self._host.is_reached(log, position):
            return True
        if time.monotonic() > self._deadline:
            raise LogLagsError(
                f"the archive reaches {log.file}:{log.offset}, but not yet {position.file}:{position.offset}",
                hint="check that `binlake archive` runs",
            )
        self._stop.wait(_PAUSE_S)
        return False
