"""The log that a mirror follows, and what a user can do when a part of it is damaged or missing."""

from __future__ import annotations

import threading

from binlake.follow.logs import DirectoryLogs, StreamLogs
from binlake.follow.server_logs import ServerLogs
from binlake.values.options import ReadOptions

LOG_IS_DAMAGED = (
    "the log is damaged: restore it from an intact copy, or read one with --logs; or run FLUSH BINARY LOGS on the "
    "server and `binlake mirror resync LAKE '*.*'`, and start the mirror again: it copies all tables"
)
_POSITION_LOST = (
    "run `binlake mirror resync LAKE '*.*'` and start the mirror again: it copies all tables"
)
_LACKS_POSITION = (
    "read an archive that has the log from the mirror's position on (--logs), or the server; if neither has it, "
    f"{_POSITION_LOST}"
)


def logs_of(url: str, logs: str | None, options: ReadOptions, stop: threading.Event) -> StreamLogs:
    """Return the logs with the changes: the logs of an archive if one is given, otherwise the logs of the server. `stop` ends
    a wait for a server that is not available.
    """
    if logs is not None:
        return DirectoryLogs([logs], options)
    return ServerLogs(url, options, stop=stop)


def remedy_without_position(logs: str | None) -> str:
    """Return the advice if the logs lack the mirror's position: the logs of an archive if one is given, else the server's."""
    return _POSITION_LOST if logs is None else _LACKS_POSITION
