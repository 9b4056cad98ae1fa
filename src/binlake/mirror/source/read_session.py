"""Sessions that read tables, and the log positions that belong to the data read.

No table is ever locked. A position before a read is right if every transaction before it is visible to
the read. MariaDB gives the exact position of a consistent snapshot. MySQL does not: its log has a
transaction some milliseconds before InnoDB shows it. `settled_position` waits until InnoDB has
finished every transaction that the log may have, and `begin_snapshot` also finds a moment in which
nothing was committed.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator

from binlake.errors import ServerError
from binlake.source.replica.answers import whole_number
from binlake.source.replica.connection import ServerConnection, checked_log_name, connect
from binlake.source.replica.url import ServerUrl
from binlake.values.ledger import counted
from binlake.values.position import Position

__all__ = [
    "begin_snapshot",
    "open_session",
    "raw_definitions",
    "settled_position",
    "take_raw_text",
]

_PATIENCE_S = 60.0
_PAUSE_S = 0.002
_SESSION = (
    "SET SESSION sql_mode = '', sql_quote_show_create = 1, time_zone = '+00:00'",
    "SET SESSION net_write_timeout = 3600, net_read_timeout = 3600, wait_timeout = 28800",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)
#: Settings that only some servers have.
_WHERE_KNOWN = (
    "SET SESSION show_gipk_in_create_table_and_information_schema = ON",
    "SET SESSION max_execution_time = 0",
    "SET SESSION max_statement_time = 0",
)
_UNKNOWN_VARIABLE = 1193
_DENIED = 1227
_IN_FLIGHT = re.compile(r"---TRANSACTION (\d+), (?:ACTIVE \(PREPARED\)|COMMITTED IN MEMORY)")
_CUT = "... truncated..."
_NEEDS_PROCESS = "GRANT PROCESS ON *.* TO the user of this URL"


@contextlib.contextmanager
def open_session(url: str | ServerUrl) -> Iterator[ServerConnection]:
    """A connection that reads tables: in UTC, without limits of time. Raises as `connect`."""
    parsed = ServerUrl.parse(url) if isinstance(url, str) else url
    with connect(parsed.log("")) as server:
        for sql in _SESSION:
            server.execute(sql)
        for sql in _WHERE_KNOWN:
            try:
                server.execute(sql)
            except ServerError as error:
                if error.code != _UNKNOWN_VARIABLE:
                    raise
        yield server


@contextlib.contextmanager
def raw_definitions(server: ServerConnection) -> Iterator[None]:
    """Have definitions sent as bytes: MariaDB writes the default of a binary column as it is, which may not be UTF-8.

    The text of these queries then has U+FFFD for such bytes.
    """
    server.execute("SET SESSION character_set_results = binary")
    try:
        yield
    finally:
        with contextlib.suppress(
            ServerError
        ):  # of a connection that is lost, as its next use reports
            server.execute("SET SESSION character_set_results = utf8mb4")


def take_raw_text(server: ServerConnection) -> None:
    """Have text sent in the character set of its column, as a row image has it."""
    server.execute("SET SESSION character_set_results = NULL")


def settled_position(server: ServerConnection) -> Position:
    """A position of the log such that a read that begins now sees everything before it.

    On MariaDB a consistent snapshot begins, and the position is exactly its own. Raises ServerError.
    """
    if server.flavour == "mariadb":
        return begin_snapshot(server)
    position = server.position()
    waiting = _in_flight(server)
    deadline = time.monotonic() + _PATIENCE_S
    while waiting and len(waiting) > _xa_prepared(server):
        if time.monotonic() > deadline:
            raise ServerError(
                f"{server.where}: after {_PATIENCE_S:.0f} s,"
                f" {counted(len(waiting), 'transaction')} still about to commit",
                hint="XA RECOVER lists prepared XA transactions; granting XA_RECOVER_ADMIN lets "
                "binlake tell them apart",
            )
        time.sleep(_PAUSE_S)
        waiting &= _in_flight(server)
    return position


def begin_snapshot(server: ServerConnection) -> Position:
    """Begin a transaction that sees the tables as they are at one position; return that position.

    It holds for tables of transactional engines. Raises ServerError, also where a MySQL server never
    rests between two commits.
    """
    if server.flavour == "mariadb":
        return _mariadb_snapshot(server)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        before = server.position()
        if len(_in_flight(server)) <= _xa_prepared(server):
            server.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            if server.position() == before:
                return before
            server.execute("ROLLBACK")
        if time.monotonic() > deadline:
            raise ServerError(
                f"{server.where} commits without a pause of a few milliseconds: the position of a "
                "consistent snapshot could not be found",
                hint="try again when fewer transactions are committed, or read from a replica",
            )


def _mariadb_snapshot(server: ServerConnection) -> Position:
    server.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    status = server.rows("SHOW STATUS LIKE 'binlog\\_snapshot\\_%'", 2)
    known = {(row[0] or "").lower(): row[1] or "" for row in status}
    file = known.get("binlog_snapshot_file", "")
    if not file:
        raise ServerError(f"{server.where} writes no binary log", hint="start it with log_bin")
    name = checked_log_name(file)
    offset = whole_number(known.get("binlog_snapshot_position"), "binlog_snapshot_position")
    return Position(server.identity, name, offset, server.gtids_before(name, offset) or "")


def _in_flight(server: ServerConnection) -> set[str]:
    """InnoDB's transactions between the first step of their commit and the last. Raises ServerError."""
    try:
        text = server.row("SHOW ENGINE INNODB STATUS", 3)[2] or ""
    except ServerError as error:
        raise error.hinted(_NEEDS_PROCESS) if error.code == _DENIED else error from None
    if _CUT in text:
        raise ServerError(
            f"{server.where} has more open transactions than SHOW ENGINE INNODB STATUS lists",
            hint="try again when fewer transactions are open, or read from a replica",
        )
    return set(_IN_FLIGHT.findall(text))


def _xa_prepared(server: ServerConnection) -> int:
    """How many XA transactions wait for their decision; 0 where the user may not ask."""
    try:
        return len(server.rows("XA RECOVER"))
    except ServerError as error:
        if error.retryable:
            raise
        return 0
