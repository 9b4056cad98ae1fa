"""A seeded load on a real server: transactions over a few tables, from a thread of its own."""

from __future__ import annotations

import contextlib
import random
import threading
from typing import Any

import pymysql

__all__ = ["TABLES", "Load", "contents"]

DATABASE = "shop"
TABLES = ("account", "entry")

_SCHEMA = (
    f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
    (
        f"CREATE TABLE {DATABASE}.account (id INT PRIMARY KEY, balance BIGINT NOT NULL, note VARCHAR(200))"
        " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
    ),
    (
        f"CREATE TABLE {DATABASE}.entry (id BIGINT AUTO_INCREMENT PRIMARY KEY, account INT NOT NULL,"
        " amount DECIMAL(20,4), body BLOB) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
    ),
)
_ACCOUNTS = 200


class Load:
    """Transactions of 1 to 200 row changes on the server behind `port`, until `stop`.

    When a connection breaks, the load gives up open transactions and continues with a new one:
    what the server has committed is the truth, not what was asked of it. `port` may be changed
    while it runs (failover). `committed` counts what the server has acknowledged.
    """

    def __init__(self, port: int, seed: int, *, user: str = "load", password: str = "l") -> None:
        self.port = port
        self.committed = 0
        self._login = {"user": user, "password": password}
        self._rng = random.Random(seed)
        self._stopped = threading.Event()
        self._runs = threading.Event()
        self._idle = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @staticmethod
    def prepare(session: Any) -> None:
        """Make the tables and their first rows."""
        session.execute(*_SCHEMA)
        rows = ", ".join(f"({number}, 1000, 'first')" for number in range(_ACCOUNTS))
        session.execute(f"INSERT INTO {DATABASE}.account VALUES {rows}")

    def start(self) -> None:
        """Begin, or go on after `pause`."""
        self._idle.clear()
        self._runs.set()
        if not self._thread.is_alive():
            self._thread.start()

    def pause(self) -> None:
        """Commit or give up what is open, and change nothing until `start`."""
        self._runs.clear()
        assert self._idle.wait(300), "the load does not come to rest"

    def stop(self) -> None:
        """End it; returns when nothing is open."""
        self._stopped.set()
        self._runs.set()
        self._thread.join(60)

    def _run(self) -> None:
        connection: Any = None
        while not self._stopped.is_set():
            if not self._runs.is_set():
                self._idle.set()
                self._runs.wait()
                continue
            try:
                if connection is None:
                    connection = self._connect()
                self._transaction(connection)
                self.committed += 1
            except (pymysql.MySQLError, OSError):
                if connection is not None:
                    with contextlib.suppress(pymysql.MySQLError, OSError):
                        connection.close()
                connection = None
                self._stopped.wait(0.02)
        if connection is not None:
            with contextlib.suppress(pymysql.MySQLError, OSError):
                connection.close()

    def _connect(self) -> Any:
        return pymysql.connect(
            host="127.0.0.1", port=self.port, database=DATABASE, charset="utf8mb4",
            connect_timeout=5, read_timeout=20, **self._login,
        )  # fmt: skip

    def _transaction(self, connection: Any) -> None:
        rng = self._rng
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            for _ in range(rng.choice((1, 1, 2, 5, 20))):
                self._change(cursor)
            if rng.random() < 0.05:
                connection.rollback()
            else:
                connection.commit()
        self._stopped.wait(rng.choice((0, 0, 0.002, 0.01)))

    def _change(self, cursor: Any) -> None:
        rng = self._rng
        kind = rng.random()
        if kind < 0.45:
            rows = [
                (rng.randrange(_ACCOUNTS), f"{rng.randrange(10**8)}.{rng.randrange(10**4):04d}",
                 rng.randbytes(rng.choice((0, 10, 300))))
                for _ in range(rng.choice((1, 2, 10)))
            ]  # fmt: skip
            cursor.executemany(
                "INSERT INTO entry (account, amount, body) VALUES (%s, %s, %s)", rows
            )
        elif kind < 0.85:
            first, second = rng.sample(range(_ACCOUNTS), 2)
            amount = rng.randrange(1, 50)
            note = "".join(rng.choice("abcäß€😀") for _ in range(rng.randrange(30)))
            move = "UPDATE account SET balance = balance + %s, note = %s WHERE id = %s"
            cursor.execute(move, (-amount, note, first))
            cursor.execute(move, (amount, None, second))
        else:
            cursor.execute("DELETE FROM entry ORDER BY id LIMIT %s", (rng.randrange(1, 4),))


def contents(session: Any) -> dict[str, dict[str, list[str | None]]]:
    """The rows of the tables, by table and key, every value as the server's text."""
    found = {}
    for table, columns in (
        ("account", "id, balance, note"),
        ("entry", "id, account, amount, LOWER(HEX(body))"),
    ):
        rows = session.rows(f"SELECT {columns} FROM {DATABASE}.{table}")
        found[table] = {row[0]: row[1:] for row in rows}
    return found
