"""Commits that a server's log may already have, although its tables do not show them yet.

InnoDB shows a prepared XA transaction like one whose commit has begun. `CommitsInFlight` counts the prepared ones.
"""

from __future__ import annotations

import re
import time
from collections.abc import Set

from binlake.errors import ServerError
from binlake.source.replica.answers import whole_number
from binlake.source.replica.connection import ServerConnection
from binlake.values.quantities import counted

#: Seconds for which binlake waits for commits.
PATIENCE_S = 60.0
_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.1  # the server makes the whole list of its transactions each time
_CUT_PAUSE_S = 0.5
# Of a server that does not show its commits: most take less, and those that wait for a replica at most its usual timeout.
_COMMIT_S = 0.1
_REPLICA_S = 10.0
_SEMI_SYNC_PAUSE_S = 0.02
_DENIED = 1227
# the lines of a transaction begin with its state; one of them names its session
_IN_FLIGHT = re.compile(
    r"---TRANSACTION (\d+), (?:ACTIVE \(PREPARED\)|COMMITTED IN MEMORY)[^\n]*"
    r"(?:\n(?!---|(?:MySQL|MariaDB) thread id)[^\n]*)*(?:\n(?:MySQL|MariaDB) thread id (\d+))?"
)
_XA_COMMIT = re.compile(r"\bXA\s+COMMIT\b", re.IGNORECASE)
_CUT = "... truncated..."
# States of a session from the write to the log until its tables are unlocked. While it waits for the commit lock, or on a
# replica for an earlier transaction, the statement is not logged yet.
_ENDING = re.compile(
    r"(?!.*(?:commit lock|(?:preceding|prior|dependent) transaction))(?:|end|query end|closing tables|freeing items|cleaning up|unlocking tables|.*\bcommit\b.*"
    r"|.*semi-?sync.*|writing to binlog|reset for next command)",
    re.IGNORECASE,
)
_NOT_TOLD_APART = "XA RECOVER lists prepared XA transactions; granting XA_RECOVER_ADMIN lets binlake tell them apart"
_COMMITS_WAIT = "SHOW PROCESSLIST shows what they wait for: a semi-synchronous replica, a full disk, or an earlier transaction on a replica"
_NEEDS_PROCESS = "GRANT PROCESS ON *.* TO the user of this URL"
_Xid = tuple[str | None, ...]
_Statement = tuple[str | None, str | None]


def wait_for_commits(server: ServerConnection, prepared: Set[_Xid]) -> None:
    """Wait until the tables show every transaction that the log has now. `prepared`: the XA transactions that were prepared
    before.

    A user of MariaDB need not have the privilege to see commits: then this waits for as long as commits take. Raises
    ServerError, also if commits take more than a minute: `waited_s` is then for how many seconds this waited. That error
    `is_passing` if the user may see all prepared XA transactions (on MariaDB, each user may): then these are commits that wait for something.
    """
    is_optional = server.flavour == "mariadb"
    try:
        _wait(CommitsInFlight(server, prepared, 0.0 if is_optional else PATIENCE_S), server)
    except ServerError as error:
        if not is_optional or (error.code != _DENIED and error.waited_s != 0.0):
            raise
        _wait_as_long_as_usual(server)


def wait_for_unlocks(server: ServerConnection) -> None:
    """Wait until the statements that the log has now have unlocked their tables: only then other sessions see a row that an
    INSERT has appended to a MyISAM or Aria table.

    Raises ServerError that `is_passing` if statements that are about to end take more than a minute.
    """
    _wait_as_long_as_usual(server)
    ending = _ending(server)
    deadline = time.monotonic() + PATIENCE_S
    while ending:
        if time.monotonic() > deadline:
            raise ServerError(
                f"{server.where}: after {PATIENCE_S:.0f} s, {counted(len(ending), 'statement')} still about to end",
                waited_s=PATIENCE_S,
                is_passing=True,
            )
        time.sleep(_PAUSE_S)
        ending &= _ending(server)


def _ending(server: ServerConnection) -> set[_Statement]:
    """The sessions whose statements may be logged already and have not ended, and these statements."""
    return {
        (row[0], row[7])
        for row in server.rows("SHOW FULL PROCESSLIST", 8)
        if row[4] in ("Query", "Execute")
        and _ENDING.fullmatch(row[6] or "")
        and "PROCESSLIST" not in (row[7] or "")
    }


