"""Check a live server for problems with following its logs, and give the SQL to fix them.

The server itself answers every question: privileges are checked by using them, not by reading
grants. Variables that a server does not know are not checked.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from binlake.errors import BinlogError, ServerError
from binlake.format.sql_names import quoted_name
from binlake.source.replica.answers import decimal_number, whole_number
from binlake.source.replica.connection import ServerConnection, connect
from binlake.source.replica.finding import Finding, Look, Severity, is_on, persisted
from binlake.source.replica.handshake import FollowOptions, check_allowed, replica_ids
from binlake.source.replica.health_settings import SETTINGS_LOOKS, settable

__all__ = ["DENIED", "Finding", "Severity", "Who", "account", "clashes", "examine"]

_PROBLEM, _WARNING, _NOTE = Severity.PROBLEM, Severity.WARNING, Severity.NOTE
_CLOCK_WARNING_S, _CLOCK_PROBLEM_S = 2.0, 60.0
_LAG_S = 60
_LISTED = 10
#: Codes of the answers that the user lacks a privilege.
DENIED = (1044, 1045, 1142, 1227)
_SYSTEM = "('mysql', 'sys', 'information_schema', 'performance_schema')"
_REPLICATION_FILTERS = (
    *("replicate_do_db", "replicate_ignore_db", "replicate_do_table", "replicate_ignore_table"),
    *("replicate_wild_do_table", "replicate_wild_ignore_table"),
)


def examine(server: ServerConnection, options: FollowOptions) -> list[Finding]:
    """Return all findings about a server, problems first. Raises ServerError when the connection is
    lost.
    """
    server.lift_row_limits()
    found: list[Finding] = []
    for look in _LOOKS:
        try:
            found += look(server, options)
        except ServerError as error:
            if error.retryable:
                raise
            if error.code in DENIED:
                continue  # `_privileges` says which one is missing
            found.append(
                Finding(
                    _NOTE, "privileges", f"not everything could be checked: {error.message}", ""
                )
            )
    found = settable(server, found)
    if any("SET GLOBAL" in finding.sql for finding in found):
        why = "to keep the settings, write them into the server's option file, too"
        found.append(Finding(_NOTE, "restart", "SET GLOBAL lasts until the server restarts", why))
    order = list(Severity)
    return sorted(found, key=lambda finding: order.index(finding.severity))


def _privileges(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    user = account(server)
    splits = server.flavour == "mariadb" and server.version >= (10, 5, 2)
    monitor = "BINLOG MONITOR" if splits else "REPLICATION CLIENT"
    needed = [
        (_PROBLEM, "SHOW BINARY LOGS", monitor, "without it the server does not list its logs"),
        # a table that every server has
        (_WARNING, "SHOW CREATE TABLE mysql.db", "SELECT", "binlake cannot get the definitions of tables"),
    ]  # fmt: skip
    if splits:
        why = "binlake cannot check whether the server, as a replica, is up to date"
        needed.append((_NOTE, _replication_status(server), "REPLICA MONITOR", why))
    for severity, sql, privilege, why in needed:
        try:
            server.rows(sql)
        except ServerError as error:
            if error.code in DENIED:
                yield Finding(
                    severity,
                    "privileges",
                    f"{user} lacks {privilege}",
                    why,
                    f"GRANT {privilege} ON *.* TO {user}",
                )
    try:
        with connect(server.url) as replica:
            check_allowed(replica, options)
    except BinlogError as error:
        if error.code in DENIED:
            yield Finding(
                _PROBLEM, "privileges", f"{user} has no permission to follow: {error.message}",
                "replicas need this privilege", f"GRANT REPLICATION SLAVE ON *.* TO {user}",
            )  # fmt: skip
        else:
            what = f"the server does not send its logs: {error.message}"
            yield Finding(_PROBLEM, "connection", what, error.hint or "binlake cannot follow it")


def _number(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    """Check the server id of the follower."""
    wanted = options.replica_id
    if wanted and wanted in replica_ids(server):
        whose = "the server itself" if wanted == server.server_id else "another replica"
        why = "replicas with the same server id disconnect each other; without this option binlake chooses a free one"
        yield Finding(_PROBLEM, "connection", f"server-id {wanted} belongs to {whose}", why)


def account(server: ServerConnection) -> str:
    """Return the account of the user, as GRANT takes it."""
    name, _, host = (server.value("SELECT CURRENT_USER()") or "").rpartition("@")
    return "@".join("'" + part.replace("'", "''") + "'" for part in (name, host))


def _connection(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    if not server.driver.is_encrypted:
        why = (
            "anyone who can listen reads every change; ssl-mode=verify_ca with ssl-ca requires TLS"
        )
        yield Finding(_WARNING, "connection", "the connection is not encrypted", why)
    elif not server.driver.is_verified:
        why = (
            "binlake trusts any server in its place; ssl-mode=verify_identity with ssl-ca checks it"
        )
        yield Finding(_NOTE, "connection", "the server's certificate is not checked", why)


def _clock(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    before = time.time()
    there = decimal_number(server.value("SELECT UNIX_TIMESTAMP(NOW(6))"), "the time")
    after = time.time()
    apart = there - (before + after) / 2
    if abs(apart) - (after - before) / 2 > _CLOCK_WARNING_S:
        severity = _PROBLEM if abs(apart) > _CLOCK_PROBLEM_S else _WARNING
        ahead = "ahead of" if apart > 0 else "behind"
        why = "the lag and all times are wrong by that much; synchronise the clocks (NTP)"
        yield Finding(
            severity,
            "clock",
            f"the server's clock is {abs(apart):.1f} s {ahead} the clock of this machine",
            why,
        )


def _replication(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    rows = replication_rows(server)
    yield from replication_state(server, rows)
    if rows:
        yield from unlogged_updates(server)


def replication_rows(server: ServerConnection) -> list[dict[str, str | None]]:
    """The state of each channel by which a server is a replica itself; none if it is no replica. Raises ServerError,
    also without the privilege to see it.
    """
    return _named_rows(server, _replication_status(server))


def replication_state(
    server: ServerConnection, rows: Sequence[dict[str, str | None]]
) -> Iterator[Finding]:
    """Findings about changes of its source that a replica may lack; `rows`: see `replication_rows`."""
    for row in rows:
        channel = row.get("channel_name") or row.get("connection_name") or ""
        name = f"replication{' ' + channel if channel else ''}"
        for key in ("io_running", "sql_running"):
            state = row.get(f"replica_{key}") or row.get(f"slave_{key}") or ""
            if state != "Yes":
                error = row.get(f"last_{key.partition('_')[0]}_error") or "stopped"
                what = f"{name}: {key.partition('_')[0].upper()} thread is {state or 'unknown'}: {error}"
                yield Finding(
                    _PROBLEM, "replication", what, "changes of its source do not arrive here",
                    _start_of(server, channel),
                )  # fmt: skip
        lag = row.get("seconds_behind_source") or row.get("seconds_behind_master")
        yield from _on_purpose(name, row)
        if lag and lag.isdecimal() and whole_number(lag, "the lag") > _LAG_S:
            yield Finding(
                _WARNING,
                "replication",
                f"{name} is {lag} s behind",
                "the data read here lags as much",
            )


def unlogged_updates(replica: ServerConnection) -> Iterator[Finding]:
    """Whether a replica does not log the changes that it receives."""
    names = ("log_replica_updates", "log_slave_updates")
    found = {name: value for name in names if (value := replica.variable(name)) is not None}
    if found and not any(map(is_on, found.values())):
        why = "its logs do not contain changes that it receives as a replica; set it at the server's start"
        yield Finding(_PROBLEM, "replication", f"{next(iter(found))} is OFF", why)


def _on_purpose(name: str, row: dict[str, str | None]) -> Iterator[Finding]:
    """Check for replication that is delayed or filtered."""
    delay = row.get("sql_delay") or "0"
    if delay != "0":
        why = "the data read here is older by that much"
        yield Finding(_NOTE, "replication", f"{name} is delayed by {delay} s", why)
    for key in _REPLICATION_FILTERS:
        if row.get(key):
            why = "excluded changes of its source are not in its logs"
            yield Finding(_WARNING, "replication", f"{name}: {key} is {row[key]}", why)


def _replication_status(server: ServerConnection) -> str:
    """Return the query for the state of all its channels."""
    if server.flavour == "mariadb":
        return "SHOW ALL SLAVES STATUS"
    return "SHOW REPLICA STATUS" if server.version >= (8, 0, 22) else "SHOW SLAVE STATUS"


def _start_of(server: ServerConnection, channel: str) -> str:
    """Return the statement that starts replication by a channel."""
    named = "'" + channel.replace("'", "''") + "'"
    if server.flavour == "mariadb":
        return f"START SLAVE {named}" if channel else "START SLAVE"
    start = "START REPLICA" if server.version >= (8, 0, 22) else "START SLAVE"
    return f"{start} FOR CHANNEL {named}" if channel else start


def _named_rows(server: ServerConnection, sql: str) -> list[dict[str, str | None]]:
    names, rows = server.table(sql)
    return [dict(zip((name.lower() for name in names), row, strict=True)) for row in rows]


def _tables(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    without_key = server.rows(
        # not table_constraints: MariaDB shows those only to users who may change the table
        "SELECT t.table_schema, t.table_name FROM information_schema.tables t "
        "LEFT JOIN information_schema.statistics s ON s.table_schema = t.table_schema "
        "AND s.table_name = t.table_name AND s.non_unique = 0 "
        f"WHERE t.table_type = 'BASE TABLE' AND t.table_schema NOT IN {_SYSTEM} "
        "AND s.index_name IS NULL ORDER BY 1, 2",
        2,
    )
    others = server.rows(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE "
        "table_type = 'BASE TABLE' AND engine NOT IN ('InnoDB', 'ROCKSDB') "
        f"AND table_schema NOT IN {_SYSTEM} ORDER BY 1, 2",
        2,
    )
    for rows, what, why, mended in (
        (without_key, "without a key", "their rows cannot be identified", _with_key),
        (others, "of an engine without transactions", "after a crash, tables and log can differ", lambda _server, _table: "ENGINE = InnoDB"),
    ):  # fmt: skip
        if rows:
            listed = [(row[0] or "", row[1] or "") for row in rows[:_LISTED]]
            more = f" and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
            names = ", ".join(map(".".join, listed))
            sql = "; ".join(
                f"ALTER TABLE {quoted_name(*table)} {mended(server, table)}" for table in listed
            )
            yield Finding(_WARNING, "tables", f"{len(rows)} {what}: {names}{more}", why, sql)


def _with_key(server: ServerConnection, table: tuple[str, str]) -> str:
    """Return the clause that gives a table a primary key."""
    columns = server.table(f"SHOW COLUMNS FROM {quoted_name(*table)}")[1]
    counted = [row[0] or "" for row in columns if "auto_increment" in (row[-1] or "").lower()]
    if counted:  # there can be only one
        return f"ADD PRIMARY KEY ({quoted_name(counted[0])})"
    taken = {(row[0] or "").lower() for row in columns}
    name = "id"
    while name in taken:
        name = f"row_{name}"
    return f"ADD COLUMN {name} BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY FIRST"


@dataclass(frozen=True, slots=True)
class Who:
    """The identifiers of a server among others."""

    where: str
    server_id: int
    identity: str
    sets_for_good: bool

    @classmethod
    def of(cls, server: ServerConnection) -> Who:
        """Return the identifiers of a server."""
        sets_for_good = persisted(server, "SET GLOBAL") != "SET GLOBAL"
        return cls(server.where, server.server_id, server.identity, sets_for_good)


def clashes(servers: Sequence[Who]) -> list[list[Finding]]:
    """Check several servers that replace one another: return, for each server, the identifiers that it
    shares with a server before it and must not share.
    """
    found: list[list[Finding]] = []
    for index, one in enumerate(servers):
        mine: list[Finding] = []
        for other in servers[:index]:
            if one.server_id == other.server_id:
                free = max(server.server_id for server in servers) + index
                how = "PERSIST" if one.sets_for_good else "GLOBAL"
                mine.append(
                    Finding(
                        _PROBLEM, "servers", f"{other.where} has the same server_id {one.server_id}",
                        "they ignore each other's changes, and GTIDs of MariaDB are ambiguous",
                        f"SET {how} server_id = {free}",
                    )
                )  # fmt: skip
            elif one.identity == other.identity:
                why = "its data was copied: remove auto.cnf and start it again"
                what = f"{other.where} has the same server_uuid {one.identity}"
                mine.append(Finding(_PROBLEM, "servers", what, why))
        found.append(mine)
    return found


_LOOKS: tuple[Look, ...] = (
    *SETTINGS_LOOKS,
    _connection,
    _number,
    _clock,
    _replication,
    _tables,
    _privileges,
)
