"""Commits of a mirrored table: what Spark, PyIceberg and DuckDB read after random changes."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from binlake.errors import IncompleteError, UnsupportedError
from binlake.mirror.iceberg.lake import IcebergLake
from binlake.mirror.table_rules import parse_partition
from binlake.mirror.tables.change import Change, CommitConflictError
from binlake.mirror.tables.damage import MissingFileError
from binlake.mirror.tables.formats import NewTable
from support.spark.lake_readers import by_duckdb_iceberg, by_pyiceberg, by_spark

pytestmark = pytest.mark.lakes

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("amount", pa.decimal128(12, 2))])


@pytest.fixture(scope="module")
def lake(iceberg_spark: Any) -> IcebergLake:
    return IcebergLake(iceberg_spark, "lake")


def rows(values: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(values, SCHEMA)


def folder(spark: Any) -> str:
    return str(spark.conf.get("test.lake"))


@pytest.mark.parametrize("deletes", ["vectors", "position"])
@pytest.mark.parametrize("key", [("id",), ("name", "id")])
def test_random_changes_by_key(
    lake: IcebergLake, iceberg_spark: Any, tmp_path: Path, deletes: Any, key: tuple[str, ...]
) -> None:
    rng = random.Random(7)
    name = f"keyed_{deletes}_{len(key)}"
    table = lake.create_table("db", name, NewTable(SCHEMA, key, deletes), tmp_path)
    truth: dict[int, dict[str, Any]] = {}
    for number in range(12):
        ids = rng.sample(range(300), 60)
        gone = [truth.pop(i) for i in ids[:20] if i in truth]
        new: list[dict[str, Any]] = [
            {"id": i, "name": f"n{i}", "amount": rng.randint(0, 99)} for i in ids[20:]
        ]
        truth.update({row["id"]: row for row in new})
        keys = pa.Table.from_pylist(gone, SCHEMA).select(list(key))
        table.commit(Change(rows(new), keys), {"binlake.round": str(number)})
        if number == 5:  # as after a kill, with and without what the index wrote
            table = lake.open_table("db", name, key, tmp_path / "lost")
    expected = sorted((tuple(rows([r]).to_pylist()[0].values()) for r in truth.values()), key=repr)
    assert by_spark(iceberg_spark, f"db.{name}", "id, name, amount") == expected
    here = folder(iceberg_spark)
    assert by_pyiceberg(here, f"db.{name}", "id, name, amount") == expected
    assert by_duckdb_iceberg(here, f"db.{name}", "id, name, amount", tmp_path) == expected
    assert table.rows == len(truth)
    vectors = [one["file-path"] for one in table.files.vectors.values()]
    assert len(set(vectors)) == len(
        vectors
    )  # DuckDB 1.5.5 counted wrong rows where vectors shared a file
    assert bool(vectors) is (deletes == "vectors")
    assert sorted(pa.concat_tables(table.scan())["id"].to_pylist()) == sorted(truth)
    assert table.summary["binlake.round"] == "11"


def test_rows_without_a_key_are_a_multiset(
    lake: IcebergLake, iceberg_spark: Any, tmp_path: Path
) -> None:
    table = lake.create_table("db", "keyless", NewTable(SCHEMA, ()), tmp_path)
    one = {"id": 1, "name": None, "amount": 1}
    table.commit(Change(rows([one, one, one, {**one, "name": ""}])), {})
    table.commit(Change(rows([{**one, "id": 2}]), rows([one, one])), {})
    found = by_spark(iceberg_spark, "db.keyless", "id, name")
    assert found == [(1, ""), (1, None), (2, None)]
    with pytest.raises(IncompleteError, match="2 rows are deleted, but the lake has only 1"):
        table.commit(Change(None, rows([one, one])), {})
    assert by_spark(iceberg_spark, "db.keyless", "id, name") == found


def test_another_writers_commit_is_noticed(
    lake: IcebergLake, iceberg_spark: Any, tmp_path: Path
) -> None:
    table = lake.create_table("db", "shared", NewTable(SCHEMA, ("id",)), tmp_path)
    table.commit(Change(rows([{"id": i, "name": "a", "amount": 0} for i in range(9)])), {})
    iceberg_spark.sql("DELETE FROM lake.db.shared WHERE id < 3")
    change = Change(rows([{"id": 5, "name": "b", "amount": 0}]))
    with pytest.raises(CommitConflictError, match="another writer"):
        table.commit(change, {})
    table.reload()
    table.commit(change, {})
    found = by_spark(iceberg_spark, "db.shared", "id, name")
    assert found == [(3, "a"), (4, "a"), (5, "b"), (6, "a"), (7, "a"), (8, "a")]


def test_structure_and_rows_that_are_there(
    lake: IcebergLake, iceberg_spark: Any, tmp_path: Path
) -> None:
    table = lake.create_table("db", "changing", NewTable(SCHEMA, ("id",)), tmp_path)
    table.commit(Change(rows([{"id": i, "name": "a", "amount": 0} for i in range(4)])), {})
    added = {
        "type": "struct",
        "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}],
    }
    steps: list[list[dict[str, Any]]] = [
        [{"do": "rename", "name": "amount", "to": "total"}],
        [{"do": "add", "name": "more", "schema": added}, {"do": "first", "name": "more"}],
        [{"do": "drop", "name": "name"}],
    ]
    table.commit(Change(schema=steps), {})
    assert table.schema.names == ["more", "id", "total"]
    new = pa.table(
        {"id": [2, 9], "more": [20, 90], "total": pa.array([1, 2], pa.decimal128(12, 2))}
    )
    table.commit(Change(new, pa.table({"id": [0]})), {})
    assert by_spark(iceberg_spark, "db.changing", "id, more") == [
        (1, None),
        (2, 20),
        (3, None),
        (9, 90),
    ]
    where, found = table.rows_of(pa.table({"id": [9, 0, 1]}))
    assert [None if at < 0 else found["more"][int(at)].as_py() for at in where] == [90, None, None]
    assert where[1] == -1
    table.commit(Change(truncate=True), {})
    assert by_spark(iceberg_spark, "db.changing", "id") == []
    table.commit(Change(new), {})
    assert by_spark(iceberg_spark, "db.changing", "id") == [(2,), (9,)]


def test_a_user_drops_the_partition_fields(
    lake: IcebergLake, iceberg_spark: Any, tmp_path: Path
) -> None:
    new_table = NewTable(SCHEMA, ("id",), partition=parse_partition("name"))
    table = lake.create_table("db", "flat", new_table, tmp_path)
    table.commit(Change(rows([{"id": i, "name": "a", "amount": 0} for i in range(4)])), {})
    iceberg_spark.sql("ALTER TABLE lake.db.flat DROP PARTITION FIELD name")
    table = lake.open_table("db", "flat", ("id",), tmp_path)
    new = rows([{"id": i, "name": "b", "amount": 0} for i in (3, 9)])
    table.commit(Change(new, pa.table({"id": pa.array([0], pa.int32())})), {})
    table.commit(Change(new), {})
    assert by_spark(iceberg_spark, "db.flat", "id, name") == [
        (1, "a"),
        (2, "a"),
        (3, "b"),
        (9, "b"),
    ]


@pytest.mark.parametrize("added", ["price", "place.file", "day(at)"])
def test_a_user_adds_a_partition_field(
    lake: IcebergLake, iceberg_spark: Any, tmp_path: Path, added: str
) -> None:
    """Iceberg also allows fields that the mirror does not write."""
    of_place = pa.struct([("file", pa.string())])
    kinds = {"id": pa.int32(), "price": pa.float64(), "place": of_place, "at": pa.timestamp("us")}
    schema = pa.schema(list(kinds.items()))
    name = f"widened_by_{added[:2]}"
    table = lake.create_table("db", name, NewTable(schema, ("id",)), tmp_path)
    row = {"id": 1, "price": 1.5, "place": {"file": "a"}, "at": datetime(2026, 1, 2)}
    table.commit(Change(pa.Table.from_pylist([row], schema)), {})
    iceberg_spark.sql(f"ALTER TABLE lake.db.{name} ADD PARTITION FIELD {added}")
    if added != "day(at)":
        with pytest.raises(UnsupportedError, match="which the mirror does not write"):
            lake.open_table("db", name, ("id",), tmp_path)
        return
    table = lake.open_table("db", name, ("id",), tmp_path)
    table.commit(Change(pa.Table.from_pylist([row | {"price": 2.5}], schema)), {})
    assert by_spark(iceberg_spark, f"db.{name}", "id, price") == [(1, 2.5)]


def test_equality_deletes_that_apply_to_the_files_of_all_partitions(
    lake: IcebergLake, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Upserts of Flink, after a user has dropped the partition field: their files have another spec than the rows."""
    new_table = NewTable(SCHEMA, ("id",), "position", partition=parse_partition("name"))
    table = lake.create_table("db", "upserted", new_table, tmp_path)
    table.commit(Change(rows([{"id": 1, "name": "a", "amount": 0}])), {})
    iceberg_spark.sql("ALTER TABLE lake.db.upserted DROP PARTITION FIELD name")
    table = lake.open_table("db", "upserted", ("id",), tmp_path)
    _add_equality_delete(iceberg_spark, table.stored._table)
    with pytest.raises(UnsupportedError, match="does not support equality deletes"):
        table.reload()
    with pytest.raises(UnsupportedError, match="does not support equality deletes"):
        lake.open_table("db", "upserted", ("id",), tmp_path)


