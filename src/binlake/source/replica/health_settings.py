"""Check a server's variables: what it logs, how safely, and for how long."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from binlake.errors import ServerError
from binlake.source.replica.answers import decimal_number, whole_number
from binlake.source.replica.connection import ServerConnection
from binlake.source.replica.finding import Finding, Severity, is_on, persisted
from binlake.source.replica.handshake import FollowOptions
from binlake.values.quantities import counted, first_to_last

_PROBLEM, _WARNING, _NOTE = Severity.PROBLEM, Severity.WARNING, Severity.NOTE
_DAY_S = 86_400
#: The setting of Amazon RDS for the retention, and its largest value on RDS for MySQL and MariaDB (Aurora allows more).
_RDS_HOURS = "binlog retention hours"
_RDS_MOST_HOURS = 168


@dataclass(frozen=True, slots=True)
class _Setting:
    """The required value of a variable. `wants` are lower-case values that are fine. A `flavour`
    limits the check to that one; before version `settable` the variable can only be set at the
    server's start.
    """

    name: str
    wants: tuple[str, ...]
    severity: Severity
    why: str
    sql: str = ""
    flavour: str = ""
    settable: tuple[int, int, int] = (0, 0, 0)


_SETTINGS = (
    _Setting("binlog_format", ("row",), _PROBLEM, "statements are logged, not the rows that they change", "SET GLOBAL binlog_format = 'ROW'"),
    _Setting("binlog_row_image", ("full", "full_nodup"), _WARNING, "rows come without the columns that did not change", "SET GLOBAL binlog_row_image = 'FULL'"),
    _Setting("binlog_row_metadata", ("full",), _WARNING, "the log lacks names, signs, character sets and keys", "SET GLOBAL binlog_row_metadata = 'FULL'"),
    _Setting("binlog_row_value_options", ("",), _WARNING, "JSON columns come as differences, which need the row before", "SET GLOBAL binlog_row_value_options = ''"),
    _Setting("mysql56_temporal_format", ("on",), _WARNING, "tables made now log times without their fractional digits' number", "SET GLOBAL mysql56_temporal_format = ON", "mariadb"),
    _Setting("binlog_checksum", ("crc32",), _WARNING, "damage on disk or in transit goes unnoticed", "SET GLOBAL binlog_checksum = 'CRC32'"),
    _Setting("binlog_error_action", ("abort_server",), _PROBLEM, "the server continues without a log if it cannot write the log", "SET GLOBAL binlog_error_action = 'ABORT_SERVER'", "mysql"),
    _Setting("sync_binlog", ("1",), _PROBLEM, "a crash can undo transactions that were already sent", "SET GLOBAL sync_binlog = 1"),
    _Setting("innodb_flush_log_at_trx_commit", ("1",), _PROBLEM, "after a crash tables and log can differ", "SET GLOBAL innodb_flush_log_at_trx_commit = 1"),
    _Setting("innodb_support_xa", ("on", "1"), _PROBLEM, "InnoDB does not mark transactions that are being committed: tables and log can differ after a crash, and binlake cannot tell which transactions of the log a SELECT sees", "SET GLOBAL innodb_support_xa = ON"),
    _Setting("gtid_mode", ("on",), _WARNING, "without GTIDs a follower cannot continue on another server", "SET GLOBAL enforce_gtid_consistency = ON; SET GLOBAL gtid_mode = OFF_PERMISSIVE; SET GLOBAL gtid_mode = ON_PERMISSIVE; SET GLOBAL gtid_mode = ON", "mysql", (5, 7, 6)),
    _Setting("gtid_strict_mode", ("on", "1"), _WARNING, "sequence numbers may go back, and a GTID position is then ambiguous", "SET GLOBAL gtid_strict_mode = ON", "mariadb"),
    _Setting("read_binlog_speed_limit", ("0",), _NOTE, "kB/s: the server sends no more than that to a replica", "SET GLOBAL read_binlog_speed_limit = 0", "mariadb"),
)  # fmt: skip


def log_is_off(server: ServerConnection) -> Iterator[Finding]:
    """Whether the server writes no log."""
    if not is_on(server.variable("log_bin")):
        why = "nothing is logged; it can only be turned on at the server's start"
        yield Finding(_PROBLEM, "settings", "log_bin is OFF", why)


def values_of(server: ServerConnection, names: Collection[str]) -> Iterator[Finding]:
    """The variables with one of these names whose values are not the required ones."""
    for setting in _SETTINGS:
        if setting.name in names:
            yield from _value_of(server, setting)


def _value_of(server: ServerConnection, setting: _Setting) -> Iterator[Finding]:
    value = server.variable(setting.name) if setting.flavour in ("", server.flavour) else None
    if value is not None and value.lower() not in setting.wants:
        what = f"{setting.name} is {value or 'empty'}"
        sql, why = persisted(server, setting.sql), setting.why
        if server.version < setting.settable:
            sql, why = "", f"{why}; set it at the server's start"
        yield Finding(setting.severity, "settings", what, why, sql)


def _logging(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    yield from log_is_off(server)
    if server.server_id == 0:
        why = "a source without a number refuses replicas"
        sql = persisted(server, "SET GLOBAL server_id = 1")
        yield Finding(_PROBLEM, "settings", "server_id is 0", why, sql)
    for setting in _SETTINGS:
        yield from _value_of(server, setting)
    if server.variable("binlog_row_metadata") is None:
        why = "they come from DDL in the log, --schema, or the server as it is today"
        what = f"{server.flavour} {server.version_text} does not log the names of columns"
        yield Finding(_NOTE, "names", what, why)
    for name in ("binlog_encryption", "encrypt_binlog"):
        if is_on(server.variable(name)):
            why = "the server sends them decrypted; to read the files themselves, use --keyring"
            yield Finding(_NOTE, "encryption", f"{name} is ON", why)


@dataclass(frozen=True, slots=True)
class LogFilters:
    """The databases of binlog_do_db and binlog_ignore_db, separated by commas; "" for none. `distinguishes_case`: whether
    the server has lower_case_table_names=0, and compares their names exactly.
    """

    do_db: str
    ignore_db: str
    distinguishes_case: bool = True

    @classmethod
    def of(cls, server: ServerConnection) -> LogFilters:
        """The filters of a server. Raises ServerError, also without the privilege to see its position."""
        rows = server.log_status(4)
        do_db, ignore_db = (rows[0][2] or "", rows[0][3] or "") if rows else ("", "")
        if not do_db and not ignore_db:
            return cls("", "")
        return cls(do_db, ignore_db, server.variable("lower_case_table_names") == "0")

    def logs(self, database: str) -> bool:
        """Whether the server logs the rows of a database: binlog_ignore_db has no effect beside binlog_do_db."""
        named = self.do_db or self.ignore_db
        if not self.distinguishes_case:
            database, named = database.lower(), named.lower()
        return (database in named.split(",")) is bool(self.do_db)

    def findings(self) -> Iterator[Finding]:
        """Each filter that is set."""
        for name, value, whose in (
            ("binlog_do_db", self.do_db, "other databases"),
            ("binlog_ignore_db", self.ignore_db, "these databases"),
        ):
            if value:
                why = f"changes of {whose} are in no log; set it at the server's start"
                yield Finding(_PROBLEM, "settings", f"{name} is {value}", why)


def _filters(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    yield from LogFilters.of(server).findings()


def _retention(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    logs = server.logs()
    size = sum(log.size_bytes for log in logs)
    span = first_to_last([log.name for log in logs]) if logs else "none"
    what = f"{counted(len(logs), 'log')}, {span}, {size:,} bytes"
    on_rds = list(_rds_retention(server, what))
    yield from on_rds or _own_retention(server, what)
    if purged := server.purged():
        yield Finding(_NOTE, "retention", f"purged: {purged}", "binlake cannot read them any more")


def _rds_retention(server: ServerConnection, logs: str) -> Iterator[Finding]:
    """How long Amazon RDS keeps logs, which ignores the variables of the server; nothing on other servers."""
    try:
        rows = server.rows(f"SELECT value FROM mysql.rds_configuration WHERE name = '{_RDS_HOURS}'")
    except ServerError as error:
        if error.retryable:
            raise
        if _is_on_rds(server):
            why = f"'{_RDS_HOURS}' sets how long they are kept; CALL mysql.rds_show_configuration shows it"
            yield Finding(_NOTE, "retention", logs, why)
        return
    hours = whole_number(rows[0][0] if rows else None, _RDS_HOURS)
    why = (
        f"kept for {counted(hours, 'hour')}"
        if hours
        else "kept until Amazon RDS needs them no longer"
    )
    yield Finding(_NOTE, "retention", logs, why)
    if hours < _DAY_S // 3600:
        set_to = f"{hours}" if hours else "not set: the server purges logs as soon as it can"
        why = "a reader that is away for longer loses changes"
        sql = f"CALL mysql.rds_set_configuration('{_RDS_HOURS}', {_RDS_MOST_HOURS})"
        yield Finding(_PROBLEM, "retention", f"'{_RDS_HOURS}' is {set_to}", why, sql)


def _is_on_rds(server: ServerConnection) -> bool:
    """Whether Amazon runs the server (RDS, Aurora)."""
    return (server.variable("basedir") or "").startswith("/rdsdbbin")


def settable(server: ServerConnection, findings: list[Finding]) -> list[Finding]:
    """Return the findings about a server with the way to set its variables: on Amazon RDS, SQL cannot do that."""
    if not _is_on_rds(server):
        return findings
    where = "set it in the DB parameter group"
    return [
        replace(finding, why=f"{finding.why}; {where}", sql="")
        if "SET GLOBAL" in finding.sql or "SET PERSIST" in finding.sql
        else finding
        for finding in findings
    ]


def _own_retention(server: ServerConnection, logs: str) -> Iterator[Finding]:
    """How long the server keeps logs by its variables."""
    name, kept_s = _kept_seconds(server)
    most = whole_number(server.variable("max_binlog_total_size"), "max_binlog_total_size")
    turned_off = server.variable("binlog_expire_logs_auto_purge") == "OFF"
    rules = [f"for {kept_s / _DAY_S:g} days"] if kept_s and not turned_off else []
    rules += [f"up to {most:,} bytes together"] if most else []
    why = f"kept {' and '.join(rules)}" if rules else "kept without a limit"
    yield Finding(_NOTE, "retention", logs, why)
    if kept_s and kept_s < _DAY_S:
        sql = f"SET GLOBAL {name} = {_DAY_S * 3 if 'seconds' in name else 3}"
        why = "a reader that is away for longer loses changes"
        yield Finding(
            _PROBLEM,
            "retention",
            f"logs are kept for {kept_s} seconds",
            why,
            persisted(server, sql),
        )
    if not kept_s and not most:
        sql = f"SET GLOBAL {name} = {_DAY_S * 7 if 'seconds' in name else 7}"
        yield Finding(
            _WARNING,
            "retention",
            "logs are never purged",
            "they fill the disk",
            persisted(server, sql),
        )
    if turned_off:
        sql = persisted(server, "SET GLOBAL binlog_expire_logs_auto_purge = ON")
        why = "logs are never purged, however old: they fill the disk"
        yield Finding(_WARNING, "retention", "binlog_expire_logs_auto_purge is OFF", why, sql)
    yield from _waits_for_replicas(server, most)


def _kept_seconds(server: ServerConnection) -> tuple[str, int]:
    """Return the variable that sets how long logs are kept, and that time; 0: without a limit."""
    seconds = server.variable("binlog_expire_logs_seconds")
    days = server.variable("expire_logs_days")
    kept_days = decimal_number(days, "expire_logs_days")
    kept_s = int(decimal_number(seconds, "binlog_expire_logs_seconds"))
    if seconds is not None and (kept_s or not kept_days):
        return "binlog_expire_logs_seconds", kept_s
    return "expire_logs_days", round(kept_days * _DAY_S)


def _waits_for_replicas(server: ServerConnection, most_bytes: int) -> Iterator[Finding]:
    """Check MariaDB from 11.4 on, which purges automatically only while so many replicas are
    connected.
    """
    text = server.variable("slave_connections_needed_for_purge")
    if text is None:
        return
    needed = whole_number(text, "slave_connections_needed_for_purge")
    rows = server.rows("SHOW GLOBAL STATUS LIKE 'Slaves_connected'", 2)
    connected = whole_number(rows[0][1] if rows else None, "Slaves_connected")
    what = f"slave_connections_needed_for_purge is {needed}"
    sql = f"SET GLOBAL slave_connections_needed_for_purge = {max(1, connected)}"
    if not needed and most_bytes:
        why = "the server purges logs above max_binlog_total_size even if no replica has read them"
        yield Finding(_WARNING, "retention", what, why, sql)
    elif needed > max(1, connected):
        why = (
            f"replicas, but {connected} follow now: the server purges nothing, and logs fill"
            " the disk"
        )
        yield Finding(_WARNING, "retention", what, why, sql)


def _semi_sync(server: ServerConnection, options: FollowOptions) -> Iterator[Finding]:
    if not options.semi_sync:
        return
    side = next(
        (s for s in ("source", "master") if server.variable(f"rpl_semi_sync_{s}_enabled")), ""
    )
    if side and is_on(server.variable(f"rpl_semi_sync_{side}_enabled")):
        timeout_ms = whole_number(server.variable(f"rpl_semi_sync_{side}_timeout"), "the timeout")
        what = f"rpl_semi_sync_{side}_timeout is {timeout_ms}"
        why = "ms: a COMMIT that has waited that long returns without an acknowledgement"
        yield Finding(_NOTE, "settings", what, why)
        return
    install = ""
    if not side:
        side = "source" if server.version >= (8, 0, 26) else "master"
        install = f"INSTALL PLUGIN rpl_semi_sync_{side} SONAME 'semisync_{side}.so'; "
    sql = install + persisted(server, f"SET GLOBAL rpl_semi_sync_{side}_enabled = ON")
    why = "semi-sync=on is set, but the server does not wait for acknowledgements"
    yield Finding(_PROBLEM, "settings", "the source is not semi-synchronous", why, sql)


#: The checks of this module.
SETTINGS_LOOKS = (_logging, _filters, _retention, _semi_sync)
