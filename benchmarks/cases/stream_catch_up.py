"""Catching up with a log, against a batch read of it: stream_catch_up.py stream|batch LOG TABLE FOLDER.

`stream` is one query with Trigger.AvailableNow from the beginning of a directory that holds the log
alone, `batch` is `spark.read` of it; both to Parquet files, on two cores. Session start is not timed.
Prints seconds and rows.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from binlake.spark.sessions import session


def main() -> None:
    """Measure and print."""
    what, log, table, folder = sys.argv[1:]
    scratch = Path(folder) / str(os.getpid())  # a new one each time
    logs = scratch / "logs"
    logs.mkdir(parents=True)
    (logs / Path(log).name).symlink_to(Path(log).resolve())
    spark = session(master="local[2]")
    spark.range(1).count()  # the first job pays for the session
    target = str(scratch / "out")
    started = time.perf_counter()
    if what == "batch":
        frame = spark.read.format("binlog").option("table", table).load(str(logs))
        frame.write.parquet(target)
    else:
        stream = spark.readStream.format("binlog").option("table", table).load(str(logs))
        write = stream.writeStream.format("parquet").option("path", target)
        write = write.option("checkpointLocation", str(scratch / "checkpoint"))
        write.trigger(availableNow=True).start().awaitTermination()
    seconds = time.perf_counter() - started
    rows = spark.read.parquet(target).count()
    spark.stop()
    print(json.dumps({"seconds": seconds, "rows": rows}))


if __name__ == "__main__":
    main()