def _add_equality_delete(spark: Any, table: Any) -> None:
    """Commit a file of equality deletes by the first column; the file itself does not exist."""
    columns = spark._sc._gateway.new_array(spark._jvm.int, 1)
    columns[0] = 1
    file = (
        spark._jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec())
        .ofEqualityDeletes(columns)
        .withPath(f"{table.location()}/data/gone.parquet")
        .withFormat("parquet")
        .withFileSizeInBytes(10)
        .withRecordCount(1)
        .build()
    )
    table.newRowDelta().addDeletes(file).commit()


def test_a_table_with_position_deletes_is_replaced_by_one_with_vectors(
    lake: IcebergLake, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Its snapshots stay. In the other direction, Iceberg does not replace it."""
    old = lake.create_table("db", "newer", NewTable(SCHEMA, ("id",), "position"), tmp_path)
    three = rows([{"id": i, "name": "old", "amount": 0} for i in range(3)])
    old.commit(Change(three), {})
    old.commit(Change(None, pa.table({"id": pa.array([0], pa.int32())})), {})
    old.stored.tag("kept")
    new = lake.create_table("db", "newer", NewTable(SCHEMA, ("id",)), tmp_path)
    new.commit(Change(three.slice(1)), {})
    new.commit(Change(None, pa.table({"id": pa.array([1], pa.int32())})), {})
    assert new.files.vectors
    assert by_spark(iceberg_spark, "db.newer", "id, name") == [(2, "old")]
    before = iceberg_spark.sql("SELECT id FROM lake.db.newer VERSION AS OF 'kept'").collect()
    assert sorted(row["id"] for row in before) == [1, 2]


def test_a_table_with_position_deletes_that_a_user_upgrades(
    lake: IcebergLake, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Format v3 accepts only vectors from then on; the upgrade makes no snapshot."""
    table = lake.create_table("db", "upgraded", NewTable(SCHEMA, ("id",), "position"), tmp_path)
    table.commit(Change(rows([{"id": i, "name": "old", "amount": 0} for i in range(9)])), {})
    for gone in (0, 1, 2):
        table.commit(Change(None, pa.table({"id": pa.array([gone], pa.int32())})), {})
    table.commit(Change(rows([{"id": i, "name": "more", "amount": 0} for i in range(9, 12)])), {})
    table.commit(Change(None, pa.table({"id": pa.array([9], pa.int32())})), {})
    iceberg_spark.sql("ALTER TABLE lake.db.upgraded SET TBLPROPERTIES ('format-version' = '3')")
    table = lake.open_table("db", "upgraded", ("id",), tmp_path)
    table.commit(Change(rows([{"id": 3, "name": "new", "amount": 1}])), {})
    left = [(3, "new"), *((i, "old") for i in range(4, 9)), (10, "more"), (11, "more")]
    assert by_spark(iceberg_spark, "db.upgraded", "id, name") == sorted(left, key=repr)
    assert table.files.most_delete_lists() > 1
    assert table.commit_rewrites([], {}) == 0
    assert table.files.most_delete_lists() == 0
    assert by_spark(iceberg_spark, "db.upgraded", "id, name") == sorted(left, key=repr)
    table = lake.open_table("db", "upgraded", ("id",), tmp_path / "lost")
    table.commit(Change(None, pa.table({"id": pa.array([10], pa.int32())})), {})
    left = [row for row in left if row[0] != 10]
    assert by_spark(iceberg_spark, "db.upgraded", "id, name") == sorted(left, key=repr)
    assert table.rows == len(left)
    assert by_pyiceberg(folder(iceberg_spark), "db.upgraded", "id, name") == sorted(left, key=repr)


COMMITS = 25  # more than the table keeps versions of its metadata


def test_another_program_has_committed_often(
    lake: IcebergLake, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The Hadoop catalog looks for the newest metadata from the version that it knows, which has been removed."""
    table = lake.create_table("db", "often", NewTable(SCHEMA, ("id",)), tmp_path)
    table.commit(Change(rows([{"id": 1, "name": "a", "amount": 1}])), {})
    asked = [lake.load("db", "often") for _ in range(4)]
    # after a commit, the next question reads the newest metadata
    asked[1].tag("mine")
    asked[2].set_properties({"binlake.other": "1"})
    other = lake.open_table("db", "often", ("id",), tmp_path / "other")
    for number in range(COMMITS):
        other.commit(Change(rows([{"id": 2, "name": "b", "amount": number}])), {})
    other.stored.tag("theirs")

    assert sorted(asked[0].tags()) == ["mine", "theirs"]
    assert sorted(asked[1].refs()) == ["main", "mine", "theirs"]
    assert asked[2].describe()["properties"]["binlake.other"] == "1"
    asked[2].replace_properties({"binlake.mine": None}, {"binlake.mine": "1"})
    asked[3].set_properties({"binlake.mine": "2"})
    assert table.has_other_commits()
    with pytest.raises(CommitConflictError, match="another writer has committed"):
        table.commit(Change(rows([{"id": 1, "name": "a", "amount": 2}])), {})
    table.reload()
    assert table.properties["binlake.mine"] == "2"
    table.commit(Change(rows([{"id": 1, "name": "a", "amount": 3}])), {})
    found = by_spark(iceberg_spark, "db.often", "id, amount")
    assert [(number, int(amount)) for number, amount in found] == [(1, 3), (2, COMMITS - 1)]


def test_another_table_of_the_name_is_not_taken_for_the_same(
    lake: IcebergLake, tmp_path: Path
) -> None:
    table = lake.create_table("db", "renewed", NewTable(SCHEMA, ("id",)), tmp_path)
    for number in range(3):
        table.commit(Change(rows([{"id": number, "name": "a", "amount": 1}])), {})
    lake.drop("db", "renewed")
    lake.create_table("db", "renewed", NewTable(SCHEMA, ("id",)), tmp_path / "other")
    with pytest.raises(MissingFileError, match="Metadata file for version"):
        table.reload()
