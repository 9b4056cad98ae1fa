"""A lake in HDFS: the commands, with Hadoop's library in the environment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import missing
from dev.servers import Server
from mirror.command_process import CommandProcess
from support.servers.live import url_of
from support.spark.mirrored import set_catalog
from support.spark.spark_processes import run_script

pytestmark = [
    pytest.mark.server,
    pytest.mark.lakes,
    # the store makes the difference
    pytest.mark.not_on("mysql-5.6.24", "mariadb-10.11", "mariadb-11.8"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The URI of a running HDFS, and the environment that finds libhdfs."""
    from dev.servers.hdfs import HDFS, hdfs
    from dev.servers.packages import home

    if not (home() / "roots" / HDFS).exists():
        missing(f"not provisioned: python -m dev.servers provision {HDFS}")
    with hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


def test_a_lake_in_hdfs(
    server: Server, store: tuple[str, dict[str, str]], iceberg_spark: Any, tmp_path: Path
) -> None:
    uri, variables = store
    server.execute(
        "CREATE DATABASE deep",
        "CREATE TABLE deep.keyed (id INT PRIMARY KEY, v INT, t VARCHAR(20))",
        "CREATE TABLE deep.keyless (v INT)",
        "INSERT INTO deep.keyless VALUES (1), (1), (2)",
        "INSERT INTO deep.keyed VALUES " + ", ".join(f"({i}, {i}, 'a')" for i in range(2000)),
    )
    lake = f"{uri}/{server.name}"
    of_lake = [lake, "--state", str(tmp_path / "state")]
    with CommandProcess(tmp_path, **variables) as commands:
        run(commands, url_of(server), *of_lake, "--once", "--table", "deep.*")
        server.execute(
            "UPDATE deep.keyed SET v = v + 1 WHERE id < 700",
            "DELETE FROM deep.keyed WHERE id > 1950",
            "ALTER TABLE deep.keyed ADD COLUMN n INT NULL",
            "INSERT INTO deep.keyed VALUES (9999, 1, NULL, 7)",
            "DELETE FROM deep.keyless WHERE v = 1 LIMIT 1",
        )
        found = json.loads(run(commands, "verify", *of_lake, "--json"))
        run(commands, "compact", *of_lake)
    tables = {one["table"]: (one["state"], one["lake_rows"]) for one in found["tables"]}
    assert tables == {"deep.keyed": ("equal", 1952), "deep.keyless": ("equal", 2)}
    set_catalog(iceberg_spark, "deep", {"type": "hadoop", "warehouse": lake})
    assert read(iceberg_spark, "SELECT v FROM deep.deep.keyless ORDER BY v") == [(1,), (2,)]
    counts = "count(*), sum(id), sum(v), count(t), sum(n)"
    ids = sum(range(1951))
    assert read(iceberg_spark, f"SELECT {counts} FROM deep.deep.keyed") == [
        (1952, ids + 9999, ids + 700 + 1, 1951, 7)
    ]
    # a compacted table has no delete files
    assert read(iceberg_spark, "SELECT content FROM deep.deep.keyed.files") == [(0,)]
    server.execute("DROP DATABASE deep")


def run(commands: CommandProcess, *words: str) -> str:
    """The output of a command that succeeds."""
    done = commands.mirror(words)
    assert done.code == 0, f"{words}: {done.output}\n{done.errors}"
    return done.output


def read(spark: Any, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return [tuple(row) for row in spark.sql(statement).collect()]


def test_the_files_of_tasks_in_hdfs(store: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    uri, variables = store
    script = """
        from pathlib import Path
        import pyarrow.fs as pafs
        from binlake.mirror.apply.task_files import TaskFiles, opened, task_output

        def listed():
            fs, inner = pafs.FileSystem.from_uri(lake)
            return len(fs.get_file_info(pafs.FileSelector(inner, recursive=True)))

        lake = sys.argv[1]
        files = TaskFiles(Path(sys.argv[2]), lake)
        path, out = task_output(files.for_tasks())
        with out:
            out.write(b"rows" * 100_000)
        with opened(path) as file:
            file.seek(399_996)
            end = file.read().decode()
        local = Path(files.local(path)).stat().st_size
        before = listed()
        files.clear()
        answer([end, local, before, listed()])
    """
    found = run_script(tmp_path, script, f"{uri}/tasks", str(tmp_path / "state"), **variables)
    # the directories of binlake, of all processes and of this one, and the file
    assert found == ["rows", 400_000, 4, 2]
