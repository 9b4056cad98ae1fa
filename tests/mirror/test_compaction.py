"""Compaction beside rounds: the table stays what it is, and a scan reads little more than its rows."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import copy
from typing import Any

import pyarrow as pa
import pytest

from binlake.errors import SourceError
from binlake.mirror import compact
from binlake.mirror.control import OFFSET, Control
from binlake.mirror.iceberg.cleaning import expire_tags
from binlake.mirror.iceberg.lake import IcebergLake
from binlake.mirror.tables.change import Change
from binlake.mirror.tables.compaction_policy import CompactionPolicy, all_groups, due_groups
from binlake.mirror.tables.formats import NewTable
from dev.servers import Server, running
from support.spark.lake_readers import by_pyiceberg, by_spark
from support.spark.mirrored import Lake, Writer, iceberg_table, quarantined, states

pytestmark = pytest.mark.lakes

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("amount", pa.decimal128(12, 2))])
ROUNDS = int(os.environ.get("BINLAKE_MIRROR_ROUNDS", "40"))
POLICY = CompactionPolicy(files=4)


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


def rows(values: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(values, SCHEMA)


def folder(spark: Any) -> str:
    return str(spark.conf.get("test.lake"))


@pytest.mark.parametrize("deletes", ["vectors", "position"])
@pytest.mark.parametrize("key", [("id",), ("name", "id"), ()])
def test_changes_made_during_a_rewrite(
    iceberg_spark: Any, tmp_path: Path, deletes: Any, key: tuple[str, ...]
) -> None:
    """Each rewrite begins in one round and is committed rounds later."""
    rng = random.Random(3)
    name = f"compacted_{deletes}_{len(key)}"
    lake = IcebergLake(iceberg_spark, "lake")
    table = lake.create_table("db", name, NewTable(SCHEMA, key, deletes), tmp_path)
    truth: dict[int, dict[str, Any]] = {}
    pending: list[Any] = []
    compacted = 0
    for number in range(ROUNDS):
        ids = rng.sample(range(300), 60)
        gone = [truth.pop(i) for i in (ids if not key else ids[:20]) if i in truth]
        new: list[dict[str, Any]] = [
            {"id": i, "name": f"n{i}", "amount": rng.randint(0, 99)}
            for i in (range(0) if number == ROUNDS - 1 else ids[20:])
        ]
        truth.update({row["id"]: row for row in new})
        old = pa.Table.from_pylist(gone, SCHEMA)
        table.commit(Change(rows(new), old.select(list(key)) if key else old), {"n": str(number)})
        if number % 3 == 2:
            assert table.commit_rewrites(pending, {"n": str(number)}) == sum(
                len(one.deleted) for one in pending
            )
            compacted += len(pending)
        if number % 3 == 0:
            orders = [table.rewrite_of(group) for group in due_groups(table.files.states(), POLICY)]
            pending = [order.done(json_of(order)) for order in orders]
        if number in (7, 8):
            table = lake.open_table("db", name, key, tmp_path)
    assert compacted > ROUNDS // 12
    expected = sorted((tuple(rows([r]).to_pylist()[0].values()) for r in truth.values()), key=repr)
    assert by_spark(iceberg_spark, f"db.{name}", "id, name, amount") == expected
    assert by_pyiceberg(folder(iceberg_spark), f"db.{name}", "id, name, amount") == expected
    assert len(table.files.rows) < 20
    assert table.files.most_delete_lists() < ROUNDS // 2
    # wholly, with nothing left of what is deleted
    [groups] = all_groups(table.files.states(), POLICY)
    orders = [table.rewrite_of(group) for group in groups]
    table.commit_rewrites([order.done(json_of(order)) for order in orders], {})
    assert (len(table.files.rows), table.deleted, table.files.most_delete_lists()) == (1, 0, 0)
    assert by_spark(iceberg_spark, f"db.{name}", "id, name, amount") == expected
    assert by_pyiceberg(folder(iceberg_spark), f"db.{name}", "id, name, amount") == expected
    assert sorted(pa.concat_tables(table.scan())["id"].to_pylist()) == sorted(truth)


def json_of(order: Any) -> Any:
    return json.loads(order.task().run())


def test_a_rewrite_of_files_that_are_gone_is_left_out(iceberg_spark: Any, tmp_path: Path) -> None:
    lake = IcebergLake(iceberg_spark, "lake")
    table = lake.create_table("db", "emptied", NewTable(SCHEMA, ("id",)), tmp_path)
    for number in range(4):
        table.commit(Change(rows([{"id": number, "name": "a", "amount": 1}])), {})
    [groups] = all_groups(table.files.states(), POLICY)
    orders = [table.rewrite_of(group) for group in groups]
    done = [order.done(json_of(order)) for order in orders]
    table.commit(Change(truncate=True), {})
    table.commit(Change(rows([{"id": 9, "name": "a", "amount": 1}])), {})
    assert table.commit_rewrites(done, {}) == 0
    assert by_spark(iceberg_spark, "db.emptied", "id") == [(9,)]


def test_orphans_of_killed_runs_and_expired_snapshots(iceberg_spark: Any, tmp_path: Path) -> None:
    """Files that a snapshot knows stay, also those of a tag; others' files stay, too."""
    lake = IcebergLake(iceberg_spark, "lake")
    table = lake.create_table("db", "orphans", NewTable(SCHEMA, ("id",)), tmp_path)
    for number in range(4):
        table.commit(Change(rows([{"id": number % 2, "name": "a", "amount": number}])), {})
    table.stored.tag("kept")
    here = Path(folder(iceberg_spark), "db", "orphans")
    before = {path.name for path in here.rglob("*.*") if path.is_file()}
    orphans = {"binlake-0.parquet", "binlake-deletes-0.puffin", "others.parquet"}
    for name in orphans:
        (here / "data" / name).write_bytes(b"x")
    (here / "metadata" / "snap-1-1-orphan.avro").write_bytes(b"x")
    assert table.stored.remove_orphans("binlake-", 1000) == 0, "none is so old"
    other = lake.create_table("db", "renamed", NewTable(SCHEMA, ("id",)), tmp_path / "renamed")
    other.commit(Change(rows([{"id": 1, "name": "a", "amount": 1}])), {})
    [newest, *_] = sorted(here.parent.glob("renamed/metadata/*.json"), reverse=True)
    shared = here / "metadata" / "00001-of-another.metadata.json"
    copy(newest, shared)
    with pytest.raises(SourceError, match="also contains the metadata of another table"):
        table.stored.remove_orphans("binlake-", int(time.time() * 1000) + 60_000)
    shared.unlink()
    assert table.stored.remove_orphans("binlake-", int(time.time() * 1000) + 60_000) == 3
    assert {path.name for path in here.rglob("*.*") if path.is_file()} == before | {
        "others.parquet"
    }
    for number in range(5):
        table.commit(Change(rows([{"id": 5, "name": "a", "amount": number}])), {})
    table.stored.expire(0, 1, 3)
    assert len(table.stored.history()) == 4, "three, and the one with a tag"
    assert len(by_spark(iceberg_spark, "db.orphans", "id")) == 3
    [groups] = all_groups(table.files.states(), POLICY)
    orders = [table.rewrite_of(group) for group in groups]
    table.commit_rewrites([order.done(json_of(order)) for order in orders], {})
    table.stored.expire(int(time.time() * 1000) + 60_000, 1, 3)
    assert table.stored.remove_orphans("binlake-", int(time.time() * 1000) + 60_000) == 0
    found = iceberg_spark.sql("SELECT id, amount FROM lake.db.orphans VERSION AS OF 'kept'")
    assert sorted((row.id, int(row.amount)) for row in found.collect()) == [(0, 2), (1, 3)]


