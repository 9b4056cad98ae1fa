"""`binlake.spark.session()`: a Spark session in which the data source works at once.

A plain session works too where the package is installed in the Python that Spark's workers
use. What the helper adds is what goes wrong without it: workers that run another Python (the
variable must be set before the JVM starts), discovery that another broken `pyspark_*` module
has switched off, and user mistakes buried under Java and Python stacks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from binlake.errors import SourceError
from binlake.spark.source import BinlogDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["prepare", "session"]

_MINIMUM_JAVA = 17

_CONFIG = {
    # a user's mistake is a sentence, not a stack
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",
    # on 4.1 the only check that a batch has the types that were announced
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    # TIMESTAMP columns show as the server's SELECT shows them at time zone +00:00
    "spark.sql.session.timeZone": "UTC",
}
_CLASSIC_CONFIG = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def session(
    app_name: str = "binlake",
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A new or the running Spark session, prepared for `spark.read.format("binlog")`.

    `master` as in Spark (by default what Spark is configured with, else all cores of this
    machine), or `remote` for Spark Connect (`sc://host`, or `local[2]`); `config` wins over
    the settings made here. Raises SourceError when Java is missing or too old.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    settings = {**_CONFIG, **(config or {})}
    if remote is not None:
        builder = builder.remote(remote)
    else:
        # Spark reads these when the JVM starts; afterwards they change nothing
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings = {**_CLASSIC_CONFIG, **settings}
        if SparkSession.getActiveSession() is None:
            check_java()
        if master is not None:
            builder = builder.master(master)
    if remote is not None and remote.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        check_java()
    for key, value in settings.items():
        builder = builder.config(key, value)
    return prepare(builder.getOrCreate())


def prepare(spark: SparkSession) -> SparkSession:
    """Register the data source in a session that somebody else made, and return it."""
    spark.dataSource.register(BinlogDataSource)
    return spark


def check_java() -> None:
    """Raise SourceError, saying what to install, unless a Java that Spark can use is there."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    wanted = f"Spark needs Java {_MINIMUM_JAVA} or newer"
    hint = "install one (Debian, Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME"
    if java is None or not os.access(java, os.X_OK):
        raise SourceError(f"{wanted}, and none was found", hint=hint)
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = text.partition('"')[2].partition('"')[0]
    major = version.removeprefix("1.").partition(".")[0].partition("-")[0]
    if not major.isdigit() or int(major) < _MINIMUM_JAVA:
        raise SourceError(f"{wanted}; {java} is version {version or 'unknown'}", hint=hint)
