"""Make the logs that `make demo` shows: `python -m dev.demo_logs`.

A small shop lives for a while on MySQL 9.7 and on MariaDB 11.8: five tables, sales in small
transactions, a bulk price change in a compressed transaction, an ALTER TABLE in the middle,
deletes, a rollback, and JSON. Chance is seeded, so only times and GTIDs change from run to run.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from dev.servers import Server, running

DEMO = Path(__file__).resolve().parents[1] / "demo"
SEED = 7
OPTIONS = ("--binlog-row-metadata=FULL", "--binlog-row-image=FULL", "--max-binlog-size=1M")
PER_SERVER = {
    "mysql-9.7": ("--gtid-mode=ON", "--enforce-gtid-consistency=ON"),
    "mariadb-11.8": ("--log-bin-compress-min-len=10",),
}

CITIES = ("Lisboa", "Köln", "東京", "São Paulo", "Kraków", "Αθήνα", "Montréal", "Nairobi")
NAMES = ("Ana", "Björn", "Chloé", "Dmitri", "Eun-ji", "Fatima", "Grace", "Håkon", "Inês", "José")
THINGS = ("lamp", "chair", "kettle", "rug", "mirror", "shelf", "vase", "clock", "blanket", "stool")
STATES = ("new", "paid", "shipped", "delivered", "returned")


def _tables(server: Server) -> Iterator[str]:
    yield "CREATE DATABASE shop CHARACTER SET utf8mb4"
    yield "USE shop"
    yield (
        "CREATE TABLE customers (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL, "
        "city VARCHAR(40), born DATE, credit DECIMAL(10,2) NOT NULL DEFAULT 0, "
        "since TIMESTAMP(3) NOT NULL, flags SET('vip','newsletter','b2b') NOT NULL DEFAULT '')"
    )
    yield (
        "CREATE TABLE products (sku CHAR(8) CHARACTER SET ascii PRIMARY KEY, title VARCHAR(120) NOT NULL, "
        f"price DECIMAL(8,2) NOT NULL, stock MEDIUMINT NOT NULL, attributes {_json(server)}, weight FLOAT)"
    )
    yield (
        "CREATE TABLE orders (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, customer_id INT UNSIGNED NOT NULL, "
        f"state ENUM({', '.join(repr(s) for s in STATES)}) NOT NULL DEFAULT 'new', "
        "placed_at DATETIME(6) NOT NULL, total DECIMAL(12,2) NOT NULL, note TEXT)"
    )
    yield (
        "CREATE TABLE order_lines (order_id BIGINT UNSIGNED NOT NULL, line TINYINT UNSIGNED NOT NULL, "
        "sku CHAR(8) CHARACTER SET ascii NOT NULL, quantity SMALLINT NOT NULL, price DECIMAL(8,2) NOT NULL, "
        "PRIMARY KEY (order_id, line))"
    )
    yield (
        "CREATE TABLE opening_hours (city VARCHAR(40) PRIMARY KEY, opens TIME NOT NULL, closes TIME NOT NULL, "
        "place POINT)"
    )


def _json(server: Server) -> str:
    return "JSON" if server.flavour == "mysql" else "LONGTEXT"


class Shop:
    """The shop's days as SQL. It remembers what it sold, so that its updates hit."""

    def __init__(self) -> None:
        self.chance = random.Random(SEED)
        self.prices: dict[str, float] = {}
        self.orders = 0

    def stock_up(self) -> Iterator[str]:
        """Products, customers, opening hours."""
        chance = self.chance
        products = []
        for i in range(60):
            sku = f"SKU{i:05d}"
            self.prices[sku] = round(chance.uniform(3, 250), 2)
            attributes = {
                "colour": chance.choice(["red", "blue", "żółty"]),
                "size": {"w": chance.randint(5, 90), "h": round(chance.uniform(5, 90), 1)},
                "tags": chance.sample(["new", "sale", "handmade", "eco"], chance.randint(0, 3)),
            }
            text = json.dumps(attributes, ensure_ascii=False)
            products.append(
                f"('{sku}', '{chance.choice(NAMES)}''s {THINGS[i % 10]}', {self.prices[sku]}, "
                f"{chance.randint(0, 500)}, '{text}', {chance.uniform(0.1, 20):.2f})"
            )
        yield f"INSERT INTO products VALUES {', '.join(products)}"
        customers = ", ".join(
            f"('{chance.choice(NAMES)} {chance.choice('ABCDEFG')}.', '{chance.choice(CITIES)}', "
            f"'{chance.randint(1950, 2005)}-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}', "
            f"{chance.uniform(0, 400):.2f}, '2026-01-{chance.randint(1, 28):02d} 10:00:00.{chance.randint(0, 999):03d}', "
            f"{chance.randint(0, 7)})"
            for _ in range(120)
        )
        columns = "name, city, born, credit, since, flags"
        yield f"INSERT INTO customers ({columns}) VALUES {customers}"
        hours = ", ".join(
            f"('{city}', '0{8 + i % 2}:30:00', '2{i % 2}:00:00', ST_GeomFromText('POINT({i} {-i}.5)'))"
            for i, city in enumerate(CITIES)
        )
        yield f"INSERT INTO opening_hours VALUES {hours}"

    def sell(self, count: int) -> Iterator[str]:
        """Orders, each with its lines and the stock they take, in a transaction."""
        chance = self.chance
        for _ in range(count):
            self.orders += 1
            lines = chance.sample(sorted(self.prices), chance.randint(1, 4))
            total = sum(self.prices[sku] for sku in lines)
            note = chance.choice(["NULL", "NULL", "'leave at the door'", "'🎁 gift, please wrap'"])
            moment = f"2026-11-{1 + self.orders // 40 % 28:02d} {8 + self.orders % 12:02d}:15:00.{self.orders:06d}"
            yield "BEGIN"
            yield (
                "INSERT INTO orders (customer_id, placed_at, total, note) VALUES "
                f"({chance.randint(1, 120)}, '{moment}', {total:.2f}, {note})"
            )
            values = ", ".join(
                f"({self.orders}, {n}, '{sku}', {chance.randint(1, 3)}, {self.prices[sku]})"
                for n, sku in enumerate(lines, 1)
            )
            yield f"INSERT INTO order_lines VALUES {values}"
            skus = ", ".join(f"'{sku}'" for sku in lines)
            yield f"UPDATE products SET stock = stock - 1 WHERE sku IN ({skus})"
            yield "COMMIT"

    def handle(self, count: int) -> Iterator[str]:
        """Orders move on, one statement each."""
        for _ in range(count):
            order = self.chance.randint(1, self.orders)
            yield f"UPDATE orders SET state = '{self.chance.choice(STATES[1:])}' WHERE id = {order}"

    def change_prices(self) -> str:
        """Every price at once."""
        self.prices = {sku: round(price * 1.05, 2) for sku, price in self.prices.items()}
        return "UPDATE products SET price = ROUND(price * 1.05, 2)"


