"""Apply the changes with Iceberg's MERGE: mirror_merge.py prepare|merge LAKE TABLE LOGS BATCH_BYTES, two cores.

`prepare` makes a copy of the mirror's table. `merge` reads the logs as a stream and merges one batch of
about BATCH_BYTES of log into the copy, by `foreachBatch`, the last change of each key. Session start is not
timed. Prints seconds and changes.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.mirror_session import warm_session

_TARGET = "lake.merge.orders"
_COPY = f"""CREATE TABLE {_TARGET} TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read',
 'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read') AS SELECT * FROM lake.{{table}}"""
_LAST = """SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY _seq DESC) AS _rank FROM changes)
 WHERE _rank = 1"""
_MERGE = """MERGE INTO {target} t USING ({last}) c ON t.id = c.id
 WHEN MATCHED AND c._op = 'delete' THEN DELETE
 WHEN MATCHED THEN UPDATE SET {sets}
 WHEN NOT MATCHED AND c._op != 'delete' THEN INSERT ({names}) VALUES ({values})"""


def merged(spark: Any, table: str, logs: str, batch_bytes: str, checkpoint: str) -> dict[str, Any]:
    """Merge the first batch."""
    done: list[dict[str, Any]] = []
    names = spark.table(_TARGET).columns
    merge = _MERGE.format(
        target=_TARGET,
        last=_LAST,
        sets=", ".join(f"t.{name} = c.{name}" for name in names),
        names=", ".join(names),
        values=", ".join(f"c.{name}" for name in names),
    )

    over = threading.Event()

    def take(batch: Any, _number: int) -> None:
        if over.is_set():
            return  # one is enough
        began = time.perf_counter()
        batch.createOrReplaceTempView("changes")
        batch.sparkSession.sql(merge)
        done.append({"seconds": time.perf_counter() - began, "changes": batch.count()})
        over.set()

    stream = spark.readStream.format("binlog").option("table", table)
    stream = stream.option("max_bytes_per_batch", batch_bytes).load(logs)
    query = stream.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).start()
    while query.isActive and not over.wait(1):
        pass
    query.stop()
    return done[0]


def main() -> None:
    """Measure and print."""
    what, lake, table, logs, batch_bytes = sys.argv[1:]
    with warm_session(lake) as spark:
        if what == "prepare":
            spark.sql(_COPY.format(table=table))
            return
        checkpoint = str(Path(lake) / "merge-checkpoint")
        found = merged(spark, table, logs, batch_bytes, checkpoint)
    found["changes_per_second"] = round(found["changes"] / found["seconds"])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
