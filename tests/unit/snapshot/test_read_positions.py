"""The position of a read on a MySQL server where an XA transaction is prepared meanwhile."""

from __future__ import annotations

import re
from typing import Any

import pytest

from binlake.errors import ServerError
from binlake.mirror.source.refusals import is_lasting, is_of_table, is_passing
from binlake.snapshot.read_session import begin_snapshot, settled_position
from binlake.snapshot.tables import SourceTable
from binlake.values.plan import TableDefinition
from binlake.values.position import Position


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


class CrowdedServer(RestlessServer):
    """A server whose list of transactions is cut off."""

    def row(self, _sql: str, _columns: int = 1) -> tuple[str, str, str]:
        self.clock[0] += 20.0
        return "InnoDB", "", "---TRANSACTION 7, ACTIVE 0 sec\n... truncated...\n"


@pytest.mark.parametrize(
    ("kind", "says", "later"),
    [
        (PreparedServer, "1 transaction still about to commit", False),
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


@pytest.mark.parametrize(
    ("flavour", "engine", "holds"),
    [("mysql", "innodb", True), ("mysql", "rocksdb", False), ("mariadb", "rocksdb", True), ("mariadb", "aria", False)],
)  # fmt: skip
def test_engines_for_which_a_position_holds(flavour: str, engine: str, holds: bool) -> None:
    """On MySQL, only InnoDB shows which commits have begun."""
    definition = TableDefinition("shop", "t", (), flavour=flavour)
    assert SourceTable("shop", "t", definition, (), engine).is_transactional == holds
