"""Append the changes of a table to a Parquet table, exactly once, until it is stopped.

    spark-submit stream_to_lake.py SOURCE TABLE TARGET CHECKPOINT [once]

SOURCE is the URL of a server, without a password, or a directory of logs that every executor sees.
With `once` it writes what is there, and ends.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import binlake.spark


def main(source: str, table: str, target: str, checkpoint: str, *how: str) -> None:
    """Start the query, and wait for its end."""
    spark = SparkSession.builder.appName(f"binlake {table}").getOrCreate()
    binlake.spark.prepare(spark)
    kind = "server" if source.startswith(("mysql://", "mariadb://")) else "path"
    changes = spark.readStream.format("binlog").option(kind, source).option("table", table).load()
    trigger = {"availableNow": True} if how == ("once",) else {"processingTime": "10 seconds"}
    query = (
        changes.writeStream.format("parquet")
        .option("path", target)
        .option("checkpointLocation", checkpoint)
        .trigger(**trigger)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