def _wait_as_long_as_usual(server: ServerConnection) -> None:
    """Wait for as long as commits take on a server of which binlake does not see the commits."""
    time.sleep(_COMMIT_S)
    waiting, answered = _semi_sync(server)
    deadline = time.monotonic() + _REPLICA_S
    while waiting and time.monotonic() < deadline:
        time.sleep(_SEMI_SYNC_PAUSE_S)
        still, now = _semi_sync(server)
        # replicas answer in the order of the log
        if not still or now >= answered + waiting:
            return


def _semi_sync(server: ServerConnection) -> tuple[int, int]:
    """How many sessions wait for a semi-synchronous replica, and how many transactions no longer do."""
    rows = server.rows("SHOW GLOBAL STATUS LIKE 'Rpl\\_semi\\_sync\\_%'", 2)
    numbers = {(row[0] or "").lower(): row[1] for row in rows}
    found = [
        sum(whole_number(text, name) for name, text in numbers.items() if name.endswith(ends))
        for ends in (("_wait_sessions",), ("_yes_tx", "_no_tx"))
    ]
    return found[0], found[1]


def _wait(commits: CommitsInFlight, server: ServerConnection) -> None:
    deadline, pause_s = time.monotonic() + PATIENCE_S, _PAUSE_S
    while not commits.are_done():
        if time.monotonic() > deadline:
            is_told_apart = server.flavour == "mariadb" or _xa_recover(server) is not None
            raise ServerError(
                f"{server.where}: after {PATIENCE_S:.0f} s,"
                f" {counted(commits.waiting, 'transaction')} still about to commit",
                hint=_COMMITS_WAIT if is_told_apart else _NOT_TOLD_APART,
                waited_s=PATIENCE_S,
                is_passing=is_told_apart,
            )
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        commits.look_again()


class CommitsInFlight:
    """The transactions that a server may have written to its log, and that InnoDB does not show yet.

    `prepared`: the XA transactions that were prepared before the position was read. `patience_s`: for how long to ask again
    if the server's list of transactions is cut off. Raises ServerError.
    """

    def __init__(
        self, server: ServerConnection, prepared: Set[_Xid], patience_s: float = PATIENCE_S
    ) -> None:
        self._server = server
        self._prepared = prepared
        self._patience_s = patience_s
        self._in_flight = _in_flight(server, patience_s)
        self._sessions = self._committing() if self._in_flight and prepared else set()

    @property
    def waiting(self) -> int:
        """How many transactions were in flight when the position was read, and still are."""
        return len(self._in_flight)

    def look_again(self) -> None:
        """Forget those that have ended."""
        now = _in_flight(self._server, self._patience_s)
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
        return len(self._in_flight) <= len(self._prepared & xa_prepared(self._server))

    def _committing(self) -> set[_Statement]:
        """The sessions, and their statements, that may be committing one of the transactions."""
        threads = set(self._in_flight.values())
        return {
            (row[0], row[7])
            for row in self._server.rows("SHOW FULL PROCESSLIST", 8)
            if (row[0] in threads and row[4] != "Sleep") or _XA_COMMIT.search(row[7] or "")
        }


def _in_flight(server: ServerConnection, patience_s: float) -> dict[str, str]:
    """InnoDB's transactions between the first step of their commit and the last, and the ids of their sessions, "" for
    none. Raises ServerError, after `patience_s` also if the list is cut off, as it is if many transactions are open.
    """
    deadline = time.monotonic() + patience_s
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
                waited_s=patience_s,
                is_passing=True,
            )
        time.sleep(_CUT_PAUSE_S)


def xa_prepared(server: ServerConnection) -> set[_Xid]:
    """The XA transactions that wait for their decision; none where the user may not ask."""
    return _xa_recover(server) or set()


def _xa_recover(server: ServerConnection) -> set[_Xid] | None:
    """The XA transactions that wait for their decision; None if the user may not ask."""
    try:
        return set(server.rows("XA RECOVER"))
    except ServerError as error:
        if error.retryable:
            raise
        return None
