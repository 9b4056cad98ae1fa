"""The row indexes of a mirror are lost between two runs: tasks of Spark read the keys of the lake's rows again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlake.mirror import resync
from dev.servers import Server, running
from support.spark.mirrored import Lake, quarantined, states

pytestmark = [pytest.mark.server, pytest.mark.lakes]

KEYED_ROWS = 3000


@pytest.fixture(scope="module")
def server(provisioned: Any) -> Iterator[Server]:
    with running(provisioned("mysql-9.7")) as started:
        yield started


def index_of(lake: Lake, namespace: str) -> Path:
    """The directory with the row indexes of a namespace."""
    return lake.folder / "_binlake" / "index" / namespace


def notes_about(lake: Lake, words: str) -> list[str]:
    return sorted(note for note in lake.notes if words in note)


@pytest.mark.parametrize("deletes", ["vectors", "position"])
def test_tasks_rebuild_indexes(
    server: Server, iceberg_spark: Any, tmp_path: Path, deletes: str
) -> None:
    database = f"lost_{deletes}"
    values = ", ".join(f"(UUID(), {i}, 'é')" for i in range(KEYED_ROWS))
    server.execute(f"CREATE DATABASE {database}")
    with server.session(database) as session:
        session.execute(
            "CREATE TABLE keyed (id CHAR(36) PRIMARY KEY, v INT, t VARCHAR(20))",
            f"INSERT INTO keyed VALUES {values}",
            "CREATE TABLE pairs (a INT, b VARCHAR(20), v INT, PRIMARY KEY (a, b))",
            "INSERT INTO pairs SELECT v % 50, id, v FROM (SELECT v, LEFT(id, 20) id FROM keyed) k",
            "CREATE TABLE keyless (v INT, t VARCHAR(20))",
            "INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (2, NULL)",
            "CREATE TABLE versions (id INT PRIMARY KEY, v INT)",
            "INSERT INTO versions VALUES (1, 1), (2, 2), (3, 3)",
        )
    lake = Lake(
        iceberg_spark, tmp_path, server, tables=(f"{database}.*",), deletes=deletes,
        history_tables=(f"{database}.versions",), compact="off",
    )  # fmt: skip
    lake.catch_up()
    change = (
        "UPDATE keyed SET v = v + 1 WHERE v < 700",
        "DELETE FROM keyed WHERE v BETWEEN 900 AND 950",
        "UPDATE keyed SET id = UUID() WHERE v BETWEEN 1000 AND 1010",
        "UPDATE pairs SET v = v + 1 WHERE a < 10",
        "DELETE FROM pairs WHERE a = 11",
        "DELETE FROM keyless WHERE v = 1 LIMIT 1",
        "UPDATE versions SET v = v + 1 WHERE id < 3",
    )
    with server.session(database) as session:
        session.execute(*change)
    lake.catch_up()
    assert notes_about(lake, "its row index") == []  # of so few rows, the driver reads the keys
    before = {file.name for file in index_of(lake, database).rglob("*.npy")}
    shutil.rmtree(index_of(lake, database))
    with server.session(database) as session:
        session.execute(*change)
    lake.catch_up(key_task_rows=5)
    began, ended = notes_about(lake, "Spark's tasks"), notes_about(lake, "was completed in")
    tables = [f"{database}.{name}" for name in ("keyed", "pairs", "versions")]
    assert [note.partition(":")[0] for note in began] == tables
    assert [note.partition(":")[0] for note in ended] == tables
    # rows that a change has replaced are in the data files, too
    [rows] = {note.partition(" keys of ")[2].partition(" rows ")[0] for note in began[:1]}
    assert int(rows.replace(",", "")) > KEYED_ROWS
    after = {file.name for file in index_of(lake, database).rglob("*.npy")}
    assert after
    assert not before & after
    assert not (lake.folder / "_binlake" / "index" / "mirror.staging").exists()
    assert states(lake) == {
        f"{database}.keyed": "equal",
        f"{database}.keyless": "equal",
        f"{database}.pairs": "equal",
        f"{database}.versions": "equal",
    }


def test_a_missing_data_file_concerns_its_table_only(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    server.execute("CREATE DATABASE lost_file")
    with server.session("lost_file") as session:
        for table in ("good", "lacking"):
            session.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO {table} VALUES (1, 1), (2, 2)",
            )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("lost_file.*",))
    lake.catch_up()
    [file] = tmp_path.glob("lost_file/lacking/data/*.parquet")
    file.unlink()
    shutil.rmtree(index_of(lake, "lost_file"))
    server.execute("UPDATE lost_file.good SET v = 9 WHERE id = 1")
    lake.catch_up(key_task_rows=1)
    [(name, reason)] = quarantined(lake).items()
    assert name == "lost_file.lacking"
    assert "a file of its lake table is missing or damaged: " in reason
    assert file.name in reason
    assert lake.equals_source("lost_file.good") == ["lost_file.good"]
    assert notes_about(lake, "was completed in")[0].startswith("lost_file.good: ")


def test_a_stop_while_indexes_are_completed(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The run ends after the job that runs. The next run needs only the other keys."""
    server.execute("CREATE DATABASE lost_time")
    with server.session("lost_time") as session:
        for table in ("a", "b"):
            session.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO {table} VALUES (1, 1)",
            )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("lost_time.*",))
    lake.catch_up()
    shutil.rmtree(index_of(lake, "lost_time"))
    server.execute("UPDATE lost_time.a SET v = 9", "UPDATE lost_time.b SET v = 9")
    began: list[str] = []

    def stop(note: str) -> None:
        if "Spark's tasks" in note:
            began.append(note.partition(":")[0])
            mirror.stop()

    mirror = lake.mirror(key_task_rows=1, note=stop)
    mirror.run(once=True)
    mirror.close()
    [first] = began
    assert lake.table(first).to_pylist() == [{"id": 1, "v": 1}]
    lake.catch_up(key_task_rows=1)
    [note] = notes_about(lake, "Spark's tasks")
    assert not note.startswith(first)
    assert lake.equals_source("lost_time.*") == ["lost_time.a", "lost_time.b"]


def test_a_stop_while_the_index_of_a_new_copy_is_completed(
    server: Server, iceberg_spark: Any, tmp_path: Path
) -> None:
    """The copy has been committed, so it is not made again."""
    server.execute("CREATE DATABASE lost_copy")
    with server.session("lost_copy") as session:
        session.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)"
        )
    lake = Lake(iceberg_spark, tmp_path, server, tables=("lost_copy.*",))
    lake.catch_up()
    resync(tmp_path, ["lost_copy.t"], spark=iceberg_spark, catalog=lake.catalog)
    heard: list[str] = []

    def stop(note: str) -> None:
        heard.append(note)
        if "Spark's tasks" in note:
            mirror.stop()

    mirror = lake.mirror(key_task_rows=1, note=stop)
    mirror.run(once=True)
    mirror.close()
    assert [note for note in heard if "rows copied" in note]
    assert [note for note in heard if "Spark's tasks" in note]
    server.execute("UPDATE lost_copy.t SET v = 9 WHERE id = 2")
    before = len(lake.notes)
    lake.catch_up(key_task_rows=1)
    assert not [note for note in lake.notes[before:] if "cop" in note]
    assert lake.equals_source("lost_copy.*") == ["lost_copy.t"]
