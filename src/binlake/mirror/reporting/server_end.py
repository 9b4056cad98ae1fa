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
from binlake.mirror.control import position_key
from binlake.mirror.source.host import SourceHost
from binlake.values.options import ReadOptions
from binlake.values.position import Position

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
    _end: Position | None = field(default=None, init=False)

    def look(self) -> LogsNow | None:
        """List the logs; None if the server does not answer."""
        if time.monotonic() < self._again_at:
            return None
        try:
            found = self._asked()
            if self._begins_again(found):
                # as after a reset: the host is asked whether these are the logs of the archive
                self.close()
                found = self._asked()
            self._end = found.end
        except BinlogError as error:
            self.close()
            self._again_at = time.monotonic() + self.rest_s
            if error.message != self._noted:
                self._noted = error.message
                self.note(f"the lag of the archive is unknown: {error}")
            return None
        self._noted = ""
        return found

    def _asked(self) -> LogsNow:
        if self._logs is None:
            self._logs = ServerLogs(self.host.copied_url(), self.options, patience_s=0.0)
        return self._logs.look()

    def _begins_again(self, now: LogsNow) -> bool:
        """Whether the logs end before the place where they ended at the look before."""
        if self._end is None or now.end is None:
            return False
        return position_key(now.end) < position_key(self._end)

    def close(self) -> None:
        """Close the connection."""
        if self._logs is not None:
            self._logs.close()
            self._logs = None
