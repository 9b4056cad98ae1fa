"""A standalone cluster of two workers: tasks on both, and what a host cannot do is said."""

from __future__ import annotations

import site
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.cli.main import main
from binlake.values.builds import installed_version
from support.spark.spark_processes import SOURCE, Cluster
from support.spark.spark_processes import run_script as run_script_in

LOGS = str(Path(__file__).parents[1] / "golden" / "mysql-9.7" / "rotation" / "binlog.index")

SESSION = """
from binlake.spark import session
spark = session(master=sys.argv[1], config={
    "spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.cores.max": "2",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s", "spark.default.parallelism": "5",
})
"""
READ = """
frame = spark.read.format("binlog").options(table="golden.r", max_partition_bytes="2000")
frame = frame.load(sys.argv[2])
rows = frame.selectExpr("cast(_seq as string) place").collect()
tracker = spark.sparkContext._jsc.sc().statusTracker()
executors = {e.host() + ":" + str(e.port()) for e in tracker.getExecutorInfos()}
answer([frame.rdd.getNumPartitions(), len(rows), len(set(rows)), len(executors) - 1])
"""
PLAN = """
frame = spark.read.format("binlog").option("view", "changes").load(sys.argv[2])
answer(frame.rdd.getNumPartitions())
"""
EXPORT = """
import warnings
import binlake
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    result = binlake.export(sys.argv[2], sys.argv[3], spark=spark, max_partition_bytes=2000)
told = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
answer([[[t.path, t.rows, len(t.files)] for t in result.tables], told])
"""
LEFT_OUT = """
import os
def told_by(read):
    # the summary comes to this process's stderr; executors have their own
    log, ours = os.open(sys.argv[3], os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600), os.dup(2)
    os.dup2(log, 2)
    try:
        read()
    finally:
        os.dup2(ours, 2)
    lines = open(sys.argv[3]).read().splitlines()
    return [line.partition("rotation/binlog.index")[2] for line in lines if "binlake:" in line]
def load(reader, **options):
    return reader.format("binlog").options(max_partition_bytes="2000", **options).load(sys.argv[2])
def stream():
    into = load(spark.readStream, ledger_path=sys.argv[4]).writeStream.format("noop")
    into.option("checkpointLocation", sys.argv[5]).trigger(availableNow=True).start().awaitTermination()
answer([
    told_by(lambda: load(spark.read).count()),
    told_by(lambda: load(spark.read, ledger_path=sys.argv[4]).count()),
    told_by(stream),
])
"""
HOSTS = """
from binlake.errors import SourceError
from binlake.spark.hosts import check_hosts
check_hosts(spark, [sys.argv[2]])
try:
    check_hosts(spark, [sys.argv[2] + "/gone"])
except SourceError as error:
    answer(str(error))
"""
WITHOUT_PACKAGE = """
import binlake
def message_of(job):
    try:
        job()
    except Exception as error:
        return str(error)
def read():
    spark.read.format("binlog").load(sys.argv[2]).count()
def stream():
    rows = spark.readStream.format("binlog").load(sys.argv[2]).writeStream.format("noop")
    rows.option("checkpointLocation", sys.argv[3]).trigger(availableNow=True).start().awaitTermination()
def write():
    binlake.export(sys.argv[2], sys.argv[4], spark=spark, max_partition_bytes=2000)
answer([message_of(job) for job in (read, stream, write)])
"""


#: The parts of one session, by name: text and arguments.
Tried = dict[str, tuple[str, tuple[str, ...]]]


def _script(tried: Tried) -> str:
    """Text that answers with the answer of each part, by its name."""
    parts = "".join(
        f"part = {name!r}\nsys.argv[2:] = {list(arguments)!r}\n{text}"
        for name, (text, arguments) in tried.items()
    )
    return (
        f"answer_all, found = answer, {{}}\ndef answer(value): found[part] = value\n{SESSION}{parts}"
        "answer_all(found)\n"
    )


