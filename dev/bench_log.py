"""Make the logs of the benchmark with a real MySQL 9.7: `python -m dev.bench_log FOLDER`.

FOLDER gets a server's data directory, whose server can serve them, and the logs

    binlog.000001   300 MB of one table of 13 mixed columns: 60 % of the changed rows inserted,
                    30 % updated, 10 % deleted; about half in transactions of one to eight rows,
                    half in statements of 200 to 2000 rows
    binlog.000002   one transaction of 1 GB (of another size where the first log has one)
    binlog.000003   the same, compressed
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from dev.servers import Server, Session, installation

TABLE = """
CREATE TABLE shop.orders (
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  customer_id INT UNSIGNED NOT NULL,
  store_id SMALLINT NOT NULL,
  state ENUM('new','paid','picked','shipped','delivered','returned','cancelled') NOT NULL,
  quantity INT NOT NULL,
  total DECIMAL(12,2) NOT NULL,
  discount DECIMAL(12,2),
  sku VARCHAR(40) NOT NULL,
  note VARCHAR(255),
  created_at DATETIME(6) NOT NULL,
  updated_at TIMESTAMP NULL,
  is_gift TINYINT NOT NULL,
  attributes JSON
) ENGINE=InnoDB
"""
WORDS = (
    "oak", "linen", "copper", "rain", "harvest", "ivory", "meadow", "cobalt", "thistle", "ember",
    "granite", "willow", "saffron", "café", "Zürich", "naïve", "東京", "søren", "jalapeño", "quartz",
)  # fmt: skip
OPTIONS = (
    "--binlog-row-metadata=FULL",
    "--max-binlog-size=1G",
    "--binlog-cache-size=64M",
    "--innodb-redo-log-capacity=2G",
    "--innodb-buffer-pool-size=1G",
)
BULK = 2000


class Load:
    """Statements that keep the shares of operations; keys in [oldest, next) exist."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.oldest = self.next = 1
        self.changed = {"insert": 0, "update": 0, "delete": 0}

    def row(self, key: int) -> str:
        """One value list."""
        c = self.chance
        note = "NULL" if c.random() < 0.4 else f"'{' '.join(c.choices(WORDS, k=c.randint(1, 14)))}'"
        discount = "NULL" if c.random() < 0.6 else f"{c.uniform(-200, 200):.2f}"
        updated = (
            "NULL"
            if c.random() < 0.5
            else f"'2026-{c.randint(1, 10):02d}-{c.randint(1, 28):02d} {c.randint(0, 23):02d}:00:{c.randint(0, 59):02d}'"
        )
        attributes = "NULL" if c.random() < 0.2 else f"'{self.document()}'"
        return (
            f"({key},{c.randint(1, 400000)},{c.randint(-5, 900)},{c.randint(1, 7)},{c.randint(1, 60)},"
            f"{c.uniform(0, 99999):.2f},{discount},'SKU-{c.getrandbits(32):08X}',{note},"
            f"'202{c.randint(0, 6)}-{c.randint(1, 12):02d}-{c.randint(1, 28):02d} {c.randint(0, 23):02d}:{c.randint(0, 59):02d}:"
            f"{c.randint(0, 59):02d}.{c.randint(0, 999999):06d}',{updated},{int(c.random() < 0.1)},{attributes})"
        )

    def document(self) -> str:
        """A JSON document of a usual size."""
        c = self.chance
        document = {
            "channel": c.choice(("web", "app", "pos")),
            "coupon": c.random() < 0.1,
            "weight": round(c.uniform(0.1, 40), 3),
            "tags": c.choices(WORDS, k=c.randint(0, 4)),
            "ship": {"zip": f"{c.randint(0, 99999):05d}", "eta": c.randint(1, 30)},
        }
        return json.dumps(document, ensure_ascii=False)

    def insert(self, count: int) -> str:
        """Insert new keys."""
        rows = ",".join(self.row(self.next + i) for i in range(count))
        self.next += count
        self.changed["insert"] += count
        return f"INSERT INTO orders VALUES {rows}"

    def update(self, count: int) -> str:
        """Update adjacent keys."""
        count = min(count, self.next - self.oldest)
        first = self.chance.randrange(self.oldest, self.next - count + 1)
        self.changed["update"] += count
        change = self.chance.choice(
            (
                "state = state % 7 + 1, updated_at = '2026-11-20 10:00:00'",
                "total = total + 1.25, quantity = quantity + 1",
                "note = CONCAT(LEFT(COALESCE(note, ''), 200), ' *')",
            )
        )
        return f"UPDATE orders SET {change} WHERE id BETWEEN {first} AND {first + count - 1}"

    def delete(self, count: int) -> str:
        """Delete the oldest keys."""
        count = min(count, (self.next - self.oldest) // 2)
        first, self.oldest = self.oldest, self.oldest + count
        self.changed["delete"] += count
        return f"DELETE FROM orders WHERE id BETWEEN {first} AND {first + count - 1}"

    def bulk(self) -> Iterator[str]:
        """About BULK rows in large statements of the operation that is furthest behind."""
        left = BULK
        while left > 0:
            count = self.chance.randint(200, BULK)
            total = sum(self.changed.values()) + 1
            change: Callable[[int], str] = self.delete
            if total < 2 * BULK or self.changed["insert"] < 0.6 * total:
                change = self.insert
            elif self.changed["update"] < 0.3 * total:
                change = self.update
            yield change(count)
            left -= count

    def small(self) -> Iterator[str]:
        """About BULK rows in transactions of one to eight rows."""
        left = BULK
        while left > 0:
            yield "BEGIN"
            for _ in range(self.chance.randint(1, 4)):
                count = self.chance.choice((1, 1, 1, 2))
                changes = (self.insert, self.update, self.delete)
                yield self.chance.choices(changes, (6, 3, 1))[0](count)
                left -= count
            yield "COMMIT"


def many_transactions(server: Server, session: Session, size: int) -> None:
    """Fill the current log until it has `size` bytes."""
    load = Load(seed=1)
    log = server.log_files()[-1]
    while log.stat().st_size < size:
        session.execute(*load.bulk(), *load.small())


def one_transaction(session: Session, size: int) -> None:
    """One transaction of about `size` bytes, by copying rows."""
    rows = "SELECT id + {step}, customer_id, store_id, state, quantity, total, discount, sku, note, created_at, updated_at, is_gift, attributes FROM orders WHERE id BETWEEN {low} AND {high}"
    session.execute("TRUNCATE TABLE orders", Load(seed=2).insert(BULK))
    average = 190  # bytes of one row image, somewhat less than it is
    session.execute("BEGIN")
    for part in range(1, size // average // BULK + 1):
        session.execute(f"INSERT INTO orders {rows.format(step=part * BULK, low=1, high=BULK)}")
    session.execute("COMMIT")


def make(folder: Path, megabytes: int) -> None:
    """Make the three logs. The server is stopped at the end; its data stays."""
    server = Server(installation("mysql-9.7"), folder)
    server.start(OPTIONS)
    server.execute(server.kind.reset_statement, "CREATE DATABASE shop", TABLE)
    size = megabytes * 1_000_000
    with server.session("shop") as session:
        many_transactions(server, session, size)
        session.execute("FLUSH BINARY LOGS")
        one_transaction(session, size * 10 // 3)
        session.execute("FLUSH BINARY LOGS", "SET SESSION binlog_transaction_compression = ON")
        one_transaction(session, size * 10 // 3)
    server.stop()
    for log in server.log_files():
        (folder / log.name).unlink(missing_ok=True)
        (folder / log.name).hardlink_to(log)
        print(f"{log.name}: {log.stat().st_size:,} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=300)
    given = parser.parse_args()
    make(given.folder.resolve(), given.megabytes)