def test_the_newest_snapshot_of_the_mirror_does_not_expire(
    iceberg_spark: Any, tmp_path: Path
) -> None:
    """Its summary has the position from which the mirror continues, also if another program has committed since."""
    lake = IcebergLake(iceberg_spark, "lake")
    table = lake.create_table("db", "places", NewTable(SCHEMA, ("id",)), tmp_path)
    for number in range(3):
        change = Change(rows([{"id": number, "name": "a", "amount": 1}]))
        table.commit(change, {OFFSET: str(number)})
    for number in range(30):
        table.commit(Change(rows([{"id": 9, "name": "a", "amount": number}])), {})
    table.stored.expire(int(time.time() * 1000) + 60_000, 20, 1000, OFFSET)
    found = [one["summary"].get(OFFSET) for one in table.stored.history()]
    assert [place for place in found if place] == ["2"]
    assert len(found) == 31
    table.commit(Change(rows([{"id": 1, "name": "a", "amount": 1}])), {OFFSET: "3"})
    table.stored.expire(int(time.time() * 1000) + 60_000, 1, 1, OFFSET)
    assert len(table.stored.history()) == 1


def test_few_snapshots_do_not_expire_each_minute(iceberg_spark: Any, tmp_path: Path) -> None:
    """Each expiry is a commit. They go when they are many, or old, or the table has too many."""
    lake = IcebergLake(iceberg_spark, "lake")
    table = lake.create_table("db", "few", NewTable(SCHEMA, ("id",)), tmp_path)
    for number in range(12):
        table.commit(Change(rows([{"id": number, "name": "a", "amount": 1}])), {})
    first_ms = min(one["committed_ms"] for one in table.stored.history())
    kept = []
    for most, least in ((1000, 20), (12, 20), (11, 20), (1000, 1)):
        table.stored.expire(first_ms + 1, 3, most, "", least)
        kept.append(len(table.stored.history()))
    assert kept == [12, 12, 11, 11]
    [second_ms, *_] = sorted(one["committed_ms"] for one in table.stored.history())
    table.stored.expire(second_ms + 1, 3, 1000, "", 1)
    assert len(table.stored.history()) == 10
    # the mirror continues from its newest snapshot; and the oldest ones are twice as old as 1 ms by now
    table.commit(Change(rows([{"id": 1, "name": "a", "amount": 2}])), {OFFSET: "1"})
    table.commit(Change(rows([{"id": 1, "name": "a", "amount": 3}])), {OFFSET: "2"})
    while int(time.time() * 1000) - 2 <= max(one["committed_ms"] for one in table.stored.history()):
        pass
    table.stored.expire(int(time.time() * 1000) - 1, 3, 1000, OFFSET, 20)
    assert len(table.stored.history()) == 3