@pytest.fixture(scope="module")
def answers(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answers of one session on the cluster: sessions with new executors take most of the time."""
    folder = tmp_path_factory.mktemp("session")
    planned, seen = folder / "planned", folder / "seen"
    planned.mkdir()
    seen.mkdir()
    with (planned / "binlog.000001").open("wb") as log:
        log.truncate(100 << 20)  # planning reads no byte
    omissions = (str(folder / name) for name in ("stderr", "ledgers", "checkpoint"))
    tried: Tried = {
        "read": (READ, (LOGS,)),
        "plan": (PLAN, (str(planned),)),
        "omissions": (LEFT_OUT, (LOGS, *omissions)),
        "export": (EXPORT, (LOGS, str(folder / "lake"))),
        "hosts": (HOSTS, (str(seen),)),
    }
    found: dict[str, Any] = run_script_in(folder, _script(tried), cluster.url)
    return found


def test_a_read_uses_both_workers(answers: dict[str, Any]) -> None:
    expected = binlake.open(LOGS).to_arrow("golden.r").num_rows
    partitions, rows, distinct, executors = answers["read"]
    assert partitions > 4
    assert rows == distinct == expected
    assert executors == 2


def test_the_planner_asks_the_driver_for_the_cores(answers: dict[str, Any]) -> None:
    assert answers["plan"] == 5


def test_omissions_of_a_read_are_reported_once_by_the_driver(answers: dict[str, Any]) -> None:
    batch, with_path, stream = answers["omissions"]
    told = [": changes that rows cannot show: DDL: 2"]
    assert batch == with_path == told
    assert [line.partition(": ")[2] for line in stream] == [line[2:] for line in told]


def test_an_export(answers: dict[str, Any]) -> None:
    expected = binlake.open(LOGS).to_arrow("golden.r").num_rows
    tables, warned = answers["export"]
    assert tables == [["golden/r", expected, 1]]
    assert not warned


def test_hosts_are_checked(answers: dict[str, Any]) -> None:
    told = answers["hosts"]
    assert told.startswith("host ")
    assert "does not see" in told
    assert "\n" not in told


@pytest.fixture(params=[None, "0.0.9"], ids=["no package", "another version"])
def unfit_cluster(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[str, Path, str]]:
    """A cluster whose executors have no binlake, or another version than the driver.

    Yields its URL, a Python that is another one in executors, and what is wrong with that.
    """
    version: str | None = request.param
    bare, python = tmp_path / "bare", tmp_path / "python"
    venv.create(bare)
    packages = next(bare.glob("lib/python*/site-packages"))
    # a folder that a .pth file adds: the .pth files in it, such as that of binlake, are not read
    others = site.getsitepackages()
    expected = "the package binlake is not installed; install it on every executor, or ship a packed environment with spark.archives"
    if version is not None:
        others.append(str(SOURCE))
        about = packages / f"binlake-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: binlake\nVersion: {version}\n"
        )
        expected = (
            f"binlake {version} is installed, but the driver has {installed_version()}; install the same "
            "version on the driver and on every executor"
        )
    (packages / "others.pth").write_text("\n".join(others))
    python.write_text(
        "#!/bin/sh\n"
        f'case "$PWD" in {tmp_path}/workers/*) exec {bare}/bin/python "$@" ;; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    imported = subprocess.run(
        [bare / "bin" / "python", "-c", "import pyarrow, pyspark, binlake"],
        capture_output=True, text=True, cwd="/", check=False, env={},
    )  # fmt: skip
    assert ("No module named 'binlake'" in imported.stderr) == (version is None), imported.stderr
    made = Cluster(tmp_path / "workers", PYTHONPATH="")
    yield made.url, python, f"({bare}/bin/python): {expected}"
    made.stop()


def test_an_executor_that_cannot_work_is_named_with_advice(
    unfit_cluster: tuple[str, Path, str], run_script: Any, tmp_path: Path
) -> None:
    """For a read, a stream and an export."""
    url, python, expected = unfit_cluster
    lake = tmp_path / "lake"
    messages = run_script(
        SESSION.replace('"spark.cores.max"', '"spark.task.maxFailures": "1", "spark.cores.max"')
        + WITHOUT_PACKAGE,
        *(url, LOGS, str(tmp_path / "checkpoint"), str(lake)),
        PYSPARK_PYTHON=str(python),
    )
    for message in messages:
        assert "RuntimeError: host" in message or message.startswith("host ")
        assert expected in message
        assert "ModuleNotFoundError" not in message
    assert not lake.exists()


PACKED = """
import binlake
def places(_):
    import os, sys, binlake, pyarrow
    yield os.getcwd(), [sys.executable, binlake.__file__, pyarrow.__file__]
rows = spark.read.format("binlog").options(table="golden.r", max_partition_bytes="2000").load(sys.argv[2]).count()
done = binlake.export(sys.argv[2], sys.argv[3], spark=spark, max_partition_bytes=2000)
# a barrier: both executors at the same time
barrier = spark.sparkContext.parallelize(range(2), 2).barrier()
answer([rows, sum(table.rows for table in done.tables), barrier.mapPartitions(places).collect()])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="run this on Linux")
def test_a_packed_environment_runs_on_workers_that_have_nothing(
    run_script: Any, tmp_path: Path
) -> None:
    """`binlake spark-env` as its text says: unpacked on the driver, sent to the workers by Spark."""
    packed, here = tmp_path / "environment.tar.gz", tmp_path / "script" / "environment"
    assert main(["spark-env", str(packed)]) == 0
    here.mkdir()
    with tarfile.open(packed) as archive:
        archive.extractall(here, filter="tar")
    expected = binlake.open(LOGS).to_arrow("golden.r").num_rows
    made = Cluster(tmp_path / "workers", PYTHONPATH="", PYSPARK_PYTHON="/nonexistent")
    try:
        rows, exported, places = run_script(
            SESSION.replace(
                '"spark.cores.max"', f'"spark.archives": "{packed}#environment", "spark.cores.max"'
            )
            + PACKED,
            *(made.url, LOGS, str(tmp_path / "lake")),
            PYSPARK_PYTHON="./environment/bin/python",
        )
    finally:
        made.stop()
    assert (rows, exported) == (expected, expected)
    assert len({folder for folder, _ in places}) == 2
    for folder, files in places:
        assert folder.startswith(f"{tmp_path}/workers/work")
        for file in files:
            assert str((Path(folder) / file).resolve()).startswith(f"{folder}/environment/")
