"""The name `binlog` in sessions of every kind: plain, prepared, Connect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from dev.servers.ports import ReservedPort
from spark_processes import SOURCE

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
    """A port that nobody else takes."""
    reserved = ReservedPort()
    yield str(reserved.number)
    reserved.release()


def test_connect_reads_and_exports(run_script: Any, port: str, tmp_path: Path) -> None:
    text = """
    from binlake.lake.export import export
    from binlake.values.options import ReadOptions
    log, lake = sys.argv[1:]
    frame = spark.read.format("binlog").option("table", "golden.a").load(log)
    result = export(spark, [log], lake, ReadOptions(), progress=lambda done, of: None)
    table = spark.read.parquet(lake + "/golden/a")
    answer([frame.count(), table.count(), table.schema == frame.schema, len(result.tables)])
    """
    told = run_script(CONNECT + dedent(text), port, LOGS, str(tmp_path / "lake"))
    assert told == [9, 9, True, 3]


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


def test_a_package_that_cannot_be_imported_says_so(run_script: Any, tmp_path: Path) -> None:
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
