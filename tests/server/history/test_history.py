"""`history` against tables that triggers keep: each row's history is what its audit table has."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

import binlake
from binlake.cli.main import main
from binlake.table.row_history.entries import (
    NOT_LOGGED,
    ColumnChange,
    RowChange,
    RowHistory,
    TableStatement,
)
from dev.servers import Server, Session

pytestmark = pytest.mark.server

SERVERS = ("mysql-9.7", "mariadb-11.8")
STATEMENTS = 60
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
        if number % 25 == 24:
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
        if server.flavour == "mysql" and images == "MINIMAL":
            session.execute("SET SESSION binlog_transaction_compression = ON")
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
    assert compared > 100


@pytest.mark.parametrize("server", ["mysql-9.7"], indirect=True)
def test_differences_of_an_unknown_document_are_shown_as_such(server: Server) -> None:
    server.execute(
        "SET GLOBAL binlog_row_metadata = FULL", "CREATE DATABASE documents", "FLUSH BINARY LOGS"
    )
    with server.session("documents") as session:
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, doc JSON)",
            "SET SESSION binlog_row_value_options = PARTIAL_JSON",
            'INSERT INTO t VALUES (1, \'{"a": "one", "b": 2}\')',
            "UPDATE t SET doc = JSON_SET(doc, '$.a', 'two')",
            "SET SESSION binlog_row_image = MINIMAL",
            "UPDATE t SET doc = JSON_SET(doc, '$.a', 'six')",
        )
    log = binlake.open(str(server.log_files()[-1]))
    _, known, unknown = (change.changed["doc"] for change in log.history("documents.t", 1).changes)
    assert known == ColumnChange('{"a": "one", "b": 2}', '{"a": "two", "b": 2}')
    assert unknown.old is NOT_LOGGED
    assert str(unknown.new).startswith("JSON_DIFF ")


#: Types of keys, two values as SQL, and texts that may mean one of them.
KEYS = (
    ("INT", "-5", "7", ("7", "07", "-5", "6")),
    ("BIGINT UNSIGNED", "18446744073709551615", "1", ("18446744073709551615", "1.0", "2")),
    ("DECIMAL(10,3)", "1.500", "-2", ("1.5", "1.5000", "-2", "1.501")),
    ("YEAR", "2026", "1999", ("2026", "1999", "2000")),
    ("DOUBLE", "1.5", "0.1", ("1.5", "15e-1", "0.1", "0.2")),
    ("BIT(12)", "5", "4000", ("5", "4000", "6")),
    ("DATE", "'2026-11-21'", "'1999-01-01'", ("2026-11-21", "1999-01-01", "2000-01-01")),
    ("DATETIME(3)", "'2026-11-21 10:00:00.5'", "'2026-11-21'", ("2026-11-21 10:00:00.5", "2026-11-21 10:00:00.500", "2026-11-21")),
    ("TIMESTAMP", "'2026-11-21 10:00:00'", "'2026-11-22 10:00:00'", ("2026-11-21 10:00:00", "2026-11-21")),
    ("TIME(1)", "'10:00:00.5'", "'-100:00:00'", ("10:00:00.5", "-100:00:00", "10:00:00")),
    ("VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "'Ab'", "'cd '", ("aB", "AB ", "cd", "x")),
    ("VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "'Ab'", "'é'", ("Ab", "ab", "é", "e")),
    ("ENUM('new', 'paid')", "'new'", "'paid'", ("new", "PAID", "sent")),
    ("VARBINARY(8)", "0x00ff", "'ab'", ("0x00ff", "ab", "AB")),
)  # fmt: skip
MARIADB_KEYS = (
    ("UUID", "'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000001'", ("123E4567-E89B-12D3-A456-426655440000", "00000000-0000-0000-0000-000000000002")),
    ("INET6", "'2001:db8::ff00:42:8329'", "'::1'", ("2001:db8::ff00:42:8329", "::1", "::2")),
)  # fmt: skip


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_keys_are_compared_as_the_server_compares_them(server: Server) -> None:
    server.execute(
        "SET GLOBAL binlog_row_metadata = FULL", "CREATE DATABASE keyed", "FLUSH BINARY LOGS"
    )
    log_file = server.log_files()[-1]
    asked = []
    with server.session("keyed") as session:
        session.execute("SET NAMES utf8mb4", "SET SESSION time_zone = '+00:00'")
        for number, (kind, one, other, texts_) in enumerate(
            (*KEYS, *(MARIADB_KEYS if server.flavour == "mariadb" else ()))
        ):
            session.execute(
                f"CREATE TABLE t{number} (k {kind} PRIMARY KEY, who INT)",
                f"INSERT INTO t{number} VALUES ({one}, 1), ({other}, 2)",
            )
            for text in texts_:
                literal = text if text.startswith("0x") else f"'{text}'"
                literal = f"0 + {literal}" if kind.startswith("BIT") else literal
                matching = session.rows(f"SELECT who FROM t{number} WHERE k = {literal}")
                asked.append((f"keyed.t{number}", kind, text, [who for (who,) in matching]))
    log = binlake.open(str(log_file))
    differing = []
    for table, kind, text, rows in asked:
        found = [str(change.changed["who"].new) for change in log.history(table, text).changes]
        if found != rows:
            differing.append((kind, text, found, rows))
    assert differing == []
    assert sum(bool(rows) for *_, rows in asked) > 20


#: Transactions on a table; the rows with the keys 5 and 7 belong to the history of 7.
LIFE = (
    ("INSERT INTO t SET id = 5, a = 1", "INSERT INTO t SET id = 6, a = 1"),
    ("UPDATE t SET a = a + 10",),
    ("UPDATE t SET note = 'é' WHERE id = 5", "UPDATE t SET id = 7 WHERE id = 5", "UPDATE t SET a = 3 WHERE id = 6"),
    ("UPDATE t SET a = a * 2",),
    ("DELETE FROM t WHERE id = 7",),
    ("INSERT INTO t SET id = 7, a = 70",),
    ("UPDATE t SET note = 'last' WHERE id = 7",),
)  # fmt: skip


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_an_undo_brings_the_row_back(
    server: Server, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    server.execute("SET GLOBAL binlog_row_metadata = FULL", "FLUSH BINARY LOGS")
    first = len(server.log_files()) - 1
    states: list[list[list[str | None]]] = []  # before each transaction
    points = (0, 2, 5)
    databases = [f"undone_{number}" for number in points]
    query = "SELECT id, a, double_a, note FROM t ORDER BY id"
    for database in databases:
        server.execute(f"CREATE DATABASE {database}")
        with server.session(database) as session:
            session.execute(
                "SET NAMES utf8mb4",
                "CREATE TABLE t (id INT PRIMARY KEY, a INT, double_a INT AS (a * 2) STORED, note VARCHAR(9))",
            )
            states.clear()
            for transaction in LIFE:
                states.append(session.rows(query))
                session.execute("BEGIN", *transaction, "COMMIT")
                session.execute("CREATE DATABASE other", "CREATE TABLE other.t (id INT)")
                session.execute("DROP DATABASE other")
            last = session.rows(query)
    files = [str(file) for file in server.log_files()[first:]]
    url = f"mysql://root@127.0.0.1:{server.port}/"
    for number, database in zip(points, databases, strict=True):
        history = binlake.open(files).history(f"{database}.t", 7)
        gtids = list(dict.fromkeys(change.gtid for change in history.changes))
        assert len(gtids) == len(LIFE)
        command = [
            "history",
            f"{database}.t",
            "7",
            *files,
            "--undo",
            str(gtids[number]),
            "--verify",
            url,
        ]
        code = main(command)
        script, messages = capfdbinary.readouterr()
        assert code == 0, messages.decode()
        assert b"later change" not in messages
        server.run_script(script)
        with server.session(database) as session:
            session.execute("SET NAMES utf8mb4")
            found = session.rows(query)
        of_others = [row for row in last if row[0] == "6"]
        assert [row for row in found if row[0] != "6"] == [
            row for row in states[number] if row[0] != "6"
        ]
        assert [row for row in found if row[0] == "6"] == of_others


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
            "CREATE DATABASE other",
            "DROP DATABASE other",
            "DROP DATABASE between_changes",
            "CREATE DATABASE between_changes",
            "USE between_changes",
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
        "RENAME TABLE u TO t", "DROP DATABASE between_changes", "CREATE TABLE t (id INT PRIMARY KEY)",
        "insert", "delete",
    ]  # fmt: skip
    assert history.lives == 3
    truncate = next(entry for entry in history if entry.op == "truncate")
    assert isinstance(truncate, TableStatement)
    assert truncate.thread_id is not None
