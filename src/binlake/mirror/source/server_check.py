"""Check the settings of the server before a mirror begins: its log must contain all changes of the mirrored tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from binlake.errors import IncompleteError, ServerError
from binlake.format.sql_names import TableName
from binlake.mirror.options import MirrorOptions
from binlake.snapshot.read_session import open_session
from binlake.source.replica.answers import whole_number
from binlake.source.replica.connection import ServerConnection
from binlake.source.replica.finding import Finding, Severity
from binlake.source.replica.health import replication_rows, replication_state, unlogged_updates
from binlake.source.replica.health_settings import LogFilters, log_is_off, settable, values_of

_FORMAT = ("binlog_format",)
# With other values of these the log lacks columns, which the mirror takes from the lake where it can.
_IMAGES = ("binlog_row_image", "binlog_row_value_options")
_Look = Callable[[ServerConnection], Iterable[Finding]]


def check_server(
    url: str,
    wanted: Callable[[], Iterable[TableName]],
    options: MirrorOptions,
    note: Callable[[str], None],
) -> None:
    """Raise IncompleteError for settings with which the log of a server lacks changes of the `wanted` tables; `note` receives
    a message for other settings that matter. Settings that the user may not read are not checked. Raises as `connect`.
    """
    gaps: list[_Look] = [log_is_off, _unlogged_replica, lambda server: _filtered(server, wanted)]
    notes: list[_Look] = [lambda server: values_of(server, _IMAGES), _replication]
    (gaps if options.on_statement == "error" else notes).append(_format)
    with open_session(url) as server:
        found = list(_findings(server, gaps))
        if not found:
            for finding in _findings(server, notes):
                note(_sentence(finding))
            return
        what = "; ".join(map(_sentence, found))
        raise IncompleteError(
            f"{server.where}: the server's log lacks changes of tables to mirror: {what}",
            hint="the lake would not get these changes; if it has such tables already, run `binlake mirror resync LAKE '*.*'` "
            "when you have corrected the setting",
        )


def _findings(server: ServerConnection, looks: Iterable[_Look]) -> Iterator[Finding]:
    for look in looks:
        try:
            yield from settable(server, list(look(server)))
        except ServerError as error:
            if error.retryable:
                raise


def _sentence(finding: Finding) -> str:
    text = f"{finding.what}: {finding.why}"
    return f"{text} (to correct it, run {finding.sql})" if finding.sql else text


def _format(server: ServerConnection) -> Iterator[Finding]:
    return values_of(server, _FORMAT)


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
