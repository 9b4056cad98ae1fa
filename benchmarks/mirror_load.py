"""Tables of any size on a real MySQL server, and net changes of their rows in a known order.

Row number n has the key `KEYS[kind]` of n. A transaction changes TRANSACTION rows that are scattered over
the table, each once: half of them updated, 40 % inserted, 10 % deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev.servers import Server, installation

__all__ = ["KEYS", "SERVER", "TABLE", "TRANSACTION", "Load"]

SERVER = "mysql-9.7"
TABLE = "shop.orders"
TRANSACTION = 10_000
_UPDATES, _INSERTS, _DELETES = (TRANSACTION * share // 10 for share in (5, 4, 1))
#: Kinds of keys: the column's type, and its value for row number {n}.
KEYS = {
    "int": ("INT", "{n}"),
    "uuid": (
        "CHAR(36) CHARACTER SET ascii",
        # MySQL 9.7 has no MD5(); in another character set a join could not use the key
        "CONVERT(BIN_TO_UUID(UNHEX(LEFT(SHA2({n}, 256), 32))) USING ascii)",
    ),
}
_OPTIONS = (
    "--binlog-row-metadata=FULL",
    "--max-binlog-size=1G",
    "--binlog-cache-size=16M",
    "--innodb-redo-log-capacity=2G",
    "--innodb-buffer-pool-size=6G",
    "--innodb-flush-log-at-trx-commit=2",
    "--sync-binlog=0",
)
_COLUMNS = """
  id {type} NOT NULL PRIMARY KEY, customer_id INT UNSIGNED NOT NULL, store_id SMALLINT NOT NULL,
  state ENUM('new','paid','picked','shipped','delivered','returned','cancelled') NOT NULL,
  quantity INT NOT NULL, total DECIMAL(12,2) NOT NULL, discount DECIMAL(12,2), sku VARCHAR(40) NOT NULL,
  note VARCHAR(255), created_at DATETIME(6) NOT NULL, updated_at TIMESTAMP NULL, is_gift TINYINT NOT NULL,
  rate DOUBLE NOT NULL"""
_ROW = """{key}, {n} % 400000, {n} % 900, {n} % 7 + 1, {n} % 60, {n} % 9999999 / 100,
  IF({n} % 5 < 3, NULL, {n} % 200), CONCAT('SKU-', HEX({n} * 2654435761 % 4294967296)),
  IF({n} % 5 < 2, NULL, REPEAT('note ', {n} % 9)), '2026-01-01' + INTERVAL {n} * 1.25 SECOND, NULL, {n} % 10 = 0,
  {n} / 7"""
_BLOCK = 10_000  # numbers in the helper table
_FILLERS = 2  # sessions that fill a table: as many as the machine of the goals has cores
_STRIDE = 7_368_787  # a prime: numbers times it, modulo the size of the table, are scattered


class Load:
    """The server in `folder`, with a table of `rows` rows, which is made when it is not there."""

    def __init__(self, folder: Path, key: str, rows: int, table: str = TABLE) -> None:
        self.server = Server(installation(SERVER), folder)
        self.rows = rows
        self.table = table
        self._type, self._key = KEYS[key]
        self._made = folder / f"transactions of {table}"

    @property
    def url(self) -> str:
        """The server's address for the user root."""
        socket = str(self.server.run / "server.sock").replace("/", "%2F")
        return f"mysql://root@{socket}/?option-file=none"

    @property
    def logs(self) -> str:
        """The paths of its logs."""
        return str(self.server.data / "binlog.0*")

    def start(self, changes: int) -> None:
        """Start the server with an empty log, and a table that lasts for so many changes.

        Raises SystemExit if a new table is too small for them: each transaction deletes rows of those it began with.
        """
        self.start_with([self], changes)

    def start_with(self, tables: Sequence[Load], changes: int) -> None:
        """Start the server with an empty log, and each of these tables for so many changes. Raises as `start` does."""
        self.server.start(_OPTIONS)
        for table in tables:
            table.last_for(changes)
        self.server.execute(self.server.kind.reset_statement)

    def last_for(self, changes: int) -> None:
        """Make the table on the running server, unless it is there and lasts for so many changes. Raises as `start` does."""
        transactions = -(-changes // TRANSACTION) + 2  # those that are begun are ended
        if transactions * _DELETES > self.rows:
            raise SystemExit(
                f"{changes:,} changes delete up to {transactions * _DELETES:,} rows, and the table has {self.rows:,}: "
                "ask for more --rows or fewer rounds"
            )
        done = int(self._made.read_text()) if self._made.exists() else None
        if done is None or (done + transactions) * _DELETES > self.rows:
            self._made.unlink(missing_ok=True)
            self._fill()
            self._made.write_text("0")

    def _fill(self) -> None:
        database, _, _ = self.table.partition(".")
        ten = " UNION ALL ".join(f"SELECT {digit} d" for digit in range(10))
        with self.server.session() as session:
            session.execute(
                "SET sql_log_bin = 0",
                f"DROP DATABASE IF EXISTS {database}",
                "DROP DATABASE IF EXISTS helper",
                f"CREATE DATABASE {database}",
                "CREATE DATABASE helper",
                f"CREATE TABLE {self.table} ({_COLUMNS.format(type=self._type)})",
                "CREATE TABLE helper.numbers (n BIGINT PRIMARY KEY)",
                f"INSERT INTO helper.numbers WITH t AS ({ten}) "
                "SELECT a.d * 1000 + b.d * 100 + c.d * 10 + d.d FROM t a, t b, t c, t d",
            )
        with ThreadPoolExecutor(_FILLERS) as fillers:
            list(fillers.map(self._fill_share, range(_FILLERS)))

    def _fill_share(self, share: int) -> None:
        with self.server.session() as session:
            session.execute("SET sql_log_bin = 0")
            for first in range(share * _BLOCK, self.rows, _FILLERS * _BLOCK):
                session.execute(self._insert(first, min(_BLOCK, self.rows - first)))

    def _insert(self, first: int, count: int) -> str:
        number = f"({first} + s.n)"
        row = _ROW.format(n=number, key=self._key.format(n=number))
        return f"INSERT INTO {self.table} SELECT {row} FROM helper.numbers s WHERE s.n < {count}"

    def _scattered(self, first: int, count: int) -> str:
        """A join with the rows of some places of a fixed random order."""
        number = f"(({first} + s.n) * {_STRIDE} % {self.rows})"
        return (
            f"(SELECT {self._key.format(n=number)} k FROM helper.numbers s WHERE s.n < {count}) x "
            f"JOIN {self.table} o ON o.id = x.k"
        )

    def change(self, changes: int) -> int:
        """Change about so many rows; returns how many it were."""
        done = int(self._made.read_text())
        changed = 0
        database, _, _ = self.table.partition(".")
        with self.server.session(database) as session, session.connection.cursor() as cursor:
            while changed < changes:
                cursor.execute("BEGIN")
                update = f"o.quantity = {done} + 61, o.updated_at = '2026-11-20 10:00:00'"
                for statement in (
                    f"UPDATE {self._scattered(done * _UPDATES, _UPDATES)} SET {update}",
                    self._insert(self.rows + done * _INSERTS, _INSERTS),
                    f"DELETE o FROM {self._scattered(self.rows - (done + 1) * _DELETES, _DELETES)}",
                ):
                    changed += cursor.execute(statement)
                cursor.execute("COMMIT")
                done += 1
                self._made.write_text(str(done))
        return changed

    def log_bytes(self) -> int:
        """Bytes of all logs."""
        return sum(log.stat().st_size for log in self.server.log_files())

    def count(self) -> int:
        """The rows that the table has now."""
        return int(self._of_all("COUNT(*)"))

    def total(self) -> str:
        """The sum of `total` of all rows."""
        return self._of_all("SUM(total)")

    def _of_all(self, expression: str) -> str:
        [[found]] = self.server.rows(f"SELECT {expression} FROM {self.table}")
        return found or "0"
