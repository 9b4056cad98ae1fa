"""Lake tables with the rows of several tables of a server."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import OptionError
from binlake.mirror import absent_tables, history, resync, status, verify
from binlake.mirror.control import Control
from binlake.mirror.followed.table_record import offsets_of, sources
from binlake.mirror.iceberg.lake import IcebergLake
from binlake.mirror.upkeep import compact_tables
from dev.servers import Server, running
from mirror.killed_mirror import Kill, killed
from support.spark.lake_readers import by_pyiceberg, by_spark
from support.spark.mirrored import Lake, gone, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


def compact(lake: Lake, names: list[str]) -> None:
    """Compact the lake tables of these tables."""
    made = lake.mirror()
    made.close()
    catalog, notes = IcebergLake(lake.spark, lake.catalog), list[str]()
    compact_tables(catalog, made._engine, made._indexes, names, notes.append)
    assert any("compacted" in note for note in notes), notes


def rows(lake: Lake, name: str, columns: str) -> list[tuple[Any, ...]]:
    """The rows that Spark and PyIceberg read."""
    found = by_spark(lake.spark, name, columns, lake.catalog)
    assert by_pyiceberg(str(lake.folder), name, columns) == found
    return found


def test_shards_are_merged(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    def run(database: str, *statements: str) -> None:
        with server.session(database) as session:
            session.execute(*statements)

    def make(database: str) -> None:
        with server.session() as session:
            session.execute(f"CREATE DATABASE {database}")
        run(
            database,
            "CREATE TABLE orders (id INT PRIMARY KEY, v INT, note VARCHAR(20))",
            "INSERT INTO orders VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')",
            "CREATE TABLE log (v INT)",
            "INSERT INTO log VALUES (1), (1), (2)",
        )

    make("shard_1")
    make("shard_2")
    lake = Lake(
        iceberg_spark,
        tmp_path,
        server,
        tables=("shard_*.*",),
        shard_tables=("shard_*.*=all.{table}",),
        shard_column="_db",
        partition_tables=("*.orders=identity(_db)",),
    )
    lake.catch_up()
    assert rows(lake, "all.orders", "_db, id")[2:4] == [
        ("shard_1.orders", 3),
        ("shard_2.orders", 1),
    ]
    # the same keys in both; keys move; images without columns; another shard
    run("shard_1", "UPDATE orders SET v = 10 WHERE id = 1", "DELETE FROM orders WHERE id = 2",
        "UPDATE orders SET id = 2 WHERE id = 3", "DELETE FROM log WHERE v = 1 LIMIT 1")  # fmt: skip
    run("shard_2", "SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE orders SET v = 20 WHERE id = 1",
        "SET SESSION binlog_row_image = 'FULL'", "UPDATE log SET v = 3 WHERE v = 2")  # fmt: skip
    make("shard_3")
    names = [f"shard_{n}.{table}" for n in (1, 2, 3) for table in ("log", "orders")]
    assert states(lake) == dict.fromkeys(names, "equal")
    assert rows(lake, "all.orders", "_db, id, v, note") == [
        ("shard_1.orders", 1, 10, "a"),
        ("shard_1.orders", 2, 3, "c"),
        *(("shard_2.orders", *row) for row in ((1, 20, "a"), (2, 2, "b"), (3, 3, "c"))),
        *(("shard_3.orders", *row) for row in ((1, 1, "a"), (2, 2, "b"), (3, 3, "c"))),
    ]

    # a column is added to one shard, and later to another; one is emptied, one dropped
    run("shard_1", "ALTER TABLE orders ADD w BIGINT", "UPDATE orders SET w = 5 WHERE id = 1")
    run("shard_2", "UPDATE orders SET v = 21 WHERE id = 1", "TRUNCATE log")
    run("shard_3", "DROP TABLE log")
    lake.catch_up()
    assert Counter(db for (db,) in rows(lake, "all.log", "_db")) == {"shard_1.log": 2}
    run("shard_2", "ALTER TABLE orders ADD w INT FIRST", "UPDATE orders SET w = 6 WHERE id = 1",
        "INSERT INTO log VALUES (9)")  # fmt: skip
    lake.catch_up()
    assert quarantined(lake) == {}
    assert rows(lake, "all.orders", "_db, id, w")[:3] == [
        ("shard_1.orders", 1, 5),
        ("shard_1.orders", 2, None),
        ("shard_2.orders", 1, 6),
    ]
    run("shard_2", "ALTER TABLE orders MODIFY w BIGINT")
    names.remove("shard_3.log")
    assert states(lake) == dict.fromkeys(names, "equal")
    compact(lake, ["shard_2.orders"])
    assert states(lake) == dict.fromkeys(names, "equal")
    found = status(lake.folder, spark=iceberg_spark, catalog=lake.catalog).tables
    assert [(t.table, t.rows, t.deleted_rows, t.shards) for t in found] == [
        ("all.log", 3, found[0].deleted_rows, ("shard_1.log", "shard_2.log")),
        ("all.orders", 8, 0, ("shard_1.orders", "shard_2.orders", "shard_3.orders")),
    ]

    # the names that `status` lists are those of lake tables
    in_lake: dict[str, Any] = {"spark": iceberg_spark, "catalog": lake.catalog}
    is_merged = (
        r"^all\.orders is merged from shard_1\.orders, shard_2\.orders, shard_3\.orders; name "
    )
    for of_lake in (verify, resync):
        for name in ("all.orders", "all.or*"):
            with pytest.raises(OptionError, match=is_merged):
                of_lake(lake.folder, [name], **in_lake)
    with pytest.raises(OptionError, match=is_merged):
        compact(lake, ["all.orders"])

    # a shard that no longer agrees is left alone, until all do
    run("shard_1", "ALTER TABLE orders DROP note")
    run("shard_3", "UPDATE orders SET v = 30 WHERE id = 1")
    lake.catch_up()
    assert "that other shards" in quarantined(lake)["shard_1.orders"]
    [newest] = history(lake.folder, newest=1, **in_lake)
    assert newest.snapshots.keys() == {"all.log"}, "all.orders has old rows of shard_1"
    assert absent_tables(lake.folder, newest, **in_lake) == ["all.orders"]
    assert rows(lake, "all.orders", "_db, id, v")[5] == ("shard_3.orders", 1, 30)
    for database, change in (("shard_2", "DROP note"), ("shard_3", "DROP note, ADD w BIGINT")):
        run(database, f"ALTER TABLE orders {change}")
    lake.catch_up()
    shards = {f"shard_{n}.orders" for n in (1, 2, 3)}
    assert quarantined(lake).keys() == shards
    catalog = IcebergLake(iceberg_spark, lake.catalog)
    Control(catalog, None, None).request_resync(shards)
    assert states(lake) == dict.fromkeys(names, "equal")
    [newest] = history(lake.folder, newest=1, **in_lake)
    assert newest.snapshots.keys() == {"all.log", "all.orders"}

    other = Lake(iceberg_spark, lake.folder, server, tables=("shard_*.*",))
    other.catalog = lake.catalog
    with pytest.raises(OptionError, match="the shard column of its lake table is _db"):
        other.catch_up()
    Control(catalog, None, None).request_resync(set(names))
    other.catch_up()
    assert sorted(other.equals_source("shard_*.*")) == names
    # the last shard takes the merged table away, unless it has tags
    assert {name for name in catalog.tables() if name[0] == "all"} == {("all", "log")}
    tags = catalog.load("all", "log").tags()
    assert sorted(tag.partition("-binlog")[0] for tag in tags) == ["before-drop", "before-truncate"]


def test_shards_that_the_server_drops_while_they_are_not_followed(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """One is in quarantine, and one is to be copied again when its database is dropped."""
    databases = ("gone_1", "gone_2", "gone_3")
    with server.session() as session:
        for database in databases:
            session.execute(
                f"CREATE DATABASE {database}",
                f"CREATE TABLE {database}.orders (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO {database}.orders VALUES (1, 1), (2, 2)",
            )
    lake = Lake(
        iceberg_spark, tmp_path, server, tables=("gone_*.*",), shard_tables=("gone_*.*=all.{table}",),
        on_alter_tables=("gone_2.*=resync",),
    )  # fmt: skip
    lake.catch_up()
    server.execute("ALTER TABLE gone_1.orders DROP COLUMN v")
    lake.catch_up()
    assert quarantined(lake).keys() == {"gone_1.orders"}
    server.execute(
        "DROP DATABASE gone_1",
        "ALTER TABLE gone_2.orders DROP COLUMN v",
        "DROP DATABASE gone_2",
        "INSERT INTO gone_3.orders VALUES (3, 3)",
    )
    lake.catch_up()
    left = [(name, key) for name in ("gone_1.orders", "gone_3.orders") for key in (1, 2)]
    left.append(("gone_3.orders", 3))
    assert rows(lake, "all.orders", "_source, id") == left
    assert quarantined(lake).keys() == {"gone_1.orders"}
    catalog = IcebergLake(iceberg_spark, lake.catalog)
    Control(catalog, None, None).request_resync({"gone_1.orders"})
    lake.catch_up()
    assert rows(lake, "all.orders", "_source, id") == left[2:]
    assert (quarantined(lake), gone(lake)) == ({}, {})
    assert lake.notes[-1] == (
        "gone_1.orders: the server has no such table; its rows in all.orders were removed"
    )
    merged = catalog.load("all", "orders")
    assert sources(merged.describe()["properties"]).keys() == {"gone_3.orders"}
    assert sum(tag.startswith("before-drop-") for tag in merged.tags()) == 2
    server.execute("INSERT INTO gone_3.orders VALUES (4, 4)")
    assert states(lake) == {"gone_3.orders": "equal"}


def test_the_rows_of_a_removed_shard_stay(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Also if the columns of the last shard change, so that its copy would need another lake table."""
    with server.session() as session:
        for database in ("kept_1", "kept_2"):
            session.execute(
                f"CREATE DATABASE {database}",
                f"CREATE TABLE {database}.orders (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO {database}.orders VALUES (1, 1), (2, 2)",
            )
    lake = Lake(
        iceberg_spark, tmp_path, server, tables=("kept_*.*",), shard_tables=("kept_*.*=all.{table}",), on_alter="resync"
    )  # fmt: skip
    lake.catch_up()
    control = Control(IcebergLake(iceberg_spark, lake.catalog), None, None)
    control.remove_tables({"kept_1.orders"}, {"kept_1.orders"})
    server.execute("DROP DATABASE kept_1", "ALTER TABLE kept_2.orders DROP COLUMN v")
    lake.catch_up()
    assert "also contains the rows of kept_1.orders" in quarantined(lake)["kept_2.orders"]
    control.request_resync({"kept_2.orders"})
    lake.catch_up()
    assert "also contains the rows of kept_1.orders" in quarantined(lake)["kept_2.orders"]
    databases = ("kept_1.orders", "kept_2.orders")
    assert rows(lake, "all.orders", "_source, id, v") == [
        (name, key, key) for name in databases for key in (1, 2)
    ]


