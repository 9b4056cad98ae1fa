"""`history` against tables that triggers keep: each row's history is what its audit table has."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

import binlake
from binlake.table.row_history.entries import NOT_LOGGED, RowChange, RowHistory, TableStatement
from dev.servers import Server, Session

pytestmark = pytest.mark.server

SERVERS = ("mysql-9.7", "mariadb-11.8")
STATEMENTS = 90
VALUES = ("state", "total", "note", "at")
TABLES = {
    "kept": ("id",),
    "parts": ("grp", "n"),
}
CREATE = """
CREATE TABLE kept (
  id INT PRIMARY KEY, state VARCHAR(20), total DECIMAL(8,2), note TEXT, at DATETIME(3), who INT);
CREATE TABLE parts (
  n INT, grp VARCHAR(10), state VARCHAR(20), total DECIMAL(8,2), note TEXT, at DATETIME(3), who INT,
  PRIMARY KEY (grp, n))
"""

Key = tuple[str, ...]


def folded(key: Sequence[Any]) -> Key:
    """A key as its collation compares it."""
    return tuple(str(part).casefold() for part in key)


def audited(name: str, key: tuple[str, ...]) -> Iterator[str]:
    """The audit table of a table, and the triggers that write it."""
    columns = (*key, *VALUES, "who")
    both = [f"{side}_{column}" for side in ("old", "new") for column in columns]
    yield (
        f"CREATE TABLE {name}_audit (seq INT AUTO_INCREMENT PRIMARY KEY, op VARCHAR(10), "
        + ", ".join(f"{column} VARCHAR(200)" for column in both)
        + ")"
    )
    for op, sides in (("INSERT", "new"), ("UPDATE", "old new"), ("DELETE", "old")):
        named = [f"{side}_{column}" for side in sides.split() for column in columns]
        values = [f"{side.upper()}.{column}" for side in sides.split() for column in columns]
        yield (
            f"CREATE TRIGGER {name}_{op.lower()} AFTER {op} ON {name} FOR EACH ROW "
            f"INSERT INTO {name}_audit (op, {', '.join(named)}) "
            f"VALUES ('{op.lower()}', {', '.join(values)})"
        )


@dataclass
class Workload:
    """Random statements on one table. `who` numbers the rows that are inserted."""

    name: str
    rng: random.Random
    alive: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    count: int = 0

    def possible(self) -> list[tuple[str, ...]]:
        """Keys that rows may have."""
        if self.name == "kept":
            return [(str(number),) for number in range(1, 13)]
        return [(grp, str(n)) for grp in ("Ab", "aB", "cd", "x y") for n in range(1, 4)]

    def statements(self) -> list[str]:
        """The next statements, of one transaction."""
        kind = self.rng.choice(
            ("insert", "insert", "update", "update", "move", "delete", "swap", "shift")
        )
        if kind == "insert" or not self.alive:
            return self._insert()
        old = self.alive[self.rng.choice(sorted(self.alive))]
        if kind == "update":
            return [f"UPDATE {self.name} SET {self._values()} WHERE {self._at(old)}"]
        if kind == "delete":
            del self.alive[folded(old)]
            return [f"DELETE FROM {self.name} WHERE {self._at(old)}"]
        if kind == "swap" and len(self.alive) > 1:
            other = self.alive[self.rng.choice(sorted(self.alive.keys() - {folded(old)}))]
            between = ("99",) if self.name == "kept" else ("between", "99")
            self.alive[folded(old)], self.alive[folded(other)] = old, other
            return [self._move(old, between), self._move(other, old), self._move(between, other)]
        if kind == "shift" and self.name == "kept" and len(self.alive) < 8:
            self.alive = {(str(int(i) + 1),): (str(int(i) + 1),) for (i,) in self.alive.values()}
            return ["UPDATE kept SET id = id + 1 ORDER BY id DESC"]
        free = [key for key in self.possible() if folded(key) not in self.alive]
        if not free:
            return []
        new = self.rng.choice(free)
        del self.alive[folded(old)]
        self.alive[folded(new)] = new
        return [self._move(old, new, more=self.rng.random() < 0.4)]

    def _insert(self) -> list[str]:
        free = [key for key in self.possible() if folded(key) not in self.alive]
        if not free:
            return []
        new = self.rng.choice(free)
        self.alive[folded(new)] = new
        self.count += 1
        return [
            f"INSERT INTO {self.name} SET {self._is(new)}, {self._values()}, who = {self.count}"
        ]

    def _move(self, old: tuple[str, ...], new: tuple[str, ...], *, more: bool = False) -> str:
        values = f", {self._values()}" if more else ""
        return f"UPDATE {self.name} SET {self._is(new)}{values} WHERE {self._at(old)}"

    def _values(self) -> str:
        chosen = self.rng.sample(VALUES, self.rng.randint(1, 3))
        made = {
            "state": f"'{self.rng.choice(('new', 'paid', 'sent'))}'",
            "total": str(self.rng.randint(0, 999) / 100),
            "note": self.rng.choice(("NULL", "'é ☃'", "'it''s'", "''")),
            "at": f"'2026-11-2{self.rng.randint(0, 9)} 10:00:00.5'",
        }
        return ", ".join(f"{name} = {made[name]}" for name in chosen)

    def _is(self, key: tuple[str, ...]) -> str:
        return ", ".join(f"{c} = '{v}'" for c, v in zip(TABLES[self.name], key, strict=True))

    def _at(self, key: tuple[str, ...]) -> str:
        return self._is(key).replace(", ", " AND ")


def run(session: Session, work: Workload, rng: random.Random) -> None:
    """Random transactions: plain ones, some rolled back, some with XA."""
    for number in range(STATEMENTS):
        before, count = dict(work.alive), work.count
        statements = work.statements()
        how = rng.random()
        if how < 0.1:
            session.execute("BEGIN", *statements, "ROLLBACK")
            work.alive, work.count = before, count
        elif how < 0.2:
            xid = f"'{work.name}{number}'"
            session.execute(
                f"XA START {xid}",
                *statements,
                f"XA END {xid}",
                f"XA PREPARE {xid}",
                f"XA COMMIT {xid}",
            )
        else:
            session.execute("BEGIN", *statements, "COMMIT")
        if number % 40 == 39:
            session.execute("FLUSH BINARY LOGS")


Audit = dict[str, str | None]


def audit_of(session: Session, name: str) -> list[Audit]:
    """The rows of an audit table, without updates that changed nothing."""
    columns = (*TABLES[name], *VALUES, "who")
    names = ["op", *(f"{side}_{column}" for side in ("old", "new") for column in columns)]
    rows = session.rows(f"SELECT {', '.join(names)} FROM {name}_audit ORDER BY seq")
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return [row for row in found if any(row[f"old_{c}"] != row[f"new_{c}"] for c in columns)]


def image(row: Audit, side: str, columns: Sequence[str]) -> dict[str, str | None] | None:
    """One side of an audit row; None for no row."""
    values = {column: row[f"{side}_{column}"] for column in columns}
    return None if values["who"] is None else values


def texts(values: Any) -> dict[str, str | None] | None:
    """An image of a history, as the audit table has it."""
    if values is None:
        return None
    return {name: None if value is None else str(value) for name, value in values.items()}


def expected(audit: list[Audit], name: str, key: Key) -> list[Audit]:
    """The changes of all rows that ever had a key."""
    columns = TABLES[name]
    rows = {
        row[f"{side}_who"]
        for row in audit
        for side in ("old", "new")
        if folded([row[f"{side}_{column}"] for column in columns]) == key
    } - {None}
    return [row for row in audit if {row["old_who"], row["new_who"]} & rows]


def assert_same(history: RowHistory, rows: list[Audit], name: str, *, full: bool) -> None:
    """A history has these changes, as far as the images tell."""
    columns = (*TABLES[name], *VALUES, "who")
    assert [change.op for change in history.changes] == [row["op"] for row in rows]
    for change, row in zip(history.changes, rows, strict=True):
        old, new = image(row, "old", columns), image(row, "new", columns)
        if full:
            assert texts(change.before) == old
            assert texts(change.after) == new
            assert change.absent == ()
        for column in columns:
            was, now = (None if side is None else side[column] for side in (old, new))
            if column in change.changed:
                shown = change.changed[column]
                assert shown.old is NOT_LOGGED or texts({"": shown.old}) == {"": was}
                assert shown.new is NOT_LOGGED or texts({"": shown.new}) == {"": now}
            elif column not in change.absent:
                assert was == now
            elif change.op == "update":
                assert was == now, "what an update changes is in its image"
    lives = {
        change.life: row["old_who"] or row["new_who"]
        for change, row in zip(history.changes, rows, strict=True)
    }
    assert len(set(lives.values())) == len(lives) == history.lives


@pytest.mark.parametrize("server", SERVERS, indirect=True)
@pytest.mark.parametrize("images", ["FULL", "MINIMAL"])
def test_the_history_of_every_row_is_that_of_its_audit_table(server: Server, images: str) -> None:
    database = f"audit_{images.lower()}"
    rng = random.Random(images)
    server.execute(
        "SET GLOBAL binlog_row_metadata = FULL", f"CREATE DATABASE {database}", "FLUSH BINARY LOGS"
    )
    first = len(server.log_files()) - 1
    audits = {}
    with server.session(database) as session:
        session.execute(f"SET SESSION binlog_row_image = {images}", "SET NAMES utf8mb4")
        session.execute(*CREATE.split(";"))
        for name, key in TABLES.items():
            session.execute(*audited(name, key))
            run(session, Workload(name, rng), rng)
            audits[name] = audit_of(session, name)
    log = binlake.open([str(file) for file in server.log_files()[first:]])
    compared = 0
    for name, audit in audits.items():
        assert {row["op"] for row in audit} == {"insert", "update", "delete"}
        for key in sorted({folded(key) for key in Workload(name, rng).possible()}):
            asked = [part.upper() for part in key]
            rows = expected(audit, name, key)
            history = log.history(f"{database}.{name}", *asked)
            assert_same(history, rows, name, full=images == "FULL")
            compared += len(rows)
    assert compared > 200


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_statements_on_the_table_are_lines_of_the_history(server: Server) -> None:
    server.execute(
        "SET GLOBAL binlog_row_metadata = FULL",
        "CREATE DATABASE between_changes",
        "FLUSH BINARY LOGS",
    )
    log_file = server.log_files()[-1]
    with server.session("between_changes") as session:
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
            "CREATE TABLE other (id INT PRIMARY KEY)",
            "INSERT INTO t VALUES (1, 1)",
            "ALTER TABLE t ADD COLUMN b INT",
            "TRUNCATE TABLE other",
            "TRUNCATE TABLE t",
            "INSERT INTO t VALUES (1, 2, 3)",
            "RENAME TABLE t TO u",
            "RENAME TABLE u TO t",
            "DROP TABLE t",
            "CREATE TABLE t (id INT PRIMARY KEY)",
            "INSERT INTO t VALUES (1)",
            "DELETE FROM t",
            "DROP TABLE t",
        )  # fmt: skip
    history = binlake.open(str(log_file)).history("between_changes.t", 1)
    shown = [
        entry.op if isinstance(entry, RowChange) else str(entry.query).split(" /*")[0]
        for entry in history
    ]
    assert [text.replace("`", "").replace("TRUNCATE TABLE", "TRUNCATE") for text in shown] == [
        "insert", "ALTER TABLE t ADD COLUMN b INT", "TRUNCATE t", "insert", "RENAME TABLE t TO u",
        "RENAME TABLE u TO t", "DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY)", "insert", "delete",
    ]  # fmt: skip
    assert history.lives == 3
    truncate = next(entry for entry in history if entry.op == "truncate")
    assert isinstance(truncate, TableStatement)
    assert truncate.thread_id is not None