def _days(server: Server) -> Iterator[str]:
    shop = Shop()
    mysql = server.flavour == "mysql"
    yield from shop.stock_up()
    yield from shop.sell(150)
    yield from shop.handle(120)
    compress, plain = (
        ("SET SESSION binlog_transaction_compression = ON", "SET SESSION binlog_transaction_compression = OFF")
        if mysql
        else ("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress = OFF")
    )  # fmt: skip
    yield compress
    yield shop.change_prices()
    yield "UPDATE customers SET credit = credit + 5 WHERE FIND_IN_SET('vip', flags)"
    yield plain
    # from here on orders have one more column, and a wider one
    yield "ALTER TABLE orders ADD COLUMN channel VARCHAR(10) DEFAULT 'web' AFTER state, MODIFY total DECIMAL(14,2) NOT NULL"
    yield from shop.sell(150)
    yield "UPDATE orders SET channel = 'app' WHERE id % 3 = 0"
    yield "BEGIN"
    yield "DELETE FROM customers WHERE id <= 60"
    yield "ROLLBACK"
    yield from shop.handle(120)
    yield "DELETE FROM order_lines WHERE order_id IN (SELECT id FROM orders WHERE state = 'returned')"
    yield "DELETE FROM orders WHERE state = 'returned'"
    if mysql:
        yield "UPDATE products SET attributes = JSON_SET(attributes, '$.sale', JSON_OBJECT('until', CAST('2026-12-24' AS DATE), 'off', 0.15)) WHERE stock > 250"
    yield "DELETE FROM opening_hours WHERE city = 'Nairobi'"
    yield "FLUSH BINARY LOGS"
    yield compress
    yield from shop.sell(40)


def statements(server: Server) -> list[str]:
    """The shop from its CREATE DATABASE to its last sale, as SQL."""
    return ["SET SESSION time_zone = '+00:00'", *_tables(server), *_days(server)]


def make(name: str) -> None:
    """Make the demo folder of one server."""
    out = DEMO / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with running(name, [*OPTIONS, *PER_SERVER[name]]) as server:
        server.execute(server.kind.reset_statement)
        server.execute(*statements(server))
        server.stop()
        for path in server.log_files():
            shutil.copyfile(path, out / path.name)
        (out / "binlog.index").write_text("".join(f"./{p.name}\n" for p in server.log_files()))
    print(f"{out.relative_to(DEMO.parent)}: {sum(p.stat().st_size for p in out.iterdir())} bytes")


if __name__ == "__main__":
    for server_name in PER_SERVER:
        make(server_name)
