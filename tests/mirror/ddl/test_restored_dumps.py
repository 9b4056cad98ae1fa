"""Statements with comments, as dumps and people write them: servers log the text as it is, and execute a part of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dev.servers import Server
from support.spark.mirrored import Lake, gone, quarantined

# MySQL 5.6 comes without a mysqldump
pytestmark = [pytest.mark.server, pytest.mark.lakes, pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11")]  # fmt: skip

DATABASES = ("shop", "other", "away")


@pytest.fixture
def lake(server: Server, iceberg_spark: Any, tmp_path: Path) -> Lake:
    """A mirror of tables with rows, two of them with a key that is no primary key."""
    for database in DATABASES:
        server.execute(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}")
    with server.session("shop") as session:
        session.execute(
            "CREATE TABLE orders (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE codes (code INT NOT NULL UNIQUE, v INT)",
            "CREATE TABLE lacking (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE away.t (id INT PRIMARY KEY, v INT)",
            *(f"INSERT INTO {name} VALUES (1, 1), (2, 2)" for name in ("orders", "codes", "lacking", "away.t")),
        )  # fmt: skip
    found = Lake(iceberg_spark, tmp_path, server, tables=("shop.*", "away.*"))
    found.catch_up()
    found.notes.clear()
    return found


def dumped(server: Server, *options: str) -> bytes:
    """A dump of the database `shop` that its own server accepts."""
    of_gtids = [] if server.name.startswith("mariadb") else ["--set-gtid-purged=OFF"]
    return server.dump("shop", *of_gtids, *options)


def test_a_dump_with_a_drop_of_its_database(server: Server, lake: Lake) -> None:
    """The comment that drops the database also drops a table that the dump does not create again."""
    dump = dumped(server, "--add-drop-database", "--ignore-table=shop.lacking", "--databases")
    assert b"/*!40000 DROP DATABASE IF EXISTS `shop`*/" in dump
    server.execute("UPDATE shop.orders SET v = 3")
    server.run_script(dump)
    server.execute("INSERT INTO shop.orders VALUES (3, 3)", "UPDATE shop.codes SET v = 4")
    lake.catch_up()
    assert quarantined(lake) == {}
    assert list(gone(lake)) == ["shop.lacking"]
    assert lake.equals_source("*.*") == ["away.t", "shop.codes", "shop.orders"]


def test_a_dump_that_is_restored_into_another_database(server: Server, lake: Lake) -> None:
    server.run_script(dumped(server), "other")
    server.execute("INSERT INTO shop.orders VALUES (3, 3)")
    lake.catch_up()
    assert quarantined(lake) == gone(lake) == {}
    assert not any("copied" in note for note in lake.notes)
    assert len(lake.equals_source("*.*", "other.*")) == 4


def test_a_dump_that_is_restored_into_its_tables(server: Server, lake: Lake) -> None:
    """It disables the keys of the tables, which changes neither rows nor columns."""
    dump = dumped(server, "--no-create-info", "--replace")
    assert b"/*!40000 ALTER TABLE `codes` DISABLE KEYS */" in dump
    server.execute("UPDATE shop.orders SET v = 3", "UPDATE shop.codes SET v = 3")
    server.run_script(dump, "shop")
    lake.catch_up()
    assert quarantined(lake) == gone(lake) == {}
    assert not any("copied" in note for note in lake.notes)
    assert len(lake.equals_source("*.*", "other.*")) == 4


def test_comments_beside_statements_and_in_them(server: Server, lake: Lake) -> None:
    waits = " WAIT 5" if server.name.startswith("mariadb") else ""
    with server.session("shop") as session:
        session.execute(
            "CREATE TABLE other.orders (id INT COMMENT 'color #fff', -- the id\n v INT)",
            "CREATE TABLE other.points (\n -- the parent\n id INT, FOREIGN KEY (id) REFERENCES shop.orders (id))",
            "-- V12: state\nALTER TABLE orders ADD state INT NULL # nullable",
            "INSERT INTO orders VALUES (3, 3, 3)",
            f"TRUNCATE TABLE lacking{waits} -- nightly",
            "INSERT INTO lacking VALUES (4, 4)",
            "-- reset\nDROP DATABASE away",
            # no server executes the first comment, and only MariaDB the second one
            "ALTER TABLE orders /*!999999 DROP v, */ /*M!100000 DROP state, */ ADD w INT NULL",
            "UPDATE orders SET w = 5",
        )
    lake.catch_up()
    assert quarantined(lake) == {}
    assert list(gone(lake)) == ["away.t"]
    assert not any("copied" in note for note in lake.notes)
    assert lake.equals_source("*.*", "other.*") == ["shop.codes", "shop.lacking", "shop.orders"]
