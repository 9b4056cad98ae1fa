"""Append the changes of a table to a Parquet table, exactly once, until you stop it.

    spark-submit stream_to_lake.py SOURCE TABLE TARGET CHECKPOINT [OPTIONS]

SOURCE is the URL of a server, without a password, or a directory of logs that every executor sees.
With `--metrics-port` it serves metrics for Prometheus, and answers health probes.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack, closing

from pyspark.sql import SparkSession

import binlake.spark


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        description="Append the changes of a table to a Parquet table."
    )
    parser.add_argument("source")
    parser.add_argument("table")
    parser.add_argument("target")
    parser.add_argument("checkpoint")
    parser.add_argument("--once", action="store_true", help="write all changes so far, then exit")
    parser.add_argument("--metrics-port", type=int, metavar="PORT", help="serve metrics on PORT")
    parser.add_argument("--metrics-address", default="127.0.0.1", metavar="ADDRESS")
    return parser.parse_args()


def main(given: argparse.Namespace) -> None:
    """Start the query, and wait for its end."""
    spark = SparkSession.builder.appName(f"binlake {given.table}").getOrCreate()
    binlake.spark.prepare(spark)
    is_server = given.source.startswith(("mysql://", "mariadb://"))
    changes = (
        spark.readStream.format("binlog")
        .option("server" if is_server else "path", given.source)
        .option("table", given.table)
        .load()
    )
    trigger = {"availableNow": True} if given.once else {"processingTime": "10 seconds"}
    with ExitStack() as stack:
        if given.metrics_port is not None:
            metrics = binlake.spark.stream_metrics(
                spark, given.metrics_port, address=given.metrics_address
            )
            stack.enter_context(closing(metrics))
        query = (
            changes.writeStream.format("parquet")
            .queryName(given.table)
            .option("path", given.target)
            .option("checkpointLocation", given.checkpoint)
            .trigger(**trigger)
            .start()
        )
        query.awaitTermination()


if __name__ == "__main__":
    main(arguments())
