"""Which lake tables a mirror writes: their names, and how they are divided."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from binlake.errors import OptionError
from binlake.mirror.api import status
from binlake.mirror.control import Control
from binlake.mirror.iceberg.lake import IcebergLake
from binlake.mirror.lakes import open_lake
from binlake.mirror.reporting.metrics import prometheus_text
from binlake.mirror.upkeep import compact_tables
from dev.servers import Server, running
from support.spark.lake_readers import by_duckdb, by_pyiceberg, by_spark
from support.spark.mirrored import Lake, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]


@pytest.fixture(scope="module", params=["mysql-9.7", "mariadb-11.8"])
def server(request: pytest.FixtureRequest, provisioned: Any) -> Iterator[Server]:
    with running(provisioned(request.param)) as started:
        yield started


def resync(lake: Lake, *names: str) -> None:
    Control(IcebergLake(lake.spark, lake.catalog), None, None).request_resync(set(names))


def lake_tables(lake: Lake) -> set[str]:
    names = map(".".join, IcebergLake(lake.spark, lake.catalog).tables())
    return {name for name in names if not name.startswith("_binlake.")}


def test_tables_have_other_names_in_the_lake(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    with server.session() as session:
        session.execute(
            *(f"CREATE DATABASE {name}" for name in ("names", "names_2")),
            *(
                f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)"
                for name in ("names", "names_2")
            ),
            "CREATE TABLE names.plain (id INT PRIMARY KEY)",
            "INSERT INTO names.t VALUES (1, 1), (2, 2)",
            "INSERT INTO names_2.t VALUES (1, 10)",
        )
    tables = ("names.*", "names_2.*")
    both = Lake(
        iceberg_spark, tmp_path / "both", server, tables=tables, rename_tables=("*.t=all.t",)
    )
    with pytest.raises(OptionError, match=r"names\.t and names_2\.t would both be all\.t"):
        both.catch_up()
    rules = ("names_2.t=lake.second", "*.t=lake.{database}_{table}")
    lake = Lake(iceberg_spark, tmp_path / "lake", server, tables=tables, rename_tables=rules)
    lake.catch_up()
    assert lake_tables(lake) == {"lake.names_t", "lake.second", "names.plain"}
    with server.session("names") as session:
        session.execute(
            "UPDATE t SET v = 3 WHERE id = 2",
            "ALTER TABLE t ADD w INT",
            "INSERT INTO t VALUES (4, 4, 4)",
            "CREATE TABLE later (id INT PRIMARY KEY)",
            "INSERT INTO names_2.t VALUES (2, 20)",
        )
    assert states(lake) == dict.fromkeys(
        ("names.t", "names_2.t", "names.plain", "names.later"), "equal"
    )
    assert lake.table("lake.names_t").sort_by("id").to_pylist()[1:] == [
        {"id": 2, "v": 3, "w": None},
        {"id": 4, "v": 4, "w": 4},
    ]
    found = status(lake.folder, spark=iceberg_spark, catalog=lake.catalog)
    assert {t.table: t.lake_table for t in found.tables}["names.t"] == "lake.names_t"

    # another name needs a resync, which removes the table of the old name
    other = Lake(iceberg_spark, lake.folder, server, tables=tables)
    other.catalog = lake.catalog
    with pytest.raises(OptionError, match=r"names\.t: the lake table is lake\.names_t"):
        other.catch_up()
    resync(lake, "names.t", "names_2.t")
    other.catch_up()
    assert lake_tables(other) == {"names.t", "names_2.t", "names.plain", "names.later"}
    assert set(states(other).values()) == {"equal"}
    assert quarantined(other) == {}


@pytest.mark.parametrize("lake_format", ["iceberg", "delta"])
def test_a_backup_beside_a_lake_table_stays(
    server: Server, iceberg_spark: Any, tmp_path: Path, lake_format: str
) -> None:
    """It has the record of the lake table, and would look like the lake table of a former name."""
    database = f"saved_{lake_format}"
    with server.session() as session:
        session.execute(
            f"CREATE DATABASE {database}",
            f"CREATE TABLE {database}.t (id INT PRIMARY KEY)",
            f"INSERT INTO {database}.t VALUES (1)",
        )
    lake = Lake(iceberg_spark, tmp_path, server, tables=(f"{database}.*",), format=lake_format)
    lake.catch_up()
    shutil.copytree(tmp_path / database, tmp_path / "a_backup")
    files = sorted((tmp_path / "a_backup").rglob("*"))
    server.execute(f"INSERT INTO {database}.t VALUES (2)")
    there = open_lake(lake.spark, lake.catalog, str(tmp_path))
    Control(there, None, None).request_resync({f"{database}.t"})
    assert states(lake) == {f"{database}.t": "equal"}
    assert sorted((tmp_path / "a_backup").rglob("*")) == files
    found = status(tmp_path, spark=iceberg_spark, catalog=lake.catalog).tables
    assert [(one.lake_table, one.rows) for one in found] == [(f"{database}.t", 2)]


def test_status_shows_that_compaction_is_due(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    with server.session() as session:
        session.execute(
            "CREATE DATABASE due",
            "CREATE TABLE due.t (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE due.idle (id INT PRIMARY KEY)",
            "CREATE TABLE due.parts (id INT PRIMARY KEY)",
            "INSERT INTO due.parts VALUES (1), (2), (3)",  # files of several partitions do not become one
        )
    lake = Lake(
        iceberg_spark,
        tmp_path,
        server,
        tables=("due.*",),
        compact="off",
        compact_files=2,
        partition_tables=("due.parts=id",),
    )

    def due() -> dict[str, int]:
        found = status(lake.folder, spark=iceberg_spark, catalog=lake.catalog)
        text = prometheus_text(found)
        for table in found.tables:
            [line] = [
                line
                for line in text.splitlines()
                if line.startswith("binlake_mirror_table_compaction_due")
                and f'table="{table.table}"' in line
            ]
            assert float(line.rpartition(" ")[2]) == table.compaction_due
        return {table.table: table.compaction_due for table in found.tables}

    for number in range(2):
        with server.session("due") as session:
            session.execute(f"INSERT INTO t VALUES ({number}, 1)")
        lake.catch_up()
        assert due() == {"due.t": (0, 2)[number], "due.idle": 0, "due.parts": 0}
    made = lake.mirror()
    made.close()
    catalog = IcebergLake(iceberg_spark, lake.catalog)
    compact_tables(catalog, made._engine, made._indexes, ["due.t"], lake.notes.append)
    assert due() == {"due.t": 0, "due.idle": 0, "due.parts": 0}
    server.execute("DROP TABLE due.idle", "DROP TABLE due.t")
    lake.catch_up()
    # a copy that was given up, when the table was gone
    files = [tmp_path / "due" / name / "data" / "binlake-x.parquet" for name in ("idle", "t")]
    for days, file in zip((2, 0.5), files, strict=True):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x")
        os.utime(file, (time.time() - days * 86400,) * 2)
    compact_tables(catalog, made._engine, made._indexes, [], lake.notes.append)
    assert [file.exists() for file in files] == [False, True]
    assert lake.notes[-1] == "due.idle: 1 file of killed runs removed"
    assert lake.table("due.t").num_rows == 2


#: Tables in the modes mirror, append, history and soft deletes.
KEYED = ("t", "t_append", "t_history", "t_soft")
SPEC = "days(created), bucket(4, id), truncate(2, name), kind"


def each_keyed(*statements: str) -> list[str]:
    """Those about `t` for each table of `KEYED`, and the others."""
    return [
        re.sub(r"\bt\b", name, statement)
        for statement in statements
        for name in (KEYED if re.search(r"\bt\b", statement) else ("t",))
    ]


def partitions(lake: Lake, table: str) -> list[tuple[str, int]]:
    """Each partition of a table as Spark shows it, and its rows."""
    # DELETE files count apart: these are the data files' rows
    found = lake.spark.sql(f"SELECT partition, sum(record_count) FROM {lake.catalog}.{table}.data_files GROUP BY 1")  # fmt: skip
    return sorted((str(row[0]), row[1]) for row in found.collect())


@pytest.mark.parametrize("deletes", ["vectors", "position"])
def test_tables_are_partitioned(
    server: Server, iceberg_spark: Any, tmp_path: Path, deletes: str
) -> None:
    database = f"parts_{deletes}"
    with server.session() as session:
        session.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
    with server.session(database) as session:
        session.execute(
            *(
                f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, created DATETIME(6), name VARCHAR(20), kind DECIMAL(6,2), v INT)"
                for name in KEYED
            ),
            "CREATE TABLE log (at TIMESTAMP(3) NULL, note TEXT)",
            "CREATE TABLE lacks (id INT PRIMARY KEY)",
            *each_keyed(
                "INSERT INTO t VALUES (1, '2026-01-02 03:04:05.678', 'änne', 1.5, 1), (2, '1969-12-31 23:59:59.9', 'ändi', -0.5, 2), (3, NULL, NULL, NULL, 3), (4, '2026-01-02', '', 1.5, 4)"
            ),
            "INSERT INTO log VALUES ('2026-01-02 03:04:05', 'a'), ('2026-01-02 04:04:05', 'b'), (NULL, 'c')",
        )
    lake = Lake(
        iceberg_spark,
        tmp_path,
        server,
        tables=(f"{database}.*",),
        append_tables=("*.t_append",),
        history_tables=("*.t_history",),
        soft_delete_tables=("*.t_soft",),
        partition_tables=("*.t*=" + SPEC, "*.log=hours(at)", "*.lacks=days(at)"),
        deletes=deletes,
        compact_files=2,
    )
    lake.catch_up()
    assert list(quarantined(lake)) == [f"{database}.lacks"]
    names = [f"{database}.{name}" for name in (*KEYED, "log")]
    for statements in (
        (
            "UPDATE t SET created = '2026-01-03', v = 5 WHERE id = 1",
            "UPDATE t SET created = NULL WHERE id = 2",
            "UPDATE t SET id = 30, kind = 7 WHERE id = 3",
            "UPDATE log SET at = '2026-01-02 05:00:00' WHERE note = 'a'",
            "DELETE FROM log WHERE at IS NULL",
        ),
        (
            "DELETE FROM t WHERE id = 4",
            "INSERT INTO t VALUES (4, '2026-01-03', 'x', 1.5, 4), (5, '2026-01-03', 'xx', 1.5, 5)",
            "ALTER TABLE t CHANGE kind sort DECIMAL(8,2), CHANGE created made DATETIME(6), ADD w INT",
            "UPDATE t SET v = v + 1, w = 1",
            "INSERT INTO log VALUES ('2026-01-02 05:30:00', 'd')",
        ),
    ):
        with server.session(database) as session:
            session.execute(*each_keyed(*statements))
        found = states(lake)
        assert {found[name] for name in names} == {"equal"}
        for name in names:
            _check_readers(lake, name)

    made = lake.mirror()
    made.close()
    catalog = IcebergLake(iceberg_spark, lake.catalog)
    compact_tables(catalog, made._engine, made._indexes, names, lake.notes.append)
    for name in names:
        _check_readers(lake, name)
        _check_partitions(lake, name)
    for name, columns in ((f"{database}.t", "id, name, v, w"), (f"{database}.log", "note")):
        assert by_duckdb(str(lake.folder), name, columns) == by_spark(
            iceberg_spark, name, columns, lake.catalog
        )
    with server.session(database) as session:
        session.execute("UPDATE t_history SET v = 9", *(f"TRUNCATE {name}" for name in KEYED[1:]))
    found = states(lake)
    assert {found[name] for name in names} == {"equal"}
    gone = lake.table(f"{database}.t_history")["_valid_to"], lake.table(f"{database}.t_soft")["_deleted_at"]  # fmt: skip
    assert [(len(times) > 0, times.null_count) for times in gone] == [(True, 0)] * 2

    with server.session(database) as session:
        session.execute("ALTER TABLE t DROP name", "UPDATE log SET note = 'e' WHERE note = 'd'")
    other = Lake(iceberg_spark, lake.folder, server, tables=(f"{database}.t", f"{database}.log"))
    other.catalog = lake.catalog
    with pytest.raises(
        OptionError, match=r"partitioned by .*, but should be partitioned by nothing"
    ):
        other.catch_up()
    lake.catch_up()
    assert "by which the lake table is partitioned" in quarantined(lake)[f"{database}.t"]
    assert states(lake)[f"{database}.log"] == "equal"


def _check_readers(lake: Lake, name: str) -> None:
    columns = ", ".join(set(lake.table(name).column_names) - {"_seq", "_absent"})
    spark = by_spark(lake.spark, name, columns, lake.catalog)
    assert spark
    assert [_naive(row) for row in by_pyiceberg(str(lake.folder), name, columns)] == spark


def _naive(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The rows without zones, as Spark returns it in a session in UTC."""
    return tuple(v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in row)


def _check_partitions(lake: Lake, name: str) -> None:
    """Spark divides the same rows in the same way."""
    sql = lake.spark.sql
    spec = "hours(at)" if name.endswith("log") else "days(made), bucket(4, id), truncate(2, name), sort"  # fmt: skip
    sql(f"CREATE TABLE {lake.catalog}.{name}_spark USING iceberg PARTITIONED BY ({spec}) AS SELECT * FROM {lake.catalog}.{name}")  # fmt: skip
    by_field = [
        [values for values, _ in partitions(lake, table)] for table in (name, f"{name}_spark")
    ]
    sql(f"DROP TABLE {lake.catalog}.{name}_spark")
    texts = [[text.replace("kind=", "sort=").replace("created_", "made_") for text in of] for of in by_field]  # fmt: skip
    assert texts[0] == texts[1]
    assert len(texts[0]) > 1
