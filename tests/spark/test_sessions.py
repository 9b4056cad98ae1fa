"""The name `binlog` in sessions of every kind: plain, prepared, Connect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import binlake
from dev.servers.ports import ReservedPort
from support.spark.spark_processes import SOURCE

LOGS = str(Path(__file__).parents[1] / "golden" / "mysql-9.7" / "transactions" / "binlog.index")

READ = f"""
frame = spark.read.format("binlog").option("table", "golden.a").load({LOGS!r})
answer([frame.count(), frame.columns[:3]])
"""
PLAIN = """
import os
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""
PREPARED = """
from binlake.spark import session
spark = session(master="local[1]", config={"spark.ui.enabled": "false"})
"""
BROKEN = "raise SystemError('this module breaks discovery for everybody')\n"

ROWS = [9, ["id", "v", "s"]]


def test_a_plain_session_finds_it(run_script: Any) -> None:
    assert run_script(PLAIN + READ) == ROWS


def test_a_prepared_session_needs_no_discovery(run_script: Any, tmp_path: Path) -> None:
    (tmp_path / "pyspark_broken.py").write_text(BROKEN)
    assert run_script(PREPARED + READ, PYTHONPATH=f"{tmp_path}:{SOURCE}") == ROWS


WORKERS = """
import os
def look(rows):
    import pyspark, sys
    yield [pyspark.__file__, sys.executable, [entry for entry in sys.path if entry.endswith((".zip", ".jar"))]]
[found] = spark.sparkContext.parallelize([1], 1).mapPartitions(look).collect()
answer([found, sys.executable, os.environ["PYSPARK_PYTHON"]])
"""


def test_workers_use_the_installed_pyspark(run_script: Any) -> None:
    """Not Spark's archive of it, which each would compile again, and which each task would read."""
    (pyspark, python, archives), ours, named = run_script(PREPARED + WORKERS)
    assert Path(pyspark).is_file()
    assert [entry for entry in archives if "pyspark" in entry or "spark-core" in entry] == []
    assert python == ours == named


TASK = "spark.sparkContext.parallelize([1, 2], 1).map(lambda number: number + 1).collect()"


@pytest.mark.parametrize("first", [PLAIN, PREPARED], ids=["plain", "prepared"])
def test_a_session_in_a_jvm_that_is_there_already(run_script: Any, first: str) -> None:
    """`stop` does not end the JVM, and its environment is the one with which it started."""
    second = f"before = {TASK}\nspark.stop()\n{PREPARED}answer([before, {TASK}])\n"
    assert run_script(first + second) == [[2, 3], [2, 3]]


# PySpark's own Connect server has one port, which may be that of other tests: it is given another.
CONNECT = """
from binlake.spark import session
from pyspark.sql.connect.client.core import DefaultChannelBuilder
port = sys.argv.pop(1)
DefaultChannelBuilder.default_port = staticmethod(lambda: int(port))
spark = session(remote="local[2]", config={"spark.connect.grpc.binding.port": port})
"""


@pytest.fixture
def port() -> Iterator[str]:
    """A port that no other process takes."""
    reserved = ReservedPort()
    yield str(reserved.number)
    reserved.release()


def test_connect_reads_and_exports(run_script: Any, port: str, tmp_path: Path) -> None:
    text = """
    import binlake
    log, lake = sys.argv[1:]
    frame = spark.read.format("binlog").option("table", "golden.a").load(log)
    result = binlake.export(log, lake, spark=spark)
    table = spark.read.parquet(lake + "/golden/a")
    answer([frame.count(), table.count(), table.schema == frame.schema, len(result.tables)])
    """
    told = run_script(CONNECT + dedent(text), port, LOGS, str(tmp_path / "lake"))
    assert told == [9, 9, True, 3]


SUMMARY = """
from pathlib import Path
log, folder = sys.argv[1:]
source = {"on_error": "skip", "max_partition_bytes": "3000", "ledger_path": folder + "/kept"}
count = spark.read.format("binlog").options(**source).load(log).count()
batch = Path(folder, "stderr").read_text()
frame = spark.readStream.format("binlog").options(**source, max_bytes_per_batch="2000").load(log)
query = (frame.writeStream.format("noop").trigger(processingTime="0 seconds")
         .option("checkpointLocation", folder + "/checkpoint").start())
query.processAllAvailable()
recent = [json.loads(progress.json) for progress in query.recentProgress]
query.stop()
stream = Path(folder, "stderr").read_text()[len(batch):]
ends = [progress["sources"][0]["endOffset"] for progress in recent]
ends = {end if isinstance(end, str) else json.dumps(end): None for end in ends}
answer([count, batch, stream, [json.loads(end).get("ledger") for end in ends]])
"""
CLASSIC_LOGGED = """
from pathlib import Path
from binlake.spark import session
spark = session(master="local[2]", config={"spark.ui.enabled": "false"},
                log_file=Path(sys.argv[2], "stderr"))
"""
CONNECT_LOGGED = CONNECT.replace(
    'session(remote="local[2]", ',
    'session(remote="local[2]", log_file=__import__("pathlib").Path(sys.argv[2], "stderr"), ',
)


