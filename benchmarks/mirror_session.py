"""A mirror of one table on two cores, in a warm session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from binlake.mirror.loop import Mirror
from binlake.mirror.options import MirrorOptions
from binlake.mirror.sessions import mirror_session
from dev.servers.lake_jars import lake_jars

__all__ = ["followed", "warm_session"]


@contextmanager
def warm_session(lake: str) -> Iterator[Any]:
    """A session whose first job is done."""
    jar = next(jar for jar in lake_jars() if jar.name.startswith("iceberg-spark-runtime"))
    config = {"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "4"}
    spark = mirror_session(lake, master="local[2]", iceberg_jar=str(jar), config=config)
    try:
        spark.range(1).count()
        yield spark
    finally:
        spark.stop()


@contextmanager
def followed(url: str, logs: str | None, lake: str, table: str, **options: Any) -> Iterator[Mirror]:
    """A mirror that reads the changes from log files, or from the server without `logs`."""
    Path(lake).mkdir(parents=True, exist_ok=True)
    with warm_session(lake) as spark:
        chosen = MirrorOptions.of({"tables": (table,), **options})
        mirror = Mirror(spark, url, lake, chosen, logs=logs)
        try:
            yield mirror
        finally:
            mirror.close()
