"""A transaction whose changes are more than a mirror holds in memory is decoded into files and committed in parts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror.apply.range_changes import ChangeFile, RangeChanges
from binlake.mirror.iceberg.table import MirrorTable
from binlake.mirror.tables.change import Change
from dev.servers import Server, running
from mirror.killed_mirror import Kill, killed
from support.spark.mirrored import Lake, quarantined

pytestmark = [pytest.mark.server, pytest.mark.lakes]

ROWS = 4000
SPLIT_BYTES = 16 << 10
CHANGES = (
    "UPDATE {t} SET v = v + 1",
    "UPDATE {t} SET id = id + 100000 WHERE id % 5 = 0",
    "UPDATE {t} SET id = id - 1 WHERE id % 5 = 1",
    "DELETE FROM {t} WHERE id % 7 = 0",
    "INSERT INTO {t} SELECT id + 300000, v, t FROM {t} WHERE id % 3 = 0",
    "UPDATE {t} SET t = CONCAT(t, '!') WHERE id > 100000",
)


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        started.execute("CREATE DATABASE large CHARACTER SET utf8mb4")
        yield started


@pytest.mark.parametrize("key", ["PRIMARY KEY (id)", "PRIMARY KEY (t(9), id)", "INDEX (id)"])
def test_in_parts(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any, key: str
) -> None:
    name = f"t{len(key)}"
    with server.session("large") as session:
        session.execute(
            f"CREATE TABLE {name} (id INT NOT NULL, v INT, t VARCHAR(40) NOT NULL, {key})"
        )
        rows = ", ".join(f"({i}, {i}, 'row {i}')" for i in range(ROWS))
        session.execute(f"INSERT INTO {name} VALUES {rows}")
    lake = Lake(iceberg_spark, tmp_path, server, tables=(f"large.{name}",), commit_bytes=40_000)
    lake.catch_up()
    with server.session("large") as session:
        session.execute("BEGIN", *(one.format(t=name) for one in CHANGES), "COMMIT")
    is_keyed = key.startswith("PRIMARY")
    if is_keyed:  # some parts are committed, and the transaction is applied again
        assert killed(lake, Kill("commit", 3, after=True)) == -signal.SIGKILL
        assert lake.table(f"large.{name}").num_rows
        # by tasks, as a range of many megabytes is
        kill = Kill("net changes of tasks", 1, after=True)
        assert killed(lake, kill, split_bytes=SPLIT_BYTES) == -signal.SIGKILL
    made: list[Change] = []
    commit = MirrorTable.commit

    def kept(table: MirrorTable, change: Change, *args: Any) -> int:
        made.append(change)
        return commit(table, change, *args)

    monkeypatch.setattr(MirrorTable, "commit", kept)
    lake.catch_up(split_bytes=SPLIT_BYTES)
    assert quarantined(lake) == {}
    assert len(made) > 1 if is_keyed else len(made) == 1
    assert all(change.upserts is None for change in made) is is_keyed
    assert lake.equals_source(f"large.{name}")


def test_compressed(server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """The transaction inflates to more than `commit_bytes`, and the log of the round is small."""
    compressed = {
        "mysql": ("SET SESSION binlog_transaction_compression = %s",),
        "mariadb": ("SET GLOBAL log_bin_compress = %s", "SET GLOBAL log_bin_compress_min_len = 10"),
    }[server.flavour]
    with server.session("large") as session:
        session.execute("CREATE TABLE packed (id INT PRIMARY KEY, t TEXT)")
        lake = Lake(iceberg_spark, tmp_path, server, tables=("large.packed",), commit_bytes=1 << 20)
        lake.catch_up()
        session.execute(*(one.replace("%s", "ON") for one in compressed), "BEGIN")
        for first in range(0, ROWS, 500):
            rows = ", ".join(f"({i}, REPEAT('row {i} ', 300))" for i in range(first, first + 500))
            session.execute(f"INSERT INTO packed VALUES {rows}")
        session.execute("COMMIT", *(one.replace("%s", "OFF") for one in compressed))
    in_files: list[int] = []
    made: list[int] = []
    add_file, commit = RangeChanges.add_file, MirrorTable.commit

    def added(changes: RangeChanges, file: ChangeFile) -> None:
        in_files.append(file.nbytes)
        add_file(changes, file)

    def kept(table: MirrorTable, change: Change, *args: Any) -> int:
        made.append(0 if change.upserts is None else change.upserts.nbytes)
        return commit(table, change, *args)

    monkeypatch.setattr(RangeChanges, "add_file", added)
    monkeypatch.setattr(MirrorTable, "commit", kept)
    lake.catch_up()
    assert quarantined(lake) == {}
    assert sum(in_files) > sum(made) / 2 > 4 << 20
    assert max(made) < 2 << 20
    assert lake.equals_source("large.packed")


def test_a_key_that_the_lake_cannot_represent_ends_its_table_only(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """Tasks write the other table in the same round."""
    with server.session("large") as session:
        session.execute(
            "SET sql_mode = ''",
            "CREATE TABLE dated (id INT, d DATE NOT NULL, PRIMARY KEY (d, id))",
            "CREATE TABLE sound (id INT PRIMARY KEY, d DATE)",
        )
        lake = Lake(
            iceberg_spark,
            tmp_path,
            server,
            tables=("large.dated", "large.sound"),
            commit_bytes=40_000,
        )
        lake.catch_up()
        days = [f"2026-01-{1 + i % 28:02}" for i in range(ROWS)]
        days[ROWS // 2] = "0000-00-00"  # NULL in the lake
        rows = ", ".join(f"({i}, '{day}')" for i, day in enumerate(days))
        session.execute(
            "BEGIN",
            f"INSERT INTO dated VALUES {rows}",
            f"INSERT INTO sound VALUES {rows}",
            "COMMIT",
        )
    by_tasks: set[str] = set()
    commit = MirrorTable.commit

    def kept(table: MirrorTable, change: Change, *args: Any) -> int:
        if change.written:
            by_tasks.add(table.full_name)
        return commit(table, change, *args)

    monkeypatch.setattr(MirrorTable, "commit", kept)
    lake.catch_up(split_bytes=SPLIT_BYTES)
    assert by_tasks == {"large.sound"}
    found = quarantined(lake)
    assert found.keys() == {"large.dated"}
    assert (
        "key column d has a value that its type in the lake cannot represent"
        in found["large.dated"]
    )
    assert lake.table("large.sound").num_rows == ROWS


def test_other_writer_between_two_parts(
    server: Server, iceberg_spark: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    with server.session("large") as session:
        session.execute("CREATE TABLE other (id INT PRIMARY KEY, v INT, t VARCHAR(40) NOT NULL)")
        session.execute(
            f"INSERT INTO other VALUES {', '.join(f'({i}, {i}, {i})' for i in range(ROWS))}"
        )
    choices = {"commit_bytes": 40_000, "on_other_writer": "reindex"}
    lake = Lake(iceberg_spark, tmp_path, server, tables=("large.other",), **choices)
    lake.catch_up()
    with server.session("large") as session:
        session.execute("BEGIN", *(one.format(t="other") for one in CHANGES), "COMMIT")
    made: list[bool] = []
    commit = MirrorTable.commit

    def beside_another(table: MirrorTable, change: Change, *args: Any) -> int:
        made.append(bool(change.written))
        if len(made) == 2:  # a commit that changes no row
            name = f"{lake.catalog}.large.other"
            iceberg_spark.sql(f"INSERT INTO {name} SELECT * FROM {name} WHERE false")
        return commit(table, change, *args)

    monkeypatch.setattr(MirrorTable, "commit", beside_another)
    lake.catch_up(split_bytes=SPLIT_BYTES)
    assert quarantined(lake) == {}
    assert made[:2] == [True, True]
    assert not any(
        made[2:]
    )  # the files of the first part are in the table, and must not be added again
    assert made[2:]
    assert lake.equals_source("large.other")
