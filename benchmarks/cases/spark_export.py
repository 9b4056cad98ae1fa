"""Export a log with two local cores: spark_export.py export|write FILE TABLE TARGET.

`export` is binlake's own job (files written inside the tasks), `write` is
`df.write.parquet` of the data source's typed view of the same table. Session start is not
timed. Prints seconds and how many cores were busy on average.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from binlake.lake.export import export
from binlake.spark.sessions import session
from binlake.values.options import ReadOptions


def _cpu_ticks() -> int:
    """User and system ticks of every process of this machine (idle ones left out)."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[1]) + int(fields[3])


def main() -> None:
    """Measure and print."""
    what, path, table, folder = sys.argv[1:]
    target = f"{folder}/{os.getpid()}"  # a new one each time
    spark = session(master="local[2]")
    spark.range(1).count()  # the first job pays for the session
    started, ticks = time.perf_counter(), _cpu_ticks()
    if what == "export":
        export(
            spark,
            [path],
            target,
            ReadOptions(),
            progress=lambda _done, _all: None,
        )
    else:
        spark.read.format("binlog").option("table", table).load(path).write.parquet(target)
    seconds = time.perf_counter() - started
    busy = (_cpu_ticks() - ticks) / os.sysconf("SC_CLK_TCK") / seconds
    spark.stop()
    print(json.dumps({"seconds": seconds, "cores_busy": round(busy, 2)}))


if __name__ == "__main__":
    main()
