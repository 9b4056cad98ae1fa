"""Export a log with two local cores, twice: spark_export.py export|write FILE TABLE TARGET.

`export` is binlake's own job (files written inside the tasks), `write` is
`df.write.parquet` of the data source's typed view of the same table. The session is warm:
only the second time counts. Prints seconds and how many cores were busy on average.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import binlake
from binlake.spark.sessions import session


def _cpu_ticks() -> int:
    """User and system ticks of every process of this machine (idle ones left out)."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[1]) + int(fields[3])


def main() -> None:
    """Measure and print."""
    what, path, table, folder = sys.argv[1:]
    spark = session(master="local[2]")
    for turn in ("first", "second"):
        target = f"{folder}/{os.getpid()}-{turn}"  # a new one each time
        started, ticks = time.perf_counter(), _cpu_ticks()
        if what == "export":
            binlake.export(path, target, spark=spark)
        else:
            frame = spark.read.format("binlog").option("table", table).load(path)
            frame.write.parquet(target)
        seconds = time.perf_counter() - started
        busy = (_cpu_ticks() - ticks) / os.sysconf("SC_CLK_TCK") / seconds
        shutil.rmtree(target)
    spark.stop()
    print(json.dumps({"seconds": seconds, "cores_busy": round(busy, 2)}))


if __name__ == "__main__":
    main()
