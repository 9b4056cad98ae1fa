"""Faults that other programs of this kind had, as their users reported them, made again here."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import IncompleteError, PositionLostError
from binlake.mirror import resync
from binlake.mirror.options import MirrorOptions
from dev.servers import Server, running
from mirror.killed_mirror import Kill, killed
from support.spark.mirrored import Lake, quarantined, rows_of

pytestmark = [pytest.mark.server, pytest.mark.lakes]

DATABASE = "faults"


@pytest.fixture(scope="module", params=["mysql-9.7"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        started.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        yield started


def lake_of(server: Server, spark: Any, folder: Path, *tables: str) -> Lake:
    """A lake of new tables with two rows each."""
    with server.session(DATABASE) as session:
        for table in tables:
            session.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT, e ENUM('small', 'large') NOT NULL)",
                f"INSERT INTO {table} VALUES (1, 1, 'small'), (2, 2, 'large')",
            )
    names = tuple(f"{DATABASE}.{table}" for table in tables)
    return Lake(spark, folder, server, tables=names)


def copied(lake: Lake) -> list[str]:
    """The tables that were copied, in order."""
    return [note.split(":")[0].split(".")[1] for note in lake.notes if "rows copied" in note]


def test_several_changes_of_a_key_and_a_crash(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """One row of each key stays, although the round is applied again; deletes name positions."""
    lake = lake_of(server, iceberg_spark, tmp_path, "several")
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute(
            "BEGIN",
            "UPDATE several SET v = 10 WHERE id = 1",
            "UPDATE several SET v = 11 WHERE id = 1",
            "INSERT INTO several VALUES (3, 3, 'small')",
            "UPDATE several SET v = 30 WHERE id = 3",
            "UPDATE several SET id = 20 WHERE id = 2",
            "COMMIT",
        )
    for after in (False, True):
        assert killed(lake, Kill("commit", 1, after=after)) == -signal.SIGKILL
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.several") == [f"{DATABASE}.several"]
    assert sorted(lake.table(f"{DATABASE}.several")["id"].to_pylist()) == [1, 3, 20]
    files = lake.spark.sql(f"SELECT content FROM {lake.catalog}.{DATABASE}.several.delete_files")
    assert {row.content for row in files.collect()} == {1}, "position deletes, no equality deletes"


def test_members_of_an_enum(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """A copy and the log give the same labels; the number 0, which is no member, is a value, too."""
    zero = "INSERT INTO {}.{} VALUES ({}, 0, 'neither')"
    lake = lake_of(server, iceberg_spark, tmp_path, "members")
    with server.session() as session:
        session.execute("SET SESSION sql_mode = ''", zero.format(DATABASE, "members", 3))
        lake.catch_up()
        session.execute(
            zero.format(DATABASE, "members", 4),
            f"INSERT INTO {DATABASE}.members VALUES (5, 0, 'large')",
            f"UPDATE {DATABASE}.members SET e = 'small' WHERE id = 2",
        )
    lake.catch_up()
    rows = lake.table(f"{DATABASE}.members").to_pylist()
    assert {row["id"]: row["e"] for row in rows} == {
        1: "small", 2: "small", 3: "", 4: "", 5: "large",
    }  # fmt: skip
    assert lake.equals_source(f"{DATABASE}.members")


def test_a_table_that_is_added_or_excluded_later(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """It is copied alone, with the rows that it had; what others do is not copied again."""
    lake = lake_of(server, iceberg_spark, tmp_path, "first", "second")
    lake.catch_up()
    server.execute(
        f"CREATE TABLE {DATABASE}.third AS SELECT * FROM {DATABASE}.first",
        f"ALTER TABLE {DATABASE}.third ADD PRIMARY KEY (id)",
    )
    names = lake.options.tables
    lake.options = MirrorOptions.of({"tables": (*names, f"{DATABASE}.third")})
    server.execute(f"UPDATE {DATABASE}.first SET v = 7 WHERE id = 1")
    lake.catch_up()
    lake.options = MirrorOptions.of({"tables": names})
    server.execute(f"UPDATE {DATABASE}.third SET v = 8 WHERE id = 1")
    lake.catch_up()
    lake.options = MirrorOptions.of({"tables": (*names, f"{DATABASE}.third")})
    server.execute(f"DELETE FROM {DATABASE}.third WHERE id = 2")
    lake.catch_up()
    assert copied(lake) == ["first", "second", "third"]
    assert quarantined(lake) == {}
    for table in ("first", "second", "third"):
        assert lake.equals_source(f"{DATABASE}.{table}")


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB", "FULL"])
def test_a_delete_by_key_in_a_partitioned_table(
    server: Server, iceberg_spark: Any, tmp_path: Path, image: str
) -> None:
    """With MINIMAL, the log has only the key of a deleted row, and not the columns of its partition."""
    table = f"parts_{image.lower()}"
    name = f"{DATABASE}.{table}"
    lake = lake_of(server, iceberg_spark, tmp_path, table)
    lake.options = MirrorOptions.of(
        {"tables": (name,), "partition_tables": (f"{name}=bucket(4, v), e",)}
    )
    rows = ", ".join(f"({number}, {number % 7}, 'small')" for number in range(3, 40))
    server.execute(f"INSERT INTO {name} VALUES {rows}")
    lake.catch_up()
    with server.session(DATABASE) as session:
        session.execute(
            f"SET SESSION binlog_row_image = '{image}'",
            f"DELETE FROM {table} WHERE id % 5 = 1",
            f"UPDATE {table} SET v = v + 1, e = 'large' WHERE id % 5 = 2",  # into other partitions
            f"DELETE FROM {table} WHERE id % 5 = 2 AND id > 20",
        )
    lake.catch_up()
    partitions = lake.spark.sql(f"SELECT * FROM {lake.catalog}.{name}.partitions").count()
    assert partitions > 4
    assert quarantined(lake) == {}
    assert lake.equals_source(name) == [name]


def test_a_purged_log(server: Server, iceberg_spark: Any, tmp_path: Path) -> None:
    """One error, each time; nothing is applied. `resync` creates the table again."""
    lake = lake_of(server, iceberg_spark, tmp_path, "purged")
    lake.catch_up()
    name = f"{DATABASE}.purged"
    before = rows_of(lake.table(name))
    server.execute(f"DELETE FROM {name} WHERE id = 1", "FLUSH BINARY LOGS")
    server.execute(f"INSERT INTO {name} VALUES (3, 3, 'large')", "FLUSH BINARY LOGS")
    server.settle()
    server.purge_before(server.position()[0])
    for _ in range(2):
        with pytest.raises(PositionLostError, match=r"binlog.*binlake mirror resync") as lost:
            lake.catch_up()
        assert "checkpoint" not in str(lost.value)  # a mirror has none
        assert rows_of(lake.table(name)) == before
    resync(tmp_path, [name], spark=iceberg_spark, catalog=lake.catalog)
    lake.catch_up()
    server.execute(f"UPDATE {name} SET v = 9 WHERE id = 2")
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source(name) == [name]


def test_a_table_that_was_idle_until_another_program_compacted_it(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """Its newest commit of the mirror is old: the server has purged the log of that time."""
    lake = lake_of(server, iceberg_spark, tmp_path, "rested", "busy")
    lake.options = replace(lake.options, on_other_writer="reindex")
    lake.catch_up()
    server.execute("FLUSH BINARY LOGS", f"UPDATE {DATABASE}.busy SET v = 3 WHERE id = 1")
    lake.catch_up()
    server.execute("FLUSH BINARY LOGS")
    lake.catch_up()
    server.settle()
    server.purge_before(server.position()[0])
    table = f"{lake.catalog}.{DATABASE}.rested"
    iceberg_spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table}")
    server.execute(f"UPDATE {DATABASE}.rested SET v = 5 WHERE id = 1")
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source(f"{DATABASE}.rested")


def test_a_log_that_lacks_the_position_of_one_table(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The others are followed, and `resync` copies the one."""
    lake = lake_of(server, iceberg_spark, tmp_path, "one", "other")
    lake.catch_up()
    names = [f"{DATABASE}.{name}" for name in ("one", "other")]
    server.execute(*(f"UPDATE {name} SET v = v + 1" for name in names), "FLUSH BINARY LOGS")
    server.execute(*(f"UPDATE {name} SET v = v + 1" for name in names))
    # one of them is committed
    assert killed(lake, Kill("commit", 1, after=True)) == -signal.SIGKILL
    server.settle()
    server.purge_before(server.position()[0])
    server.execute(*(f"UPDATE {name} SET v = v + 1" for name in names))
    lake.catch_up()
    [(lost, reason)] = quarantined(lake).items()
    assert "that file does not exist" in reason
    assert f"`binlake mirror resync LAKE {lost}`" in reason
    assert "'*.*'" not in reason
    [followed] = {*names} - {lost}
    assert lake.equals_source(followed) == [followed]
    resync(tmp_path, [lost], spark=iceberg_spark, catalog=lake.catalog)
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source(lost) == [lost]


def test_an_xa_transaction_whose_rows_are_in_a_purged_log(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The error does not blame the format of the log; copies of all tables help."""
    lake = lake_of(server, iceberg_spark, tmp_path, "decided")
    lake.catch_up()
    name = f"{DATABASE}.decided"
    server.execute(
        "XA START 'late'", f"UPDATE {name} SET v = 7", "XA END 'late'", "XA PREPARE 'late'"
    )
    server.execute("FLUSH BINARY LOGS")
    lake.catch_up()
    server.settle()
    server.purge_before(server.position()[0])
    server.execute("XA COMMIT 'late'")
    with pytest.raises(IncompleteError, match="XA COMMIT whose XA PREPARE is not in") as stopped:
        lake.catch_up()
    assert "binlog_format" not in str(stopped.value)
    assert "binlake mirror resync LAKE '*.*'" in str(stopped.value)
    resync(tmp_path, ["*.*"], spark=iceberg_spark, catalog=lake.catalog)
    lake.catch_up()
    assert quarantined(lake) == {}
    assert lake.equals_source(name) == [name]