@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_omissions_of_a_read_are_reported_once(
    run_script: Any, port: str, tmp_path: Path, kind: str
) -> None:
    """On the driver's stderr, by batches, by micro-batches, and in a stream's progress."""
    data = bytearray((Path(LOGS).parent / "binlog.000001").read_bytes())
    data[3000] ^= 1
    log = tmp_path / "binlog.000001"
    log.write_bytes(data)
    arguments = [str(log), str(tmp_path)]
    if kind == "connect":
        told = run_script(CONNECT_LOGGED + SUMMARY, port, *arguments)
    else:
        told = run_script(CLASSIC_LOGGED + SUMMARY, *arguments)
    count, batch, stream, sums = told
    local = binlake.open(log, on_error="skip")
    assert local.to_arrow().num_rows == count
    lines = [line for line in batch.splitlines() if line.startswith("binlake: ")]
    assert lines == [f"binlake: {log}: {remark}" for remark in local.ledger.remarks()]
    assert stream.count("were skipped: bad checksum") == 1
    assert f"binlake: {log} up to binlog.000001:" in stream
    assert len(list((tmp_path / "kept").glob("batch-binlog.000001-*.json"))) == len(sums) > 2
    found = [entry for entry in sums if entry]
    assert [entry["batches"] for entry in found] == list(range(1, len(sums)))
    assert found[-1]["unshown"] == local.ledger.unshown.total()
    assert found[-1]["rows"] <= count


def test_a_mistake_under_connect_is_short(run_script: Any, port: str) -> None:
    text = """
    try:
        spark.read.format("binlog").option("tabel", "golden.a").load("/x").count()
    except Exception as error:
        answer(str(error))
    """
    told = run_script(CONNECT + dedent(text), port)
    assert "unknown option 'tabel'; did you mean table?" in told
    assert len([line for line in told.splitlines() if line.strip()]) <= 6


def test_a_package_that_cannot_be_imported_is_reported(run_script: Any, tmp_path: Path) -> None:
    """And it does not switch discovery off for the others."""
    (tmp_path / "binlake.py").write_text("raise ImportError('no pyarrow here')\n")
    (tmp_path / "pyspark_other.py").write_text(
        "from pyspark.sql.datasource import DataSource\n"
        "class DefaultSource(DataSource):\n"
        "    name = classmethod(lambda cls: 'other')\n"
        "    def schema(self): return 'a int'\n"
    )
    told = run_script(
        PLAIN
        + """
spark.read.format("other").load()
try:
    spark.read.format("binlog").load("/x")
except Exception as error:
    answer(str(error))
""",
        PYTHONPATH=f"{tmp_path}:{SOURCE}",
    )
    assert "the package binlake cannot be imported: ImportError: no pyarrow here" in told


def test_secrets_are_no_arguments_of_the_jvm(run_script: Any) -> None:
    """Every user of the machine can read the arguments of a process."""
    script = """
        from pathlib import Path
        import subprocess
        from binlake.spark import session

        config = {
            "spark.ui.enabled": "false",
            "spark.sql.catalog.prod.jdbc.password": r"zaza\\tu u=1#",
            "spark.hadoop.fs.s3a.secret.key": "zazatu",
            "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": "  zazatu ",
            "fs.s3a.token a:b": "zazatu",
        }
        spark = session(master="local[1]", config=config)
        pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
        arguments = Path(f"/proc/{pid}/cmdline").read_text()
        hadoop = spark.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key")
        found = spark.conf.get("spark.sql.catalog.prod.jdbc.password")
        rest = [spark.conf.get(name) for name in list(config)[3:]]
        answer([found, hadoop, *rest, "zaza" in arguments, "spark.ui.enabled" in arguments])
    """
    assert run_script(dedent(script)) == [
        "zaza\\tu u=1#",
        "zazatu",
        "  zazatu ",
        "zazatu",
        False,
        True,
    ]
