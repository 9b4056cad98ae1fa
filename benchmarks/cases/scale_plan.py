"""The driver's share of a large job: scale_plan.py LOGS BYTES SCRATCH.

Plans a read of LOGS sparse files of BYTES each, which planning does not read, in `local[1]`. Also times
a job of tasks that do nothing, for what Spark's scheduler takes for each, and the pickled size of a partition.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from pathlib import Path

from binlake.spark.partitions import plan_partitions
from binlake.spark.sessions import session
from binlake.table.log_part import TaskSize
from binlake.values.options import ReadOptions

_TASKS = 500
_CORES = 100


def main() -> None:
    """Measure and print."""
    logs, size, scratch = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    folder = Path(scratch) / "sparse"
    folder.mkdir()
    for number in range(1, logs + 1):
        with (folder / f"binlog.{number:06d}").open("wb") as log:
            log.truncate(size)
    spark = session(master="local[1]")
    nothing = spark.range(0, _TASKS, 1, _TASKS).write.format("noop").mode("overwrite")
    nothing.save()
    started = time.perf_counter()
    nothing.save()
    dispatch_s = (time.perf_counter() - started) / _TASKS
    frame = spark.read.format("binlog").option("view", "changes").load(str(folder))
    started = time.perf_counter()
    tasks = frame.rdd.getNumPartitions()
    seconds = time.perf_counter() - started
    spark.stop()
    parts = plan_partitions([str(folder)], ReadOptions(), TaskSize(cores=_CORES))
    print(
        json.dumps(
            {
                "seconds": seconds,
                "tasks": tasks,
                "plan_task_s": seconds / tasks,
                "dispatch_s": dispatch_s,
                "partition_bytes": len(pickle.dumps(parts[0])),
            }
        )
    )


if __name__ == "__main__":
    main()
