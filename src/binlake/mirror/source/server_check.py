"""Check the settings of the server of a mirror: its log must contain all changes of the mirrored tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from binlake.errors import IncompleteError, ServerError
from binlake.follow.logs import StreamLogs
from binlake.follow.server_logs import PATIENCE_S, patiently
from binlake.format.sql_names import TableName
from binlake.mirror.options import MirrorOptions
from binlake.mirror.source.host import SourceHost
from binlake.snapshot.read_session import open_session
from binlake.source.replica.answers import whole_number
from binlake.source.replica.connection import ServerConnection
from binlake.source.replica.finding import Finding, Severity
from binlake.source.replica.health import replication_rows, replication_state, unlogged_updates
from binlake.source.replica.health_settings import LogFilters, log_is_off, settable, values_of

_FORMAT = ("binlog_format",)
_COMMITS = ("innodb_support_xa",)
# With other values of these the log lacks columns, which the mirror takes from the lake where it can.
_IMAGES = ("binlog_row_image", "binlog_row_value_options")
_Look = Callable[[ServerConnection], Iterable[Finding]]


class ServerCheck:
    """Checks the server when a mirror begins, and again after each new connection of its `logs`: the server may have been
    started with other settings, or it may be another one. The arguments are as in `check_server`.
    """

    def __init__(
        self,
        host: SourceHost,
        logs: StreamLogs,
        wanted: Callable[[], Iterable[TableName]],
        options: MirrorOptions,
        note: Callable[[str], None],
        stop: threading.Event,
    ) -> None:
        self._host = host
        self._logs = logs
        self._wanted = wanted
        self._options = options
        self._note = note
        self._stop = stop
        self._connections = 0
        self._noted: set[str] = set()

    def begin(self, url: str) -> None:
        """Check one host before the logs are read. Raises as `check_server`."""
        check_server(url, self._wanted, self._options, self._note_once)
        self._connections = max(1, self._logs.connections)

    def work(self) -> bool:
        """Check again if the logs have been read over a new connection, and return whether they have. Raises as `check_server`."""
        connections = self._logs.connections
        if connections <= self._connections:
            return False
        patiently(self._again, PATIENCE_S, started="mirror", stop=self._stop)
        self._connections = connections
        return True

    def _again(self) -> None:
        check_server(self._host.url(), self._wanted, self._options, self._note_once)

    def _note_once(self, sentence: str) -> None:
        if sentence not in self._noted:
            self._noted.add(sentence)
            self._note(sentence)


def check_server(
    url: str,
    wanted: Callable[[], Iterable[TableName]],
    options: MirrorOptions,
    note: Callable[[str], None],
) -> None:
    """Raise IncompleteError for settings with which the log of a server lacks changes of the `wanted` tables, or a copy can lack
    rows; `note` receives a message for other settings that matter. Settings that the user may not read are not checked.
    Raises as `connect`.
    """
    gaps: list[_Look] = [log_is_off, _unlogged_replica, lambda server: _filtered(server, wanted)]
    notes: list[_Look] = [
        lambda server: values_of(server, _IMAGES),
        _replication,
        _filters_statements,
    ]
    (gaps if options.on_statement == "error" else notes).append(_format)
    with open_session(url) as server:
        if found := list(_findings(server, gaps)):
            raise IncompleteError(
                f"{server.where}: the server's log lacks changes of tables to mirror: {'; '.join(map(str, found))}",
                hint="the lake would not get these changes; if it has such tables already, run `binlake mirror resync LAKE '*.*'` "
                "when you have corrected the setting",
            )
        if found := list(_findings(server, [_commits])):
            raise IncompleteError(
                f"{server.where}: copies of tables can lack rows: {'; '.join(map(str, found))}",
                hint="when you have corrected the setting, let the applications connect again, because it concerns new sessions; "
                "if the lake has tables already, run `binlake mirror resync LAKE '*.*'`",
            )
        for finding in _findings(server, notes):
            note(str(finding))


def _findings(server: ServerConnection, looks: Iterable[_Look]) -> Iterator[Finding]:
    for look in looks:
        try:
            yield from settable(server, list(look(server)))
        except ServerError as error:
            if error.retryable:
                raise


def _format(server: ServerConnection) -> Iterator[Finding]:
    return values_of(server, _FORMAT)


def _commits(server: ServerConnection) -> Iterator[Finding]:
    return values_of(server, _COMMITS)


def _unlogged_replica(server: ServerConnection) -> Iterator[Finding]:
    found = list(unlogged_updates(server))
    if found and _is_replica(server):
        yield from found


def _is_replica(server: ServerConnection) -> bool:
    try:
        return bool(replication_rows(server))
    except ServerError as error:
        if error.retryable or server.flavour != "mariadb":
            raise
    # MariaDB shows the state to users with REPLICA MONITOR only, and the number of running replications to all
    rows = server.rows("SHOW GLOBAL STATUS LIKE 'Slaves_running'", 2)
    return bool(rows) and whole_number(rows[0][1], "Slaves_running") > 0


def _replication(server: ServerConnection) -> Iterator[Finding]:
    for finding in replication_state(server, replication_rows(server)):
        if finding.severity is not Severity.NOTE:
            yield finding


def _filtered(
    server: ServerConnection, wanted: Callable[[], Iterable[TableName]]
) -> Iterator[Finding]:
    filters = LogFilters.of(server)
    found = list(filters.findings())
    if found and not all(filters.logs(database) for database in {name[0] for name in wanted()}):
        yield from found


def _filters_statements(server: ServerConnection) -> Iterator[Finding]:
    """The filters that leave out statements on tables whose rows they do not leave out."""
    why = (
        "the log also lacks TRUNCATE, DROP, ALTER, CREATE and RENAME on mirrored tables if the default database of the session"
        " is not logged; run such statements after USE of a database that is, or start the server without the filter"
    )
    for finding in LogFilters.of(server).findings():
        yield replace(finding, why=why)
