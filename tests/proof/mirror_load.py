"""The load of a soak of the mirror: rows and DDL in tables of several kinds, also while the server is killed."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable

import pymysql

from dev.servers import RefusedError, Server, Session
from support.spark.mirrored import Writer

__all__ = ["OPTIONS", "Load"]

TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, v INT, t VARCHAR(20) CHARACTER SET utf8mb4)",
    "CREATE TABLE keyless (v INT, t VARCHAR(20))",
    "CREATE TABLE uuids (id CHAR(36) PRIMARY KEY, v INT, d DECIMAL(10,2))",
    "CREATE TABLE pairs (a VARCHAR(20) CHARACTER SET utf8mb4, b INT, v INT, PRIMARY KEY (a, b))",
    "CREATE TABLE parts (id INT PRIMARY KEY, v INT, t TEXT)",
    "CREATE TABLE versions (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE altered (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE emptied (id INT PRIMARY KEY, v INT)",
)
ROWS = 6000
#: Options of the mirror: many chunks in a copy, many rounds, compaction all the time.
OPTIONS = {
    "commit_bytes": 16 << 10,  # tasks write larger ranges
    "tables": ("shop.*",),
    "history_tables": ("shop.versions",),
    "partition_tables": ("shop.parts=bucket(4, id)",),
    "round_bytes": 32 << 10,
    "chunk_rows": 2000,
    "compact_files": 4,
    "max_snapshots": 50,
}
_DDL_EVERY = 15
# not RENAME COLUMN, which MySQL 5.6 does not have
_RENAME = "ALTER TABLE altered CHANGE added renamed INT NULL"


class Load(Writer):
    """Writes transactions, and now and then a DDL statement, until it is stopped; begins again after a kill of the server."""

    def __init__(self, server: Server, rng: random.Random, pause_s: float = 0.5) -> None:
        super().__init__(server, rng)
        self.pause_s = pause_s
        self.altered = 0
        #: Held by those who compare: on a slow machine a statement falls into every attempt.
        self.no_ddl = threading.Lock()
        #: Held by those who need a server that is not written to.
        self.at_rest = threading.Lock()
        self._since_ddl = 0

    def prepared(self) -> Load:
        """Make the tables."""
        rows = ", ".join(f"({i}, {i % 7}, 'a{i}')" for i in range(ROWS))
        self.server.execute("CREATE DATABASE shop")
        with self.server.session("shop") as session:
            session.execute(*TABLES)
            session.execute(
                f"INSERT INTO keyed VALUES {rows}",
                f"INSERT INTO parts VALUES {rows}",
                "INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (2, 'y')",
                "INSERT INTO altered (id, v) VALUES (1, 1), (2, 2)",
                *(self._uuid_statement() for _ in range(50)),
            )
        return self

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                with self.server.session("shop") as session:
                    while not self._over.is_set():
                        with self.at_rest:
                            self._transaction(session)
                        self._over.wait(self.pause_s)
            except (RefusedError, pymysql.MySQLError, OSError):  # the server is being killed
                self._over.wait(0.1)

    def _transaction(self, session: Session) -> None:
        self._since_ddl += 1
        if self._since_ddl >= _DDL_EVERY and self.no_ddl.acquire(blocking=False):
            try:
                self._alter(session)
            finally:
                self.no_ddl.release()
            self._since_ddl = 0
        statements = [self.rng.choice(_STATEMENTS)(self.rng) for _ in range(12)]
        session.execute("BEGIN", *statements, self._uuid_statement(), "COMMIT")
        self.written += 1

    def _uuid_statement(self) -> str:
        name = uuid.UUID(int=self.rng.getrandbits(128))
        return f"INSERT IGNORE INTO uuids VALUES ('{name}', {self.rng.randrange(9)}, 1.25)"

    def _alter(self, session: Session) -> None:
        """Change the columns of `altered`, by what it has now: a kill may have come between; or empty a table."""
        found = {row[0] for row in session.rows("SHOW COLUMNS FROM altered")}
        if "added" in found:
            statement = _RENAME
        elif "renamed" not in found:
            statement = "ALTER TABLE altered ADD COLUMN added INT NULL AFTER id"
        else:
            statement = self.rng.choice(
                (
                    "ALTER TABLE altered DROP COLUMN renamed",
                    "ALTER TABLE altered MODIFY renamed BIGINT NULL FIRST",
                    "TRUNCATE emptied",
                )
            )
        session.execute(statement)
        self.altered += 1


def _one(rng: random.Random) -> int:
    return rng.randrange(ROWS + 2000)


_STATEMENTS: tuple[Callable[[random.Random], str], ...] = (
    lambda r: f"INSERT IGNORE INTO keyed VALUES ({_one(r)}, {r.randrange(10)}, 'é{_one(r)}')",
    lambda r: f"UPDATE keyed SET v = v + 1 WHERE id BETWEEN {(one := _one(r))} AND {one + 5}",
    lambda r: f"UPDATE IGNORE keyed SET id = {_one(r)} WHERE id = {_one(r)}",
    lambda r: f"DELETE FROM keyed WHERE id = {_one(r)}",
    lambda r: f"REPLACE INTO keyed VALUES ({_one(r)}, {r.randrange(10)}, NULL)",
    lambda r: f"INSERT INTO keyless VALUES ({r.randrange(10)}, 'x')",
    lambda r: f"UPDATE keyless SET v = {r.randrange(10)} WHERE v = {r.randrange(10)} LIMIT 2",
    lambda r: f"DELETE FROM keyless WHERE v = {r.randrange(10)} LIMIT 1",
    lambda r: f"UPDATE uuids SET v = v + 1 WHERE id LIKE '{r.randrange(256):02x}%'",
    lambda r: f"DELETE FROM uuids WHERE id LIKE '{r.randrange(4096):03x}%'",
    lambda r: f"REPLACE INTO pairs VALUES ('Ärger{r.randrange(30)}', {r.randrange(20)}, {_one(r)})",
    lambda r: f"UPDATE IGNORE pairs SET a = LOWER(a), b = b + 1 WHERE b = {r.randrange(20)}",
    lambda r: f"DELETE FROM pairs WHERE a = 'ÄRGER{r.randrange(30)}' AND b < 3",
    lambda r: f"UPDATE parts SET v = v + 1, t = 'b' WHERE id % 997 = {r.randrange(997)}",
    lambda r: f"UPDATE IGNORE parts SET id = {_one(r)} WHERE id = {_one(r)}",
    lambda r: f"REPLACE INTO versions VALUES ({r.randrange(300)}, {_one(r)})",
    lambda r: f"DELETE FROM versions WHERE id = {r.randrange(300)}",
    lambda r: f"REPLACE INTO altered (id, v) VALUES ({r.randrange(50)}, {_one(r)})",
    lambda r: f"REPLACE INTO emptied VALUES ({r.randrange(50)}, {_one(r)})",
)
