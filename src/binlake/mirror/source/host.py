"""The server whose tables a mirror reads: of several hosts in a URL, the one that the mirror's log is from.

A copy records positions in the log of the server that it reads, and the mirror applies its log from these positions on.
"""

from __future__ import annotations

from binlake.errors import ConnectionLostError, ServerError, SourceError
from binlake.follow.logs import StreamLogs
from binlake.mirror.source.archive_lag import lacks_changes, lags
from binlake.mirror.source.same_history import check_history
from binlake.source.replica.connection import connect, connect_any
from binlake.source.replica.url import ServerUrl, is_server_url
from binlake.values.position import Position, is_log_of


class SourceHost:
    """One of the hosts of a URL. `logs`: those that the mirror reads; without them it is the first host that answers."""

    def __init__(self, url: str, logs: StreamLogs | None = None) -> None:
        self._urls = ServerUrl.parse_all(url)
        self._logs = logs

    @property
    def has_archive(self) -> bool:
        """Whether the mirror reads the log of an archive, which may lag behind the server. Raises BinlogError."""
        return self._logs is not None and not is_server_url(self._logs.look().inputs[0])

    def is_reached(self, log: Position, position: Position) -> bool:
        """Return whether a log that ends at `log` has all changes before a position of the host. A log of the host in which there
        is no change need not be in an archive. Raises BinlogError, SourceError as `copied_url`.
        """
        is_behind = lags(log, position)
        if not self.has_archive:
            return not is_behind
        try:
            url = self.copied_url()
            if not is_behind:
                return True
            with connect(ServerUrl.parse(url)) as server:
                return not lacks_changes(server, log, position)
        except ServerError:  # the host is not available now, or does not show its log
            return False

    @property
    def may_change(self) -> bool:
        """Whether a later start may read another log: of another host, or more of an archive. Raises BinlogError."""
        return len(self._urls) > 1 or self.has_archive

    def url(self) -> str:
        """The URL of the host: after a failover, of another one. With an archive, it is the host whose logs the archive has,
        or else the first one that answers. Raises ServerError.
        """
        if len(self._urls) == 1:
            return str(self._urls[0])
        if self._logs is None:
            with connect_any(self._urls) as server:
                return str(server.url)
        now = self._logs.look()
        if is_server_url(now.inputs[0]):
            return now.inputs[0]
        return self._answering(now.server_uuid)[0]

    def copied_url(self) -> str:
        """The URL for a copy or a comparison, which must read the server of the log. Raises ServerError, and SourceError if an
        archive has the logs of another server, or those before they were reset.
        """
        if self._logs is None:
            return self.url()
        now = self._logs.look()
        if is_server_url(now.inputs[0]):
            return self.url()
        if not now.server_uuid and len(self._urls) > 1:
            raise SourceError(
                f"{now.inputs[0]} does not say of which server its logs are, and the URL names several hosts",
                hint="name only the host of these logs, or make the archive with `binlake archive`",
            )
        url, identity, lost = self._answering(now.server_uuid)
        if not is_log_of(now.server_uuid, identity):
            if lost is not None:  # it may be the server of the archive
                raise lost
            raise SourceError(
                f"the archive has the logs of server {now.server_uuid}, but {url} is server {identity}",
                hint="tables must be copied from the server of the archive, and compared with it: name it in the URL",
            )
        check_history(self._logs, now, url)
        return url

    def _answering(self, archived: str) -> tuple[str, str, ConnectionLostError | None]:
        """The URL and identity of the host whose logs an archive has, or else of the first one that answers, and the error of a
        host that does not answer.
        """
        lost: ConnectionLostError | None = None
        first: tuple[str, str] | None = None
        for url in self._urls:
            try:
                with connect(url) as server:
                    found = str(server.url), server.identity
            except ConnectionLostError as error:
                lost = lost or error
                continue
            if is_log_of(archived, found[1]):
                return (*found, lost)
            first = first or found
        if first is None:
            assert lost is not None, "a URL names a host"
            raise lost
        return (*first, lost)
