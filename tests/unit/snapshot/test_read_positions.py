"""The position of a read: on a MySQL server where an XA transaction is prepared meanwhile, and on MariaDB, whose position
may run ahead of the rows.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from binlake.errors import ServerError
from binlake.mirror.source.refusals import is_lasting, is_of_table, is_passing
from binlake.snapshot.commits import wait_for_unlocks
from binlake.snapshot.read_session import begin_snapshot, settled_position
from binlake.snapshot.tables import SourceTable
from binlake.values.plan import TableDefinition
from binlake.values.position import LogPosition, Position


class BusyServer:
    """Transaction 7 is in its commit when the position is read, and stays there for some looks."""

    flavour = "mysql"
    where = "db1"

    def __init__(self) -> None:
        self.looks_left = 5
        self.has_position = False

    def position(self) -> Position:
        self.has_position = True
        return Position("uuid", "binlog.000001", 400)

    def rows(self, sql: str, _columns: int = 1) -> list[tuple[str, ...]]:
        if sql == "XA RECOVER":  # it has changed nothing: InnoDB does not show it
            return [("1", "5", "0", "later")] if self.has_position else []
        assert sql == "SHOW FULL PROCESSLIST"
        return [
            ("12", "root", "localhost", "", "Query", "0", "waiting for handler commit", "COMMIT")
        ]

    def row(self, _sql: str, _columns: int = 1) -> tuple[str, str, str]:
        self.looks_left -= 1
        shown = (
            "---TRANSACTION 7, ACTIVE (PREPARED) 0 sec\n1 lock struct(s), heap size 1128, 0 row lock(s)\n"
            "MySQL thread id 12, OS thread handle 139, query id 8 localhost root waiting for handler commit\n"
        )
        return "InnoDB", "", shown if self.looks_left > 0 else ""

    def execute(self, _sql: str) -> None:
        """Nothing else happens."""


@pytest.mark.parametrize("find", [settled_position, begin_snapshot])
def test_a_commit_is_not_taken_for_a_transaction_that_was_prepared_later(find: Any) -> None:
    server = BusyServer()
    find(server)
    assert server.looks_left == 0


class RestlessServer(BusyServer):
    """A server that commits between any two questions, a second apart."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__()
        self.looks_left = 0
        self.clock = clock

    def position(self) -> Position:
        self.clock[0] += 1.0
        return Position("uuid", "binlog.000001", int(self.clock[0]))


def test_a_server_without_a_pause_is_reported_after_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mirror quarantines the table, and does not wait for another minute."""
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with pytest.raises(ServerError, match="without a pause") as caught:
        begin_snapshot(RestlessServer(clock))  # type: ignore[arg-type]
    assert 60 < clock[0] < 65
    assert is_of_table(caught.value)
    assert is_lasting(caught.value)


class PreparedServer(BusyServer):
    """A server with a prepared XA transaction, whose user may not list such transactions."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__()
        self.clock = clock

    def rows(self, sql: str, columns: int = 1) -> list[tuple[str, ...]]:
        if sql == "XA RECOVER":
            raise ServerError("db1: XAER_RMERR: Fatal error in the transaction branch", code=1401)
        return super().rows(sql, columns)

    def row(self, sql: str, columns: int = 1) -> tuple[str, str, str]:
        self.clock[0] += 5.0
        self.looks_left = 2
        return super().row(sql, columns)


class WaitingServer(PreparedServer):
    """A server with a commit that waits, for a replica or a disk, whose user may list prepared XA transactions."""

    def rows(self, sql: str, columns: int = 1) -> list[tuple[str, ...]]:
        return [] if sql == "XA RECOVER" else super().rows(sql, columns)


class CrowdedServer(RestlessServer):
    """A server whose list of transactions is cut off."""

    def row(self, _sql: str, _columns: int = 1) -> tuple[str, str, str]:
        self.clock[0] += 20.0
        return "InnoDB", "", "---TRANSACTION 7, ACTIVE 0 sec\n... truncated...\n"