def test_tags_expire_when_they_were_seen_for_long_enough(
    iceberg_spark: Any, tmp_path: Path
) -> None:
    """The snapshot of a tag may be older than the statement: its own age does not count."""
    lake = IcebergLake(iceberg_spark, "lake")
    table = lake.create_table("db", "tagged", NewTable(SCHEMA, ("id",)), tmp_path)
    table.commit(Change(rows([{"id": 1, "name": "a", "amount": 1}])), {})
    for tag in ("before-truncate-binlog.000001-4", "of-others"):
        table.stored.tag(tag)
    table.commit(Change(truncate=True), {})
    later = time.time() + 1000
    assert expire_tags(table.stored, 60, later) == [], "it is new to the mirror"
    assert expire_tags(table.stored, 60, later + 59) == []
    table.commit(Change(rows([{"id": 2, "name": "a", "amount": 1}])), {})
    table.stored.tag("before-drop-binlog.000001-9")
    assert expire_tags(table.stored, 60, later + 61) == ["before-truncate-binlog.000001-4"]
    assert sorted(table.stored.tags()) == ["before-drop-binlog.000001-9", "of-others"]
    assert expire_tags(table.stored, 60, later + 200) == ["before-drop-binlog.000001-9"]
    table.commit(Change(rows([{"id": 3, "name": "a", "amount": 1}])), {})
    assert by_spark(iceberg_spark, "db.tagged", "id") == [(2,), (3,)]


