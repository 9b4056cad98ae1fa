"""What of a live server will make trouble for whoever follows its logs, and the SQL that mends it.

Every question is answered by the server itself: privileges by using them, not by reading
grants. A server that does not know a variable is not asked about it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from binlake.errors import BinlogError, ServerError
from binlake.source.replica.connection import ServerConnection
from binlake.source.replica.session import FollowOptions, register

__all__ = ["Finding", "Severity", "examine"]


class Severity(StrEnum):
    """How bad a finding is."""

    PROBLEM = "problem"  # data will be lost, wrong, or not to be had
    WARNING = "warning"  # it works, and will cost something
    NOTE = "note"  # good to know


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a server: `what` is the case, `why` that matters, `sql` mends it ("": none)."""

    severity: Severity
    topic: str
    what: str
    why: str
    sql: str = ""


@dataclass(frozen=True, slots=True)
class _Setting:
    """What a variable should be; `wants` are lower-case values that are fine. A `flavour` is of that
    one only; before version `settable` it is set where the server starts.
    """

    name: str
    wants: tuple[str, ...]
    severity: Severity
    why: str
    sql: str = ""
    flavour: str = ""
    settable: tuple[int, int, int] = (0, 0, 0)


_PROBLEM, _WARNING, _NOTE = Severity.PROBLEM, Severity.WARNING, Severity.NOTE
_DAY_S = 86_400
_CLOCK_WARNING_S, _CLOCK_PROBLEM_S = 2.0, 60.0
_LISTED = 10
_DENIED = (1044, 1142, 1227)
_SYSTEM = "('mysql', 'sys', 'information_schema', 'performance_schema')"

_SETTINGS = (
    _Setting("binlog_format", ("row",), _PROBLEM, "statements are logged, not the rows that they change", "SET GLOBAL binlog_format = 'ROW'"),
    _Setting("binlog_row_image", ("full",), _WARNING, "rows come without the columns that did not change", "SET GLOBAL binlog_row_image = 'FULL'"),
    _Setting("binlog_row_metadata", ("full",), _WARNING, "names, signs, character sets and keys are not in the log", "SET GLOBAL binlog_row_metadata = 'FULL'"),
    _Setting("binlog_checksum", ("crc32",), _WARNING, "damage on disk or on the way is not noticed", "SET GLOBAL binlog_checksum = 'CRC32'"),
    _Setting("sync_binlog", ("1",), _PROBLEM, "a crash can take back transactions that were already sent", "SET GLOBAL sync_binlog = 1"),
    _Setting("innodb_flush_log_at_trx_commit", ("1",), _PROBLEM, "after a crash tables and log can differ", "SET GLOBAL innodb_flush_log_at_trx_commit = 1"),
    _Setting("gtid_mode", ("on",), _WARNING, "without GTIDs following cannot go on at another server", "SET GLOBAL enforce_gtid_consistency = ON; SET GLOBAL gtid_mode = OFF_PERMISSIVE; SET GLOBAL gtid_mode = ON_PERMISSIVE; SET GLOBAL gtid_mode = ON", "mysql", (5, 7, 6)),
    _Setting("gtid_strict_mode", ("on", "1"), _WARNING, "sequence numbers may go back, and a GTID position then means less than it says", "SET GLOBAL gtid_strict_mode = ON", "mariadb"),
    _Setting("binlog_row_value_options", ("",), _WARNING, "JSON columns come as differences, which need the row before", "SET GLOBAL binlog_row_value_options = ''"),
)  # fmt: skip


def examine(server: ServerConnection, options: FollowOptions) -> list[Finding]:
    """Everything there is to say about a server, problems first. Raises ServerError when it is lost."""
    found: list[Finding] = []
    for look in _LOOKS:
        try:
            found += look(server, options)
        except ServerError as error:
            if error.retryable:
                raise
            if error.code in _DENIED:
                continue  # `_privileges` says which one is missing
            found.append(
                Finding(_NOTE, "privileges", f"not everything could be asked: {error.message}", "")
            )
    order = list(Severity)
    return sorted(found, key=lambda finding: order.index(finding.severity))