@pytest.mark.parametrize(
    ("kind", "says", "later"),
    [
        (PreparedServer, "1 transaction still about to commit; XA RECOVER lists", False),
        (WaitingServer, "1 transaction still about to commit; SHOW PROCESSLIST shows", True),
        (
            CrowdedServer,
            "more open transactions than .* lists; end transactions that are idle",
            True,
        ),
    ],
)
def test_transactions_that_do_not_end_concern_the_table_that_is_read(
    monkeypatch: pytest.MonkeyPatch, kind: type[Any], says: str, later: bool
) -> None:
    """After a minute, the mirror makes rounds again. It quarantines the table, or tries again later."""
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with pytest.raises(ServerError) as caught:
        settled_position(kind(clock))
    assert re.search(says, str(caught.value))
    assert 60 < clock[0] < 130
    assert is_of_table(caught.value)
    assert is_lasting(caught.value)
    assert is_passing(caught.value) == later


class MariaServer:
    """A MariaDB server. `places`: what it reports for each snapshot; the last one stays."""

    flavour = "mariadb"
    where = "db1"
    identity = "server-1"

    def __init__(self, *places: tuple[str, int], xa_commits: int = 0, ordered: str = "ON") -> None:
        self.places = list(places)
        self.xa_commits = xa_commits
        self.ordered = ordered
        self.began = 0
        self.xa_asked = 0
        self.log_end = LogPosition("binlog.000002", 5000)

    def execute(self, sql: str) -> None:
        assert sql == "START TRANSACTION WITH CONSISTENT SNAPSHOT"
        self.began += 1

    def variable(self, _name: str) -> str:
        return self.ordered

    def end(self) -> LogPosition:
        return self.log_end

    def position(self) -> Position:
        return Position(self.identity, *self.log_end, "0-1-9")

    def gtids_at(self, name: str, offset: int) -> str | None:
        return "0-1-9" if (name, offset) <= self.log_end else None

    def row(self, _sql: str, _columns: int = 1) -> tuple[str, str, str]:
        raise ServerError("db1: Access denied; you need the PROCESS privilege", code=1227)

    def rows(self, sql: str, _columns: int = 1) -> list[tuple[str, ...]]:
        if "binlog" in sql:
            file, offset = self.places.pop(0) if len(self.places) > 1 else self.places[0]
            return [("binlog_snapshot_file", file), ("binlog_snapshot_position", str(offset))]
        if "Com" in sql:
            self.xa_asked += 1
            return [("Com_xa_commit", str(self.xa_commits * self.xa_asked))]
        return []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("time.sleep", sleep)
    return now


OLD, NEW, LATER, LATEST = (
    ("binlog.000001", 4000),
    ("binlog.000002", 300),
    ("binlog.000002", 600),
    ("binlog.000002", 900),
)


@pytest.mark.parametrize(
    ("places", "options", "expected", "snapshots"),
    [
        ((NEW,), {}, NEW, 2),
        ((NEW, LATER), {}, LATER, 2),  # one commit moves the position, and is shown at that moment
        ((OLD, NEW, LATER, LATEST), {}, LATEST, 4),  # a new log
        ((NEW, LATER, LATEST), {"ordered": "OFF"}, LATEST, 4),
        ((NEW, LATER, LATEST), {"xa_commits": 1}, LATEST, 4),
    ],
)
def test_a_snapshot_of_mariadb_whose_position_is_exact(
    clock: list[float],
    places: tuple[tuple[str, int], ...],
    options: dict[str, Any],
    expected: tuple[str, int],
    snapshots: int,
) -> None:
    server = MariaServer(*places, **options)
    position = begin_snapshot(server)  # type: ignore[arg-type]
    assert (position.file, position.offset) == expected
    assert server.began == snapshots


def test_a_position_that_the_log_of_mariadb_does_not_have(clock: list[float]) -> None:
    """Statements that fill a log leave its offset behind, with the name of the next log."""
    beyond = ("binlog.000002", 1 << 30)
    position = settled_position(MariaServer(beyond))  # type: ignore[arg-type]
    assert (position.file, position.offset) == ("binlog.000002", 5000)
    exact = begin_snapshot(MariaServer(beyond, beyond, LATER))  # type: ignore[arg-type]
    assert (exact.file, exact.offset) == LATER
    assert exact.gtid_set == "0-1-9"


def test_the_oldest_position_counts_for_rows_that_may_be_newer(clock: list[float]) -> None:
    server = MariaServer(NEW, LATER)
    position = settled_position(server)  # type: ignore[arg-type]
    assert (position.file, position.offset) == NEW
    assert server.began == 2, "the second snapshot sees all that the first may have missed"
    assert clock[0] >= 0.1