@pytest.mark.parametrize("deletes", ["vectors", "position"])
def test_expiry_keeps_files_that_hold_deletes_of_several_data_files(
    iceberg_spark: Any, tmp_path: Path, deletes: Any
) -> None:
    """The position deletes of a commit share a file; each deletion vector has one. They are replaced one by one."""
    lake = IcebergLake(iceberg_spark, "lake")
    name = f"expired_{deletes}"
    table = lake.create_table("db", name, NewTable(SCHEMA, ("id",), deletes), tmp_path)
    for start in (0, 10):
        table.commit(
            Change(rows([{"id": start + i, "name": "a", "amount": 1} for i in range(10)])), {}
        )
    table.commit(Change(deletes=ids(1, 11)), {})
    table.commit(Change(deletes=ids(2)), {})  # the vector of the first data file has gone
    for number in range(4):
        table.commit(Change(rows([{"id": 100 + number, "name": "b", "amount": 1}])), {})
        table.stored.expire(int(time.time() * 1000) + 60_000, 1, 1)
    here = Path(folder(iceberg_spark), "db", name, "data")
    assert len(table.stored.history()) == 1
    left = [(i,) for i in (0, *range(3, 11), *range(12, 20), 100, 101, 102, 103)]
    left.sort(key=repr)
    assert by_spark(iceberg_spark, f"db.{name}", "id") == left
    assert by_pyiceberg(folder(iceberg_spark), f"db.{name}", "id") == left
    again = lake.open_table("db", name, ("id",), tmp_path / "index")
    assert (again.rows, again.deleted) == (len(left), 3)
    # once no vector of it is left, the file goes
    again.commit(Change(deletes=ids(12)), {})
    for number in range(2):
        again.commit(Change(rows([{"id": 200 + number, "name": "b", "amount": 1}])), {})
        again.stored.expire(int(time.time() * 1000) + 60_000, 1, 1)
    if deletes == "vectors":
        assert len(list(here.glob("*.puffin"))) == 2
    assert again.stored.remove_orphans("binlake-", int(time.time() * 1000) + 60_000) == 0


@pytest.mark.parametrize("deletes", ["vectors", "position"])
def test_expiry_beside_a_tag_keeps_files_of_deletes_that_are_in_force(
    iceberg_spark: Any, tmp_path: Path, deletes: Any
) -> None:
    """The snapshot of a tag may be older than such a file, which it does not have."""
    lake = IcebergLake(iceberg_spark, "lake")
    name = f"tagged_{deletes}"
    table = lake.create_table("db", name, NewTable(SCHEMA, ("id",), deletes), tmp_path)
    for start in (0, 10):
        table.commit(
            Change(rows([{"id": start + i, "name": "a", "amount": 1} for i in range(10)])), {}
        )
    table.stored.tag("kept")
    table.commit(Change(deletes=ids(1, 11)), {})
    table.commit(Change(deletes=ids(2)), {})  # the vector of the first data file has gone
    for number in range(4):
        table.commit(Change(rows([{"id": 100 + number, "name": "b", "amount": 1}])), {})
        table.stored.expire(int(time.time() * 1000) + 60_000, 1, 1)
    assert len(table.stored.history()) == 2, "the newest, and the one with a tag"
    left = [(i,) for i in (0, *range(3, 11), *range(12, 20), 100, 101, 102, 103)]
    left.sort(key=repr)
    assert by_spark(iceberg_spark, f"db.{name}", "id") == left
    assert by_pyiceberg(folder(iceberg_spark), f"db.{name}", "id") == left
    kept = iceberg_spark.sql(f"SELECT id FROM lake.db.{name} VERSION AS OF 'kept'").collect()
    assert sorted(row.id for row in kept) == list(range(20))


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int32())})


