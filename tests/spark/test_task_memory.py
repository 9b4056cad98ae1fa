"""The memory of real tasks: too little of it ends with advice, and the option max_memory limits them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

import binlake
from binlake.errors import BinlogError
from support.logs.costly_logs import small_compressed_log

LOG = Path(__file__).parents[1] / "golden" / "mysql-9.7" / "transactions" / "binlog.000001"

#: Newer lines limit the memory of workers at other moments: some libraries are loaded before, and a worker may just die.
ON_4_1 = pytest.mark.spark_line("4.1")

# Spark limits the memory of workers for a whole session.
LIMITED = """
import binlake
from binlake.spark import session
log, lake, checkpoint, memory = sys.argv[1:]
spark = session(master="local[1]", config={
    "spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.executor.pyspark.memory": memory,
})
def message_of(job):
    try:
        job()
    except Exception as error:
        return str(error)
def stream():
    rows = spark.readStream.format("binlog").load(log).writeStream.format("parquet").option("path", lake)
    rows.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
answer({
    "read": message_of(lambda: spark.read.format("binlog").load(log).count()),
    "export": message_of(lambda: binlake.export(log, lake, spark=spark)),
    "stream": message_of(stream),
})
"""


def advice(megabytes: int) -> str:
    return (
        f"the task ran out of memory: its address space is limited to {megabytes} MB; "
        "set spark.executor.pyspark.memory to 1g for each core"
    )


def limited(run_script: Any, folder: Path, log: Path, memory: str) -> dict[str, str]:
    """The error of each job."""
    found = run_script(LIMITED, str(log), str(folder / "lake"), str(folder / "checkpoint"), memory)
    assert isinstance(found, dict)
    return found


@ON_4_1
def test_a_log_that_needs_more_than_the_memory_of_a_worker(run_script: Any, tmp_path: Path) -> None:
    log = tmp_path / "binlog.000001"
    log.write_bytes(small_compressed_log(60_000_000))
    messages = limited(run_script, tmp_path, log, "300m")
    for job in ("read", "export", "stream"):
        assert advice(300) in messages[job], job
    first_line = messages["stream"].partition("\n")[0]
    assert advice(300) in first_line
    assert not list(tmp_path.rglob("*.parquet"))


@ON_4_1
def test_a_worker_whose_memory_has_no_room_for_the_libraries(
    run_script: Any, tmp_path: Path
) -> None:
    """For a read, Spark loads PyArrow before it gives control to the data source.

    Which of PyArrow's libraries is the first without room depends on the machine.
    """
    messages = limited(run_script, tmp_path, LOG, "140m")
    for job in ("read", "stream"):
        assert "failed to map segment from shared object" in messages[job]  # as docs/spark.md shows
    assert advice(140) in messages["export"]


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

    def stream(max_memory: str) -> int:
        """The rows in the sink after the stream has read the log. A restart has the same checkpoint."""
        rows = spark.readStream.format("binlog").option("max_memory", max_memory).load(str(log))
        into = rows.writeStream.format("parquet").option("path", str(tmp_path / "sink"))
        into = into.option("checkpointLocation", str(tmp_path / "checkpoint"))
        into.trigger(availableNow=True).start().awaitTermination()
        read = spark.read.parquet(str(tmp_path / "sink")).count()
        assert isinstance(read, int)
        return read

    with pytest.raises(StreamingQueryException, match=limit):
        stream("1MB")
    with pytest.raises(BinlogError, match=limit):
        binlake.export(str(log), str(lake), spark=spark, max_memory="1MB")
    rows = binlake.open(str(log)).to_arrow("shop.t").num_rows
    assert count("2MB") == stream("2MB") == rows > 0
    done = binlake.export(str(log), str(lake), spark=spark, max_memory="2MB")
    assert sum(table.rows for table in done.tables) == rows
