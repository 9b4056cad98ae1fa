"""Sessions that read tables, and the log positions that belong to the data read.

No table is ever locked. A position before a read is right if every transaction before it is visible to
the read. MariaDB gives the exact position of a consistent snapshot. MySQL does not: its log has a
transaction some milliseconds before InnoDB shows it. `settled_position` waits until InnoDB has
finished every transaction that the log may have, and `begin_snapshot` also finds a moment in which
nothing was committed.

InnoDB shows a prepared XA transaction like one whose commit has begun. `_Commits` counts the prepared ones.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Set

from binlake.errors import ServerError
from binlake.source.replica.answers import whole_number
from binlake.source.replica.connection import ServerConnection, checked_log_name, connect
from binlake.source.replica.handshake import UNKNOWN_VARIABLE
from binlake.source.replica.url import ServerUrl
from binlake.values.position import Position
from binlake.values.quantities import counted

#: How long a statement waits for a table that another session has locked: a copy that waits holds up the rounds.
LOCK_WAIT_S = 60
_PATIENCE_S = 60.0
_PAUSE_S = 0.002
_CUT_PAUSE_S = 0.5
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
_DENIED = 1227
# the lines of a transaction begin with its state; one of them names its session
_IN_FLIGHT = re.compile(
    r"---TRANSACTION (\d+), (?:ACTIVE \(PREPARED\)|COMMITTED IN MEMORY)[^\n]*"
    r"(?:\n(?!---|MySQL thread id)[^\n]*)*(?:\nMySQL thread id (\d+))?"
)
_XA_COMMIT = re.compile(r"\bXA\s+COMMIT\b", re.IGNORECASE)
_CUT = "... truncated..."
_Xid = tuple[str | None, ...]
_NEEDS_PROCESS = "GRANT PROCESS ON *.* TO the user of this URL"


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

    On MariaDB a consistent snapshot begins, and the position is exactly its own. Raises ServerError, on MySQL also if
    transactions are about to commit all the time: `waited_s` is then for how many seconds this was tried.
    """
    if server.flavour == "mariadb":
        return begin_snapshot(server)
    prepared = _xa_prepared(server)
    position = server.position()
    commits = _Commits(server, prepared)
    deadline = time.monotonic() + _PATIENCE_S
    while not commits.are_done():
        if time.monotonic() > deadline:
            raise ServerError(
                f"{server.where}: after {_PATIENCE_S:.0f} s,"
                f" {counted(commits.waiting, 'transaction')} still about to commit",
                hint="XA RECOVER lists prepared XA transactions; granting XA_RECOVER_ADMIN lets "
                "binlake tell them apart",
                waited_s=_PATIENCE_S,
            )
        time.sleep(_PAUSE_S)
        commits.look_again()
    return position


def begin_snapshot(server: ServerConnection) -> Position:
    """Begin a transaction that sees the tables as they are at one position; return that position.

    It holds for tables of transactional engines. Raises ServerError, also where a MySQL server never
    rests between two commits: `waited_s` is then for how many seconds this was tried.
    """
    if server.flavour == "mariadb":
        return _mariadb_snapshot(server)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        prepared = _xa_prepared(server)
        before = server.position()
        if _Commits(server, prepared).are_done():
            server.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            if server.position() == before:
                return before
            server.execute("ROLLBACK")
        if time.monotonic() > deadline:
            raise ServerError(
                f"{server.where} commits without a pause of a few milliseconds: the position of a "
                "consistent snapshot could not be found",
                hint="try again when fewer transactions are committed, or read from a replica",
                waited_s=_PATIENCE_S,
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


class _Commits:
    """The transactions that a MySQL server may have written to its log, and that InnoDB does not show yet.

    `prepared`: the XA transactions that were prepared before the position was read. Raises ServerError.
    """

    def __init__(self, server: ServerConnection, prepared: Set[_Xid]) -> None:
        self._server = server
        self._prepared = prepared
        self._in_flight = _in_flight(server)
        self._sessions = self._committing() if self._in_flight and prepared else set()

    @property
    def waiting(self) -> int:
        """How many transactions were in flight when the position was read, and still are."""
        return len(self._in_flight)

    def look_again(self) -> None:
        """Forget those that have ended."""
        now = _in_flight(self._server)
        self._in_flight = {t: thread for t, thread in self._in_flight.items() if t in now}
        if self._sessions:
            self._sessions &= self._committing()

    def are_done(self) -> bool:
        """Whether only XA transactions are left that were prepared before the position, and are not committed.

        Their number alone does not show this: XA RECOVER also lists transactions that changed nothing, which InnoDB
        does not show, and lists a transaction until the end of its XA COMMIT.
        """
        if not self._in_flight:
            return True
        if self._sessions:
            return False
        return len(self._in_flight) <= len(self._prepared & _xa_prepared(self._server))

    def _committing(self) -> set[tuple[str | None, str | None]]:
        """The sessions, and their statements, that may be committing one of the transactions."""
        threads = set(self._in_flight.values())
        return {
            (row[0], row[7])
            for row in self._server.rows("SHOW FULL PROCESSLIST", 8)
            if (row[0] in threads and row[4] != "Sleep") or _XA_COMMIT.search(row[7] or "")
        }


def _in_flight(server: ServerConnection) -> dict[str, str]:
    """InnoDB's transactions between the first step of their commit and the last, and the ids of their sessions, "" for
    none. Raises ServerError, after a minute also if the list is cut off, as it is if many transactions are open.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        # not information_schema.INNODB_TRX: it is not cut off, but shows a prepared transaction as RUNNING, like any other
        try:
            text = server.row("SHOW ENGINE INNODB STATUS", 3)[2] or ""
        except ServerError as error:
            raise error.hinted(_NEEDS_PROCESS) if error.code == _DENIED else error from None
        if _CUT not in text:
            return dict(_IN_FLIGHT.findall(text))
        if time.monotonic() > deadline:
            raise ServerError(
                f"{server.where} has more open transactions than SHOW ENGINE INNODB STATUS lists",
                hint="end transactions that are idle (information_schema.INNODB_TRX lists them), or read from a replica",
                waited_s=_PATIENCE_S,
                is_passing=True,
            )
        time.sleep(_CUT_PAUSE_S)


def _xa_prepared(server: ServerConnection) -> set[_Xid]:
    """The XA transactions that wait for their decision; none where the user may not ask."""
    try:
        return set(server.rows("XA RECOVER"))
    except ServerError as error:
        if error.retryable:
            raise
        return set()
