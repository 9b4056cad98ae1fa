"""The end of the server's log, for a mirror that reads an archive.

An archive does not record when it last heard from its server: an idle server and an archiver that has stopped leave the
same files. So the mirror asks the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from binlake.errors import BinlogError
from binlake.follow.logs import LogsNow
from binlake.follow.server_logs import ServerLogs
from binlake.mirror.source.host import SourceHost
from binlake.values.options import ReadOptions

# A host that is down may keep a connection waiting for ten seconds, in which there are no rounds.
_REST_S = 60.0


@dataclass
class ArchivedServer:
    """The logs of the server of an archive. `host` finds the server.

    If it does not answer, it is asked again after `rest_s` seconds; `note` receives the error, once.
    """

    host: SourceHost
    options: ReadOptions
    note: Callable[[str], None]
    rest_s: float = _REST_S
    _logs: ServerLogs | None = field(default=None, init=False)
    _again_at: float = field(default=float("-inf"), init=False)
    _noted: str = field(default="", init=False)

    def look(self) -> LogsNow | None:
        """List the logs; None if the server does not answer."""
        if time.monotonic() < self._again_at:
            return None
        try:
            if self._logs is None:
                self._logs = ServerLogs(self.host.copied_url(), self.options, patience_s=0.0)
            found = self._logs.look()
        except BinlogError as error:
            self.close()
            self._again_at = time.monotonic() + self.rest_s
            if error.message != self._noted:
                self._noted = error.message
                self.note(f"the lag of the archive is unknown: {error}")
            return None
        self._noted = ""
        return found

    def close(self) -> None:
        """Close the connection."""
        if self._logs is not None:
            self._logs.close()
            self._logs = None
