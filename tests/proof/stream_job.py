"""A Spark driver of its own: streams row changes into a folder of Parquet, until it is ended.

    python stream_job.py '{"load": …, "options": {…}, "sink": …, "checkpoint": …, "master": …}'

A batch is a folder `batch=<id>` that is written anew when Spark gives the batch again, which is
how a sink without transactions gets each row once.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from binlake.spark import session


def main(job: dict[str, Any]) -> None:
    """Run the query until it fails."""
    config = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
        "spark.task.maxFailures": "20",
        **job.get("config", {}),
    }
    spark = session("binlake proof", master=job["master"], config=config)
    reader = spark.readStream.format("binlog")
    for name, value in job["options"].items():
        reader = reader.option(name, value)
    changes = reader.load(job["load"]) if job.get("load") else reader.load()

    def write(batch: Any, number: int) -> None:
        batch.write.mode("overwrite").parquet(f"{job['sink']}/batch={number}")

    query = (
        changes.writeStream.foreachBatch(write)
        .option("checkpointLocation", job["checkpoint"])
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
