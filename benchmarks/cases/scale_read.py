"""Read logs on a cluster of EXECUTORS half cores: scale_read.py EXECUTORS TABLE FOLDER SCRATCH.

All runs have tasks of 16 MB, so only the number of executors differs. Prints the seconds of a warm read
into Spark's sink `noop`, and of the parts that do not get faster with more executors.
"""

from __future__ import annotations

import json
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cluster import SlottedCluster
from binlake.spark.sessions import session

_READS = 3
_EMPTY_TASKS = 40


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _measured(url: str, executors: int, table: str, folder: str) -> dict[str, Any]:
    started = time.perf_counter()
    config = {
        "spark.ui.enabled": "false", "spark.executor.memory": "512m", "spark.log.level": "OFF",
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.cores.max": str(executors), "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
        "spark.locality.wait": "0",
    }  # fmt: skip
    spark = session(master=url, config=config)
    started_s = time.perf_counter() - started

    def frame(size: str, **options: str) -> Any:
        reader = spark.read.format("binlog").option("max_partition_bytes", size)
        return reader.options(**options).load(folder)

    def read() -> None:
        frame("16MB", table=table).write.format("noop").mode("overwrite").save()

    first = _seconds(read)
    seconds = statistics.median(_seconds(read) for _ in range(_READS))
    planned = frame("16MB", table=table)
    # tasks without transactions: their logs are left out by time, so they cost what every task costs
    total = sum(log.stat().st_size for log in Path(folder).iterdir())
    small = str(total // _EMPTY_TASKS + 1)
    empty = frame(small, view="changes", until="1971-01-01")
    tasks = empty.rdd.getNumPartitions()
    empty_s = _seconds(lambda: empty.write.format("noop").mode("overwrite").save())
    result = {
        "seconds": seconds, "first_s": first, "start_s": started_s, "executors": executors,
        "bytes": total, "tasks": planned.rdd.getNumPartitions(),
        "task_s": empty_s * executors / tasks,
    }  # fmt: skip
    spark.stop()
    return result


def main() -> None:
    """Measure and print."""
    executors, table, folder, scratch = int(sys.argv[1]), *sys.argv[2:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that `stop` runs
    cluster = SlottedCluster(Path(scratch) / f"cluster{executors}", executors)
    try:
        print(json.dumps(_measured(cluster.url, executors, table, folder)))
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