@pytest.mark.server
@pytest.mark.parametrize("deletes", ["vectors", "position"])
def test_rounds_with_compaction_beside_them(
    server: Server, iceberg_spark: Any, tmp_path: Path, deletes: str
) -> None:
    """A round for each transaction, and what compaction is due meanwhile."""
    server.execute("CREATE DATABASE shop")
    with server.session("shop") as session:
        session.execute(
            "CREATE TABLE keyed (id INT PRIMARY KEY, v INT, t VARCHAR(20) CHARACTER SET utf8mb4)",
            "CREATE TABLE keyless (v INT, t VARCHAR(20))",
            "CREATE TABLE idle (id INT PRIMARY KEY)",
            "INSERT INTO idle VALUES (1), (2)",
            "INSERT INTO keyed VALUES " + ", ".join(f"({i}, 0, 'a')" for i in range(2000)),
        )
    lake = Lake(
        iceberg_spark, tmp_path, server, tables=("shop.*",), deletes=deletes,
        round_bytes=1, compact_files=4, max_snapshots=30,
    )  # fmt: skip
    lake.catch_up()
    Writer(server, random.Random(5)).write(ROUNDS)
    lake.catch_up()
    compactions = [note for note in lake.notes if "data files compacted" in note]
    assert len(compactions) >= 2, lake.notes
    assert not [note for note in lake.notes if "not compacted" in note]
    assert quarantined(lake) == {}
    assert lake.equals_source("shop.*") == ["shop.idle", "shop.keyed", "shop.keyless"]
    made = lake.mirror()
    made.run(once=True)
    made.tidy()
    held = {name: list(iceberg_table(table).files.states()) for name, table in made.tables.items()}
    made.close()
    took = scan_s(lake)
    compact(tmp_path, spark=iceberg_spark, catalog=lake.catalog)
    assert lake.equals_source("shop.*") == ["shop.idle", "shop.keyed", "shop.keyless"]
    made = lake.mirror()
    made.run(once=True)
    for name, table in made.tables.items():
        merged = iceberg_table(table)
        assert (len(merged.files.rows), merged.deleted) == (1, 0)
        assert len(held[name]) < 16
        assert (
            sum(file.bytes for file in held[name])
            < 2 * sum(file.bytes for file in merged.files.states()) + 16 * 1500
        ), name
        assert len(merged.stored.history()) <= 31
    made.close()
    if ROUNDS >= 1000:
        assert took < 2 * scan_s(lake), (
            "a scan takes at most twice as long as of the compacted table"
        )
    # what comes after finds the rows where they are now
    with server.session("shop") as session:
        session.execute("UPDATE keyed SET v = v + 1", "DELETE FROM keyless LIMIT 5")
        session.execute("DELETE FROM idle WHERE id = 1")
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source("shop.*") == ["shop.idle", "shop.keyed", "shop.keyless"]
    server.execute("DROP DATABASE shop")


def test_verify_leaves_requests_to_compact_to_the_mirror(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    server.execute(
        "CREATE DATABASE asked",
        "CREATE TABLE asked.t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO asked.t VALUES (1, 1), (2, 2)",
    )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("asked.*",), compact="off")
    lake.catch_up()
    server.execute("UPDATE asked.t SET v = 9 WHERE id = 1")
    lake.catch_up()
    control = Control(IcebergLake(iceberg_spark, lake.catalog), None, None)
    control.request_compaction({"asked.t"})
    assert states(lake) == {"asked.t": "equal"}
    control.refresh()
    assert control.to_compact == {"asked.t"}
    made = lake.mirror()
    made.run(once=True)
    made.tidy()
    [table] = map(iceberg_table, made.tables.values())
    assert (len(table.files.rows), table.deleted) == (1, 0)
    made.close()
    control.refresh()
    assert control.to_compact == set()
    server.execute("DROP DATABASE asked")


def scan_s(lake: Lake) -> float:
    """The shortest of some scans, in seconds."""
    times = []
    for _ in range(5 if ROUNDS >= 1000 else 1):
        began = time.perf_counter()
        lake.spark.sql(f"SELECT sum(v), max(t), count(*) FROM {lake.catalog}.shop.keyed").collect()
        times.append(time.perf_counter() - began)
    return min(times)
