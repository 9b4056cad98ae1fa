"""An incident: an UPDATE without WHERE on a table with keys, generated columns and many types. Who ran it, what was
the table before, and the undo of this transaction only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dev.servers import Server
from support.command_runs import run
from support.servers.live import url_of

pytestmark = pytest.mark.server

SERVERS = ("mysql-5.6.24", "mysql-9.7", "mariadb-11.8")
ORDERS = """
CREATE TABLE orders (
  ref VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, n INT UNSIGNED,
  customer VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci, state ENUM('new','paid','sént','x;y') NOT NULL,
  tags SET('a','b','ü'), flags BIT(10), doc {json}, total DECIMAL(10,2), name VARCHAR(50),
  at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3){generated}, PRIMARY KEY (ref, n),
  FOREIGN KEY (customer) REFERENCES customers (code) ON UPDATE CASCADE ON DELETE RESTRICT) ENGINE=InnoDB
"""
GENERATED = (
    ", gross DECIMAL(12,2) AS (total * 1.19) STORED, up VARCHAR(60) AS (UPPER(name)) VIRTUAL"
)
ACCIDENT = "UPDATE orders SET state = 'x;y', tags = 'b', flags = 0, total = 0, name = 'oops', doc = '{}', n = n + 1000"


class Incident:
    """The log, the position of the accident in it, and the rows before it."""

    def __init__(self, server: Server) -> None:
        is_old = server.name == "mysql-5.6.24"
        if not is_old:
            server.execute("SET GLOBAL binlog_row_metadata = FULL")
        server.execute("DROP DATABASE IF EXISTS shop", "FLUSH BINARY LOGS")
        self.server = server
        self.log = str(server.log_files()[-1])
        create = ORDERS.format(
            json="TEXT" if is_old else "JSON", generated="" if is_old else GENERATED
        )
        with server.session() as session:
            session.execute("SET NAMES utf8mb4", "CREATE DATABASE shop CHARACTER SET utf8mb4")
            session.execute(
                "USE shop",
                "CREATE TABLE customers (code VARCHAR(20) CHARACTER SET latin1 PRIMARY KEY, name VARCHAR(50)) ENGINE=InnoDB",
                create,
                "INSERT INTO customers VALUES ('c1', 'Zoë'), ('c2', 'x'), ('Ürümqi', 'y')",
            )
            for i in range(40):
                customer = ("c1", "c2", "Ürümqi")[i % 3]
                tags = ("a", "a,ü", "")[i % 3]
                session.execute(
                    "INSERT INTO orders (ref, n, customer, state, tags, flags, doc, total, name) VALUES"
                    f" ('é{i % 10}日', {i}, '{customer}', {i % 4 + 1}, '{tags}', {i * 7}, '{{\"k\": [{i}, \"ü\"]}}', {i}.25, 'näme {i}')"
                )
        self.before = self.orders()
        self.place = "{}:{}".format(*server.position())
        with server.session("shop") as session:
            self.thread = int(session.rows("SELECT CONNECTION_ID()")[0][0] or 0)
            session.execute(
                "SET NAMES utf8mb4",
                "BEGIN",
                ACCIDENT,
                "UPDATE customers SET name = 'wrong' WHERE code = 'c1'",
                "COMMIT",
            )
        with server.session("shop") as session:
            session.execute(
                "SET NAMES utf8mb4",
                "INSERT INTO orders (ref, n, customer, state, total) VALUES ('late', 1, 'c2', 'new', 5)",
                "UPDATE orders SET total = 7 WHERE n = 1004",
            )

    def orders(self) -> list[list[str | None]]:
        columns = "ref, n, customer, state, tags, flags + 0, doc, total, name, at"
        if self.server.name != "mysql-5.6.24":
            columns += ", gross, up"
        with self.server.session("shop") as session:
            session.execute("SET time_zone = '+00:00'", "SET NAMES utf8mb4")
            return session.rows(f"SELECT {columns} FROM orders ORDER BY n, ref")


@pytest.fixture
def incident(server: Server) -> Incident:
    return Incident(server)


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_the_transaction_is_found_and_undone_alone(
    incident: Incident, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log, url = incident.log, url_of(incident.server)
    # who: the largest transaction, by the table and the operation
    largest = (
        "SELECT _thread_id, min(_log_pos) AS pos, count(*) AS n FROM shop.orders"
        " WHERE _op = 'update' GROUP BY _thread_id ORDER BY n DESC LIMIT 1"
    )
    code, out, err = run(capfd, "query", largest, log)
    assert code == 0, err
    found = json.loads(out)
    assert (found["_thread_id"], found["n"]) == (incident.thread, 40)
    inside = f"{Path(log).name}:{found['pos']}"
    # one row's history, by a key with characters of both character sets
    code, out, err = run(capfd, "history", "shop.orders", "é4日", "4", log, "--json")
    assert code == 0, err
    assert [one["op"] for one in objects(out)] == ["insert", "update", "update"]
    assert objects(out)[1]["changed"]["tags"] == {"old": "a,ü", "new": "b"}
    assert objects(out)[1]["thread_id"] == incident.thread
    # the table of before
    code, out, err = run(
        capfd, "state", "shop.orders", "--as-of", incident.place, "--from", url, str(incident.server.data / "binlog.index")
    )  # fmt: skip
    assert code == 0, err
    rows = sorted(objects(out), key=lambda row: row["n"])
    assert [list(row.values())[:5] for row in rows] == [
        [row[0], int(row[1] or 0), *row[2:5]] for row in incident.before
    ]
    assert [row["at"] for row in rows] == [row[9] for row in incident.before]
    # a row has changed since
    code, out, err = run(capfd, "sql", log, "--at", inside, "--undo", "--verify", url)
    assert (code, out) == (1, "")
    assert "1 row on" in err
    assert "`ref` = 'é4日' AND `n` = 1004 has changed or is gone" in err
    code, out, err = run(capfd, "sql", log, "--at", inside, "--undo")
    assert code == 0, err
    assert "1 later change of the same rows" in err
    assert "later DDL" not in err, "the tables were created before"
    incident.server.run_script(out.encode())
    after = incident.orders()
    assert [row for row in after if row[0] != "late"] == incident.before
    assert len(after) == len(incident.before) + 1
    assert incident.server.rows("SELECT name FROM shop.customers WHERE code = 'c1'") == [["Zoë"]]


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_condition_limits_the_undo_and_its_warnings(
    incident: Incident, capfd: pytest.CaptureFixture[str]
) -> None:
    log, url = incident.log, url_of(incident.server)
    chosen = ("sql", log, "--at", incident.place, "--undo", "--table", "shop.orders")
    code, out, err = run(capfd, *chosen, "--where", "before.n = 5", "--verify", url)
    assert code == 0, err
    assert out.count("UPDATE ") == 1
    assert "later change" not in err, "of another row of the transaction"
    code, whole, err = run(capfd, *chosen, "--where", "before.n = 5", "--whole-transaction")
    assert code == 0, err
    assert whole.count("UPDATE ") == 40
    assert "1 later change of the same rows" in err
    code, _, err = run(capfd, *chosen, "--where", "before.n IN (3, 4)")
    assert code == 0, err
    assert "1 later change of the same rows, which the undo ignores: `ref` = 'é4日'" in err
    incident.server.run_script(out.encode())
    [undone] = [row for row in incident.orders() if row[1] == "5"]
    assert undone in incident.before
    code, out, err = run(capfd, *chosen, "--where", "before.n = '5'")
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) <= 2
    assert "compare it with a number, without quotes" in err


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_later_change_in_the_same_transaction_is_reported(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    """The condition leaves it out of the undo; and a row of a table that is not undone refers to an inserted one."""
    if server.name != "mysql-5.6.24":
        server.execute("SET GLOBAL binlog_row_metadata = FULL")
    server.execute("DROP DATABASE IF EXISTS twice", "FLUSH BINARY LOGS")
    log = str(server.log_files()[-1])
    with server.session() as session:
        session.execute(
            "CREATE DATABASE twice",
            "USE twice",
            "CREATE TABLE t (id INT PRIMARY KEY, a INT) ENGINE=InnoDB",
            "CREATE TABLE child (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id)) ENGINE=InnoDB",
            "INSERT INTO t VALUES (1, 1), (2, 2)",
        )
        place = "{}:{}".format(*server.position())
        session.execute(
            "BEGIN",
            "UPDATE t SET a = 10 WHERE id = 1",
            "UPDATE t SET a = 20 WHERE id = 1",
            "INSERT INTO t VALUES (3, 3)",
            "INSERT INTO child VALUES (1, 3)",
            "COMMIT",
        )
    undo = ("sql", log, "--at", place, "--undo")
    code, out, err = run(capfd, *undo, "--where", "after.a = 10")
    assert code == 0, err
    assert out.count("UPDATE ") == 1
    assert "twice.t: 1 later change of the same rows" in err
    code, out, err = run(capfd, *undo, "--where", "after.a = 20")
    assert code == 0, err
    assert out.count("UPDATE ") == 1
    assert "later change" not in err, "of a change that comes after all others of its row"
    code, out, err = run(capfd, *undo, "--table", "twice.t")
    assert code == 0, err
    assert "1 later change refers to rows of twice.t that the undo deletes" in err
