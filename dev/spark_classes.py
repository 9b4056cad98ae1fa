"""Make the JVMs of tests start fast: `python -m dev.spark_classes` writes the archive `spark.jsa` of an environment.

Tests start hundreds of JVMs, and most of them end within a minute. Two thirds of that minute is the loading and compiling of
Spark's classes. Loaded classes come from the archive instead, and the compiler that optimises most is off.

An archive belongs to one version of the JVM and to PySpark's jars. A JVM that it does not fit ignores it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["main", "variables"]

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "tests" / "golden" / "mysql-9.7" / "transactions"
ARCHIVE = Path(sys.prefix) / "spark.jsa"
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: A JVM that does not use the archive would print why.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
_SECONDS = 600

#: What most tests do: read logs, query, stream, and write files.
_SESSION = """
import sys
from binlake.spark import session
logs, folder = sys.argv[1:]
spark = session(master="local[1]", config={"spark.ui.enabled": "false", "spark.log.level": "OFF"})
frame = spark.read.format("binlog").load(logs)
frame.groupBy("table").count().orderBy("table").collect()
frame.write.parquet(f"{folder}/rows")
spark.read.parquet(f"{folder}/rows").createOrReplaceTempView("logged")
spark.sql("SELECT a.table, count(*) FROM logged a JOIN logged b USING (pos) GROUP BY 1").toArrow()
stream = spark.readStream.format("binlog").load(logs).writeStream.format("parquet")
stream = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
stream.start(f"{folder}/streamed").awaitTermination()
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def variables() -> dict[str, str]:
    """Return environment variables for processes that start JVMs of Spark."""
    options = f"{_SHORT_LIVED} {_QUIET}"
    if ARCHIVE.exists() and " " not in str(ARCHIVE):  # Spark splits these texts at spaces
        options += f" -XX:SharedArchiveFile={ARCHIVE}"
    return {
        "SPARK_SUBMIT_OPTS": f'{options} -Dspark.executor.extraJavaOptions="{options}"',
        "SPARK_DAEMON_JAVA_OPTS": options,
    }


def main() -> None:
    """Write the archive of this environment."""
    from tempfile import TemporaryDirectory

    written = ARCHIVE.with_suffix(".new")
    options = f"{_SHORT_LIVED} {_QUIET} -XX:ArchiveClassesAtExit={written}"
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", _SESSION, str(LOGS), folder],
            env={**os.environ, "SPARK_SUBMIT_OPTS": options},
            capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    if done.returncode or not written.exists():
        sys.exit(f"no archive of Spark's classes was written:\n{done.stdout}{done.stderr}")
    written.replace(ARCHIVE)


if __name__ == "__main__":
    main()