def _logging(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    if (server.variable("log_bin") or "off").lower() not in ("on", "1"):
        why = "nothing is logged; it can only be turned on at the server's start"
        yield Finding(_PROBLEM, "settings", "log_bin is OFF", why)
    if server.server_id == 0:
        why = "a source without a number refuses replicas"
        yield Finding(_PROBLEM, "settings", "server_id is 0", why, "SET GLOBAL server_id = 1")
    for setting in _SETTINGS:
        value = server.variable(setting.name) if setting.flavour in ("", server.flavour) else None
        if value is not None and value.lower() not in setting.wants:
            what = f"{setting.name} is {value or 'empty'}"
            sql, why = _kept(server, setting.sql), setting.why
            if server.version < setting.settable:
                sql, why = "", f"{why}; it is set where the server starts"
            yield Finding(setting.severity, "settings", what, why, sql)


def _kept(server: ServerConnection, sql: str) -> str:
    """The statement in the form that outlives a restart, where the server has one."""
    persists = server.flavour == "mysql" and server.version >= (8, 0, 0)
    return sql.replace("SET GLOBAL", "SET PERSIST") if persists else sql


def _filters(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    newer = server.flavour == "mysql" and server.version >= (8, 2, 0)
    rows = server.rows("SHOW BINARY LOG STATUS" if newer else "SHOW MASTER STATUS")
    for name, value in zip(
        ("binlog_do_db", "binlog_ignore_db"), rows[0][2:4] if rows else (), strict=False
    ):
        if value:
            why = "changes of other databases are in no log; it is set where the server starts"
            yield Finding(_PROBLEM, "settings", f"{name} is {value}", why)


def _retention(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    seconds = server.variable("binlog_expire_logs_seconds")
    days = server.variable("expire_logs_days")
    name = "binlog_expire_logs_seconds"
    kept_s = int(float(seconds)) if seconds and float(seconds) else 0
    if not kept_s and days and float(days):
        kept_s, name = round(float(days) * _DAY_S), "expire_logs_days"
    logs = server.logs()
    size = sum(log.size_bytes for log in logs)
    span = f"{logs[0].name} to {logs[-1].name}" if logs else "none"
    yield Finding(
        _NOTE, "retention", f"{len(logs)} logs, {span}, {size:,} bytes",
        f"kept for {kept_s / _DAY_S:g} days" if kept_s else "kept until somebody purges them",
    )  # fmt: skip
    if kept_s and kept_s < _DAY_S:
        sql = f"SET GLOBAL {name} = {_DAY_S * 3 if 'seconds' in name else 3}"
        why = "who is away for longer than that has lost something"
        yield Finding(
            _PROBLEM, "retention", f"logs are kept for {kept_s} seconds", why, _kept(server, sql)
        )
    if not kept_s:
        why = "they fill the disk"
        sql = f"SET GLOBAL {name if seconds is not None else 'expire_logs_days'} = {_DAY_S * 7 if seconds is not None else 7}"
        yield Finding(_WARNING, "retention", "logs are never purged", why, _kept(server, sql))
    purged = server.purged()
    if purged:
        yield Finding(_NOTE, "retention", f"purged: {purged}", "these cannot be read here any more")


def _privileges(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    user = _account(server)
    splits = server.flavour == "mariadb" and server.version >= (10, 5, 2)
    monitor = "BINLOG MONITOR" if splits else "REPLICATION CLIENT"
    needed = [
        (_PROBLEM, "SHOW BINARY LOGS", monitor, "without it nobody is told which logs there are"),
        # a table that every server has
        (_WARNING, "SHOW CREATE TABLE mysql.db", "SELECT", "definitions of tables cannot be asked for"),
    ]  # fmt: skip
    if splits:
        why = "whether the server, as a replica, is up to date cannot be asked for"
        needed.append((_NOTE, _replication_status(server), "REPLICA MONITOR", why))
    for severity, sql, privilege, why in needed:
        try:
            server.rows(sql)
        except ServerError as error:
            if error.code in _DENIED:
                yield Finding(
                    severity,
                    "privileges",
                    f"{user} lacks {privilege}",
                    why,
                    f"GRANT {privilege} ON *.* TO {user}",
                )
    try:
        register(server, options)
    except BinlogError as error:
        yield Finding(
            _PROBLEM, "privileges", f"{user} may not follow: {error.message}",
            "it is what replicas need", f"GRANT REPLICATION SLAVE ON *.* TO {user}",
        )  # fmt: skip


def _account(server: ServerConnection) -> str:
    name, _, host = (server.value("SELECT CURRENT_USER()") or "").rpartition("@")
    return "@".join("'" + part.replace("'", "''") + "'" for part in (name, host))


def _connection(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    if not server.driver.is_encrypted:
        why = "whoever can listen reads every change; ssl-mode=required insists on TLS"
        yield Finding(_WARNING, "connection", "the connection is not encrypted", why)
    elif (
        server.url.option("ssl-mode") in ("", "preferred", "required")
        and not server.driver.unix_socket
    ):
        why = (
            "whoever can take its place is believed; ssl-mode=verify_identity with ssl-ca checks it"
        )
        yield Finding(_NOTE, "connection", "the server's certificate is not checked", why)
    if options.semi_sync and not any(
        (server.variable(name) or "").upper() == "ON"
        for name in ("rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled")
    ):
        why = "semi-sync=on is asked for, and it waits for nobody"
        yield Finding(_PROBLEM, "settings", "the source is not semi-synchronous", why)


def _clock(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    before = time.time()
    there = float(server.value("SELECT UNIX_TIMESTAMP(NOW(6))") or 0)
    after = time.time()
    apart = there - (before + after) / 2
    if abs(apart) - (after - before) / 2 > _CLOCK_WARNING_S:
        severity = _PROBLEM if abs(apart) > _CLOCK_PROBLEM_S else _WARNING
        ahead = "ahead of" if apart > 0 else "behind"
        why = "lag, and what times mean, are wrong by as much; set the clocks (NTP)"
        yield Finding(
            severity, "clock", f"the server's clock is {abs(apart):.1f} s {ahead} ours", why
        )


def _replication(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    """The state of the server as a replica itself."""
    rows = _named_rows(server, _replication_status(server))
    for row in rows:
        channel = row.get("channel_name") or row.get("connection_name") or ""
        name = f"replication{' ' + channel if channel else ''}"
        for key in ("io_running", "sql_running"):
            state = row.get(f"replica_{key}") or row.get(f"slave_{key}") or ""
            if state != "Yes":
                error = row.get(f"last_{key.partition('_')[0]}_error") or "stopped"
                what = f"{name}: {key.partition('_')[0].upper()} thread is {state or 'unknown'}: {error}"
                yield Finding(
                    _PROBLEM, "replication", what, "what its source does does not come here",
                    _start_of(server, channel),
                )  # fmt: skip
        lag = row.get("seconds_behind_source") or row.get("seconds_behind_master")
        if lag and lag.isdecimal() and int(lag) > 60:
            yield Finding(
                _WARNING, "replication", f"{name} is {lag} s behind", "what is read here is as old"
            )
    updates = server.variable("log_replica_updates") or server.variable("log_slave_updates")
    if rows and (updates or "").lower() not in ("on", "1"):
        why = "what it receives as a replica is in none of its logs; it is set where the server starts"
        yield Finding(_PROBLEM, "replication", "log_replica_updates is OFF", why)


def _replication_status(server: ServerConnection) -> str:
    """The question for the state of all its channels."""
    if server.flavour == "mariadb":
        return "SHOW ALL SLAVES STATUS"
    return "SHOW REPLICA STATUS" if server.version >= (8, 0, 22) else "SHOW SLAVE STATUS"


def _start_of(server: ServerConnection, channel: str) -> str:
    """The statement that starts replication by a channel."""
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
        # not table_constraints: MariaDB shows those only to who may change the table
        "SELECT t.table_schema, t.table_name FROM information_schema.tables t "
        "LEFT JOIN information_schema.statistics s ON s.table_schema = t.table_schema "
        "AND s.table_name = t.table_name AND s.non_unique = 0 "
        f"WHERE t.table_type = 'BASE TABLE' AND t.table_schema NOT IN {_SYSTEM} "
        "AND s.index_name IS NULL ORDER BY 1, 2"
    )
    others = server.rows(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE "
        "table_type = 'BASE TABLE' AND engine NOT IN ('InnoDB', 'ROCKSDB') "
        f"AND table_schema NOT IN {_SYSTEM} ORDER BY 1, 2"
    )
    for rows, what, why, mended in (
        (without_key, "without a key", "their rows cannot be told apart", _with_key),
        (others, "of an engine without transactions", "a crash can leave tables and log apart", _transactional),
    ):  # fmt: skip
        if rows:
            listed = [(row[0] or "", row[1] or "") for row in rows[:_LISTED]]
            more = f" and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
            names = ", ".join(map(".".join, listed))
            sql = "; ".join(
                f"ALTER TABLE {_quoted(*table)} {mended(server, table)}" for table in listed
            )
            yield Finding(_WARNING, "tables", f"{len(rows)} {what}: {names}{more}", why, sql)


def _with_key(server: ServerConnection, table: tuple[str, str]) -> str:
    """What gives a table a primary key."""
    columns = server.table(f"SHOW COLUMNS FROM {_quoted(*table)}")[1]
    counted = [row[0] or "" for row in columns if "auto_increment" in (row[-1] or "").lower()]
    if counted:  # there can be one only
        return f"ADD PRIMARY KEY ({_quoted(counted[0])})"
    taken = {(row[0] or "").lower() for row in columns}
    name = "id"
    while name in taken:
        name = f"row_{name}"
    return f"ADD COLUMN {name} BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY FIRST"


def _transactional(server: ServerConnection, table: tuple[str, str]) -> str:
    return "ENGINE = InnoDB"


def _quoted(*names: str) -> str:
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


_LOOKS: tuple[Callable[[ServerConnection, FollowOptions], Iterator[Finding]], ...] = (
    _logging,
    _filters,
    _retention,
    _connection,
    _clock,
    _replication,
    _tables,
    _privileges,
)
