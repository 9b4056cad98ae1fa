"""`binlake.export`: logs to one Parquet data set per table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from binlake.errors import OptionError
from binlake.lake.engine import Engine, Progress
from binlake.lake.export import DEFAULT_FILE_BYTES, Export, ExportResult
from binlake.lake.export_directory import IfExists
from binlake.source.resolve import Paths, path_texts
from binlake.table.log_input import LogInput
from binlake.values.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def export(
    paths: Paths,
    target: str | os.PathLike[str],
    *,
    engine: Literal["spark", "local"] = "spark",
    spark: SparkSession | None = None,
    workers: int | None = None,
    if_exists: IfExists = "error",
    max_partition_bytes: int | None = None,
    target_file_bytes: int = DEFAULT_FILE_BYTES,
    progress: Progress | None = None,
    **options: Any,
) -> ExportResult:
    """Write one Parquet data set per table to the directory or URI `target`, and `_ledger.json`.

    `engine` "spark" runs on `spark`, or on a session of this machine that is started if there is
    none. "local" does the same work, with the same rows, without Spark and Java, with `workers`
    tasks at once on this machine (default: one per core). `if_exists` "replace" replaces an earlier
    export. `progress` is called with the numbers of finished tasks and of all tasks. Options are
    those of `binlake.open`.

    The result becomes visible only when all logs are read and proven complete. Raises OptionError,
    SourceError and every BinlogError of reading.
    """
    logs = LogInput(path_texts(paths), ReadOptions.parse(options))
    one = Export(logs, os.fsdecode(target), if_exists, max_partition_bytes, target_file_bytes)
    one.check()  # before a session starts
    return one.run(_engine(engine, spark, workers), progress or (lambda _done, _all: None))


def _engine(name: str, spark: SparkSession | None, workers: int | None) -> Engine:
    if name == "local":
        if spark is not None:
            raise OptionError("the engine local uses no Spark session", name="spark")
        from binlake.lake.local import LocalEngine

        return LocalEngine(workers)
    if name != "spark":
        raise OptionError(
            f"engine {name!r}: expected one of spark, local", name="engine", value=name
        )
    if workers is not None:
        raise OptionError("workers is an option of the engine local", name="workers")
    from binlake.lake.jobs import SparkEngine
    from binlake.spark import session

    return SparkEngine(spark if spark is not None else session())
