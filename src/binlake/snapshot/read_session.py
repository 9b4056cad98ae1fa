"""Sessions that read tables, and the log positions that belong to the data read.

binlake locks no table. A server holds a metadata lock on each table that a snapshot has read until the session ends: an ALTER waits
for it, and all later statements wait for the ALTER. Sessions are therefore short, or read one table.

A position before a read is right if every transaction before it is visible to
the read. On both servers, the log has a transaction some milliseconds before InnoDB shows it. `settled_position` waits
until every transaction that the log may have is visible.

`begin_snapshot` finds the exact position of a snapshot. On MySQL it needs a moment in which nothing is committed. MariaDB
reports the position itself: InnoDB shows a transaction at the moment at which this position moves past it. There are exceptions:

- The position moves past an XA transaction before `XA COMMIT` makes it visible.
- When the server begins a new log, the position moves there although the last transactions of the old log are not visible yet.
- After that, it can be the new log with an offset of the old one, until the next commit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

from binlake.errors import ServerError
from binlake.snapshot.commits import PATIENCE_S, CommitsInFlight, wait_for_commits, xa_prepared
from binlake.source.replica.answers import whole_number
from binlake.source.replica.connection import ServerConnection, checked_log_name, connect
from binlake.source.replica.finding import is_on
from binlake.source.replica.handshake import UNKNOWN_VARIABLE
from binlake.source.replica.url import ServerUrl
from binlake.values.position import LogPosition, Position

#: How long a statement waits for a table that another session has locked: a copy that waits holds up the rounds.
LOCK_WAIT_S = 60
_PAUSE_S = 0.01
_SESSION = (
    "SET SESSION sql_mode = '', sql_quote_show_create = 1, time_zone = '+00:00'",
    "SET SESSION net_write_timeout = 3600, net_read_timeout = 3600, wait_timeout = 28800",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)
_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
#: Settings that only some servers have.
_WHERE_KNOWN = (
    "SET SESSION show_gipk_in_create_table_and_information_schema = ON",
    "SET SESSION max_execution_time = 0",
    "SET SESSION max_statement_time = 0",
    # MySQL 8 and later cache the number of rows and their size for a day
    "SET SESSION information_schema_stats_expiry = 0",
)


@contextlib.contextmanager
def open_session(url: str | ServerUrl) -> Iterator[ServerConnection]:
    """A connection that reads tables: in UTC, without limits of time, except on waiting for locks. Raises as `connect`."""
    parsed = ServerUrl.parse(url) if isinstance(url, str) else url
    with connect(parsed.log("")) as server:
        server.lift_row_limits()
        for sql in _SESSION:
            server.execute(sql)
        server.execute(f"SET SESSION lock_wait_timeout = {LOCK_WAIT_S}")
        for sql in _WHERE_KNOWN:
            try:
                server.execute(sql)
            except ServerError as error:
                if error.code != UNKNOWN_VARIABLE:
                    raise
        yield server


@contextlib.contextmanager
def raw_definitions(server: ServerConnection) -> Iterator[None]:
    """Have definitions sent as bytes: MariaDB writes the default of a binary column as it is, which may not be UTF-8.

    The text of these queries then has U+FFFD for such bytes. Afterwards the session sends text in UTF-8, also after
    `take_raw_text`.
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

    On MariaDB a consistent snapshot begins. Raises ServerError, also if transactions are about to commit all the time:
    `waited_s` is then for how many seconds this was tried.
    """
    if server.flavour == "mariadb":
        return _settled_on_mariadb(server)
    prepared = xa_prepared(server)
    position = server.position()
    wait_for_commits(server, prepared)
    return _described(server, position)


def _described(server: ServerConnection, position: Position) -> Position:
    """The position without GTIDs if the server writes transactions without them: they would not describe the place."""
    if not position.gtid_set or server.gives_gtids:
        return position
    return replace(position, gtid_set="")


def begin_snapshot(server: ServerConnection) -> Position:
    """Begin a transaction that sees the tables as they are at one position; return that position.

    It holds for tables of transactional engines. Raises ServerError, also where a MySQL server never
    rests between two commits: `waited_s` is then for how many seconds this was tried.
    """
    if server.flavour == "mariadb":
        return _begin_on_mariadb(server)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        prepared = xa_prepared(server)
        before = server.position()
        if CommitsInFlight(server, prepared).are_done():
            server.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            if server.position() == before:
                return _described(server, before)
            server.execute("ROLLBACK")
        if time.monotonic() > deadline:
            raise ServerError(
                f"{server.where} commits without a pause of a few milliseconds: the position of a "
                "consistent snapshot could not be found",
                hint="try again when fewer transactions are committed, or read from a replica",
                waited_s=PATIENCE_S,
            )


def _settled_on_mariadb(server: ServerConnection) -> Position:
    """Return what `settled_position` returns."""
    prepared = xa_prepared(server)
    place = _begin_at_place(server)
    wait_for_commits(server, prepared)
    position = _in_log(server, place)
    if position is None:
        prepared = xa_prepared(server)
        position = server.position()
        wait_for_commits(server, prepared)
    server.execute(_BEGIN)  # the first snapshot may lack transactions before the position
    return position


def _begin_on_mariadb(server: ServerConnection) -> Position:
    """Do what `begin_snapshot` does."""
    moves_with_each_commit = is_on(server.variable("binlog_optimize_thread_scheduling") or "ON")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        xa_commits, prepared = _xa_commits(server), xa_prepared(server)
        before = _begin_at_place(server)
        wait_for_commits(server, prepared)
        place = _begin_at_place(server)
        # since the first snapshot, the position has moved by commits that InnoDB shows at the same moment
        is_exact = place == before or (
            moves_with_each_commit
            and place.file == before.file
            and place.offset > before.offset
            and _xa_commits(server) == xa_commits
        )
        if is_exact and (position := _in_log(server, place)) is not None:
            return position
        if time.monotonic() > deadline:
            raise ServerError(
                f"{server.where}: the exact position of a consistent snapshot could not be found because XA transactions "
                "are committed all the time, or the server begins one log after another",
                hint="grant PROCESS to the user of this URL, try again when fewer XA transactions are committed, or read from a replica",
                waited_s=PATIENCE_S,
            )
        time.sleep(_PAUSE_S)


def _begin_at_place(server: ServerConnection) -> LogPosition:
    """Begin a consistent snapshot, and return the place in the log that MariaDB reports for it."""
    server.execute(_BEGIN)
    status = server.rows("SHOW STATUS LIKE 'binlog\\_snapshot\\_%'", 2)
    known = {(row[0] or "").lower(): row[1] or "" for row in status}
    file = known.get("binlog_snapshot_file", "")
    if not file:
        raise ServerError(f"{server.where} writes no binary log", hint="start it with log_bin")
    offset = whole_number(known.get("binlog_snapshot_position"), "binlog_snapshot_position")
    return LogPosition(checked_log_name(file), offset)


def _in_log(server: ServerConnection, place: LogPosition) -> Position | None:
    """A place in the log of a MariaDB server with the GTIDs before it; None if it is beyond the end of the log."""
    gtids = server.gtids_at(*place)
    if gtids is None:
        end = server.end()
        if place.file != end.file or place.offset > end.offset:
            return None
    return Position(server.identity, *place, gtids or "")


def _xa_commits(server: ServerConnection) -> str | None:
    """The number of XA COMMIT statements that have begun since the server was started."""
    rows = server.rows("SHOW GLOBAL STATUS LIKE 'Com\\_xa\\_commit'", 2)
    return rows[0][1] if rows else None
