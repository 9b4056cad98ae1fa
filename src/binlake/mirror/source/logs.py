"""The log that a mirror follows, and what a user can do when a part of it is damaged or missing."""

from __future__ import annotations

import threading

from binlake.errors import OptionError
from binlake.follow.logs import DirectoryLogs, StreamLogs
from binlake.follow.server_logs import PATIENCE_S, ServerLogs
from binlake.source.bytes import local_path
from binlake.source.chain import of_source
from binlake.source.locations import location
from binlake.source.resolve import survey
from binlake.values.options import ReadOptions

_MOST_NAMED = 5
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


def logs_of(
    url: str,
    logs: str | None,
    options: ReadOptions,
    stop: threading.Event,
    patience_s: float = PATIENCE_S,
) -> StreamLogs:
    """Return the logs with the changes: the logs of an archive if one is given, otherwise the logs of the server. `stop` ends
    a wait for a server that is not available, which takes at most `patience_s` seconds.
    """
    if logs is not None:
        return DirectoryLogs([logs_directory(logs)], options)
    return ServerLogs(url, options, patience_s, stop, started="mirror")


def logs_directory(logs: str) -> str:
    """Return the directory with the logs of the only server of an archive; other logs as they were given. A mirror reads that
    directory to its end, also if the archive gets those of another server meanwhile. Raises OptionError if it has several,
    SourceError.
    """
    chains = of_source(survey([logs]), None)
    if len(chains) > 1:
        names = ", ".join(chain.source for chain in chains[:_MOST_NAMED])
        raise OptionError(
            f"{logs} has the logs of {len(chains)} servers or histories, and a mirror follows one",
            name="logs",
            value=logs,
            hint=f"give the directory of one: {names}{', …' if chains[_MOST_NAMED:] else ''}",
        )
    is_directory = location(local_path(logs)).kind() == "directory"
    return chains[0].directory if chains and is_directory else logs


def remedy_without_position(logs: str | None) -> str:
    """Return the advice if the logs lack the mirror's position: the logs of an archive if one is given, else the server's."""
    return _POSITION_LOST if logs is None else _LACKS_POSITION
