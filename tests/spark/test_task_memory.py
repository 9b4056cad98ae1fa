"""The memory of real tasks: too little of it ends with advice, and the option max_memory limits them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import binlake
from binlake.errors import BinlogError
from support.logs.costly_logs import small_compressed_log

LOG = Path(__file__).parents[1] / "golden" / "mysql-9.7" / "transactions" / "binlog.000001"

# Spark limits the memory of workers for a whole session.
LIMITED = """
import binlake
from binlake.spark import session
log, lake, memory = sys.argv[1:]
spark = session(master="local[1]", config={
    "spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.executor.pyspark.memory": memory,
})
def message_of(job):
    try:
        job()
    except Exception as error:
        return str(error)
answer({
    "read": message_of(lambda: spark.read.format("binlog").load(log).count()),
    "export": message_of(lambda: binlake.export(log, lake, spark=spark)),
})
"""


def advice(megabytes: int) -> str:
    return (
        f"the task ran out of memory: its address space is limited to {megabytes} MB; "
        "set spark.executor.pyspark.memory to 1g for each core"
    )


def test_a_log_that_needs_more_than_the_memory_of_a_worker(run_script: Any, tmp_path: Path) -> None:
    log = tmp_path / "binlog.000001"
    log.write_bytes(small_compressed_log(60_000_000))
    messages = run_script(LIMITED, str(log), str(tmp_path / "lake"), "300m")
    assert advice(300) in messages["read"]
    assert advice(300) in messages["export"]
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_worker_whose_memory_has_no_room_for_the_libraries(
    run_script: Any, tmp_path: Path
) -> None:
    """For a read, Spark loads PyArrow before it gives control to the data source."""
    messages = run_script(LIMITED, str(LOG), str(tmp_path / "lake"), "200m")
    assert "libarrow" in messages["read"]
    assert "failed to map segment from shared object" in messages["read"]  # as docs/spark.md shows
    assert advice(200) in messages["export"]


def test_the_option_max_memory_limits_a_task(spark: Any, tmp_path: Path) -> None:
    """An event may inflate to a quarter of it."""
    log = tmp_path / "binlog.000001"
    log.write_bytes(small_compressed_log(300_000))
    lake = tmp_path / "lake"

    def count(max_memory: str) -> int:
        rows = spark.read.format("binlog").option("max_memory", max_memory).load(str(log)).count()
        assert isinstance(rows, int)
        return rows

    limit = "and option max_memory allows 262,144"
    with pytest.raises(Exception, match=limit) as caught:
        count("1MB")
    assert "set the option max_memory to more than four times as much" in str(caught.value)
    with pytest.raises(BinlogError, match=limit):
        binlake.export(str(log), str(lake), spark=spark, max_memory="1MB")
    rows = binlake.open(str(log)).to_arrow("shop.t").num_rows
    assert count("2MB") == rows > 0
    done = binlake.export(str(log), str(lake), spark=spark, max_memory="2MB")
    assert sum(table.rows for table in done.tables) == rows