def test_each_change_once_through_kills(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """Kills between the commits of two shards of a table in which a change that is made twice is seen."""
    for number in (1, 2, 3):
        server.execute(f"CREATE DATABASE part_{number}")
        server.execute(f"CREATE TABLE part_{number}.log (v INT)")
    server.execute("CREATE TABLE part_1.keyed (a INT, b INT, PRIMARY KEY (a, b))")
    server.execute("CREATE TABLE part_2.keyed (a INT, b INT, PRIMARY KEY (a))")
    server.execute("INSERT INTO part_1.log VALUES (1), (1), (2)")
    server.execute("INSERT INTO part_2.log VALUES (1), (1), (2)")  # the third is empty
    lake = Lake(
        iceberg_spark,
        tmp_path,
        server,
        tables=("part_*.*",),
        shard_tables=("part_*.*=all.{table}",),
    )
    lake.catch_up()
    assert quarantined(lake).keys() == {"part_2.keyed"}
    assert "key or options" in quarantined(lake)["part_2.keyed"]

    with server.session("part_1") as session:
        session.execute("BEGIN", "INSERT INTO log VALUES (5), (5)", "DELETE FROM log WHERE v = 1 LIMIT 1",
            "INSERT INTO part_2.log VALUES (6), (6)", "DELETE FROM part_2.log WHERE v = 1 LIMIT 1",
            "INSERT INTO part_3.log VALUES (7)", "COMMIT")  # fmt: skip
    old = {"part_1.log": [1, 1, 2], "part_2.log": [1, 1, 2], "part_3.log": []}
    new = {"part_1.log": [1, 2, 5, 5], "part_2.log": [1, 2, 6, 6], "part_3.log": [7]}
    catalog = IcebergLake(iceberg_spark, lake.catalog)
    for done in (1, 2):
        assert killed(lake, Kill("commit", 1, after=True)) == -signal.SIGKILL
        found = by_shard(lake)
        changed = [name for name in new if found.get(name, []) == new[name]]
        same = [name for name in old if found.get(name, []) == old[name]]
        assert (len(changed), len(same)) == (done, 3 - done)
        offsets = offsets_of(catalog.load("all", "log").describe()["summary"])
        assert offsets.keys() == new.keys()
        assert len({offset.key for offset in offsets.values()}) == 2

        if done == 1:
            compact(lake, same)
            assert offsets_of(catalog.load("all", "log").describe()["summary"]) == offsets
            assert by_shard(lake) == found
    assert killed(lake, Kill("row of a round", 1, after=False)) == -signal.SIGKILL
    assert by_shard(lake) == new
    lake.catch_up()
    assert by_shard(lake) == new
    expected = {"part_1.keyed": "equal", **dict.fromkeys(new, "equal")}
    assert {name: state for name, state in states(lake).items() if state == "equal"} == expected


def by_shard(lake: Lake) -> dict[str, list[int]]:
    """The values in `log`, sorted."""
    found: dict[str, list[int]] = {}
    for shard, value in by_spark(lake.spark, "all.log", "_source, v", lake.catalog):
        found.setdefault(shard, []).append(value)
    return {shard: sorted(values) for shard, values in found.items()}