def test_xa_transactions_that_are_committed_all_the_time(clock: list[float]) -> None:
    places = [("binlog.000002", 300 + number) for number in range(3000)]
    with pytest.raises(ServerError, match="XA transactions are committed all the time") as caught:
        begin_snapshot(MariaServer(*places, xa_commits=1))  # type: ignore[arg-type]
    assert 60 < clock[0] < 62
    assert is_of_table(caught.value)


@pytest.mark.parametrize(
    ("state", "may_be_logged"),
    [
        ("query end", True),
        ("closing tables", True),
        ("waiting for handler commit", True),
        ("Waiting for semi-sync ACK from replica", True),
        ("Unlocking tables", True),
        ("Writing to binlog", True),
        ("", True),
        ("Waiting for commit lock", False),
        ("Waiting for preceding transaction to commit", False),
        ("Waiting for prior transaction to commit", False),
        ("Waiting for dependent transaction to commit", False),
        ("update", False),
        ("Sending data", False),
        ("executing", False),
        ("Waiting for table metadata lock", False),
    ],
)
def test_statements_that_may_be_logged_and_still_lock_their_tables(
    clock: list[float], state: str, may_be_logged: bool
) -> None:
    looks: list[str] = []
    insert = "INSERT INTO log VALUES (1)"

    def rows(sql: str, _columns: int) -> list[tuple[str, ...]]:
        if sql != "SHOW FULL PROCESSLIST":
            return []
        looks.append(sql)
        after = "Sleep" if len(looks) > 5 else "Query"
        return [
            ("1", "root", "localhost", "", "Query", "0", "starting", "SHOW FULL PROCESSLIST"),
            ("2", "app", "localhost", "", after, "0", state, insert),
            ("3", "repl", "localhost", "", "Binlog Dump", "9", "", ""),
        ]

    wait_for_unlocks(SimpleNamespace(rows=rows, where="db1"))  # type: ignore[arg-type]
    assert len(looks) == (6 if may_be_logged else 1)


@pytest.mark.parametrize(
    ("answers", "looks"),
    [
        ([(0, 7)], 1),
        ([(3, 7), (3, 8), (3, 10)], 3),  # others wait now
        ([(3, 7), (0, 7)], 2),  # the plugin has been switched off
    ],
)
def test_sessions_that_wait_for_a_replica(
    clock: list[float], answers: list[tuple[int, int]], looks: int
) -> None:
    """On a busy server, some sessions always wait for a replica: those that waited first are through."""
    asked: list[str] = []

    def rows(sql: str, _columns: int) -> list[tuple[str, ...]]:
        if sql == "SHOW FULL PROCESSLIST":
            return []
        waiting, through = answers[len(asked)]
        asked.append(sql)
        return [
            ("Rpl_semi_sync_source_wait_sessions", str(waiting)),
            ("Rpl_semi_sync_source_yes_tx", str(through - 2)),
            ("Rpl_semi_sync_source_no_tx", "2"),
            ("Rpl_semi_sync_source_status", "ON"),
        ]

    wait_for_unlocks(SimpleNamespace(rows=rows, where="db1"))  # type: ignore[arg-type]
    assert len(asked) == looks
    assert clock[0] < 1


class WaitingMariaServer(PreparedServer):
    """A MariaDB server whose transaction waits for a replica in its commit."""

    flavour = "mariadb"

    def rows(self, sql: str, columns: int = 1) -> list[tuple[str, ...]]:
        if sql == "XA RECOVER":
            return []
        if sql.startswith("SHOW STATUS"):
            return [("Binlog_snapshot_file", "b.000001"), ("Binlog_snapshot_position", "400")]
        return super().rows(sql, columns)


def test_a_commit_on_mariadb_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parallel appliers prepare transactions long before their turn, so that this is no fault of the table."""
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    with pytest.raises(ServerError, match="1 transaction still about to commit") as caught:
        settled_position(WaitingMariaServer(clock))  # type: ignore[arg-type]
    assert is_passing(caught.value)
    assert "XA_RECOVER_ADMIN" not in str(caught.value)


@pytest.mark.parametrize(
    ("flavour", "engine", "holds"),
    [("mysql", "innodb", True), ("mysql", "rocksdb", False), ("mariadb", "rocksdb", True), ("mariadb", "aria", False)],
)  # fmt: skip
def test_engines_for_which_a_position_holds(flavour: str, engine: str, holds: bool) -> None:
    """On MySQL, only InnoDB shows which commits have begun."""
    definition = TableDefinition("shop", "t", (), flavour=flavour)
    assert SourceTable("shop", "t", definition, (), engine).is_transactional == holds
