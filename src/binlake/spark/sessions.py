"""`binlake.spark.session()`: a Spark session in which the data source works immediately.

A plain session works too if the package is installed in the Python that Spark's workers use. The
helper prevents three problems: workers that run another Python (the variable must be set before
the JVM starts), discovery that another broken `pyspark_*` module has switched off, and user
mistakes hidden in Java and Python stacks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from binlake.errors import OptionError, SourceError
from binlake.spark.driver import SessionDriver
from binlake.spark.hosts import cores
from binlake.spark.ledger_collector import CollectorAddress, LedgerCollector
from binlake.spark.ledgers import print_remarks
from binlake.spark.secret_settings import start_jvm
from binlake.spark.source import BinlogDataSource
from binlake.spark.worker_python import GATEWAY_PORT, worker_python

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


_MINIMUM_JAVA = 17

_LEDGER_PORT = "spark.binlake.ledger.port"
_MOST_PORT = 65535
# the attribute of a SparkContext that keeps the collector of its tasks' ledgers
_COLLECTOR = "_binlake_ledger_collector"

#: Settings of every session, unless a user gives others.
SQL_SETTINGS = {
    # a user's mistake is a sentence, not a stack
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",
    # on 4.1 the only check that a batch has the announced types
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    # shows TIMESTAMP columns as the server's SELECT does at time zone +00:00
    "spark.sql.session.timeZone": "UTC",
}
_CLASSIC_CONFIG = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_CONNECT_CONFIG = {
    "spark.sql.connect.serverStacktrace.enabled": "false",
}


def session(
    app_name: str = "binlake",
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, str] | None = None,
    log_file: Path | None = None,
) -> SparkSession:
    """A new or the running Spark session, prepared for `spark.read.format("binlog")`.

    `master` as in Spark (by default what Spark is configured with, else all cores of this
    machine), or `remote` for Spark Connect (`sc://host`, or `local[2]`); `config` overrides the
    settings made here. With `log_file`, a new JVM writes there instead of to stdout and stderr. Raises
    SourceError when Java is missing or too old.
    """
    return prepare(start(app_name, master=master, remote=remote, config=config, log_file=log_file))


def start(
    app_name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, str] | None = None,
    log_file: Path | None = None,
) -> SparkSession:
    """Return a session as `session` does, without the data source.

    An export does not need it, and registering one starts a Python process that searches for
    others.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if remote is not None:
        builder = builder.remote(remote)
        settings = {**SQL_SETTINGS, **_CONNECT_CONFIG, **(config or {})}
    else:
        if master is not None:
            builder = builder.master(master)
        settings = {**SQL_SETTINGS, **_CLASSIC_CONFIG, **(config or {})}
    for key, value in settings.items():
        builder = builder.config(key, value)
    starts_jvm = remote is None or remote.startswith("local")
    if not starts_jvm or SparkSession.getActiveSession() is not None:
        with _output_to(log_file):
            return builder.getOrCreate()
    check_java()
    with (
        _output_to(log_file),
        worker_python(settings.get("spark.master", master) if remote is None else remote),
    ):
        if remote is None:
            start_jvm(settings if master is None else {"spark.master": master, **settings})
        return builder.getOrCreate()


def local_context(
    app_name: str, *, master: str, config: Mapping[str, str], log_file: Path
) -> SparkContext:
    """A new or the running context of this machine, for jobs that need no SQL; the rest as `start`."""
    from pyspark import SparkConf, SparkContext

    settings = {"spark.app.name": app_name, "spark.master": master, **_CLASSIC_CONFIG, **config}
    check_java()
    with _output_to(log_file), worker_python(settings["spark.master"]):
        return SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))


def submitted_settings() -> dict[str, str]:
    """The settings with which spark-submit has started this program; none if it was started in another way."""
    if GATEWAY_PORT not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # a configuration without the JVM has no settings
    return dict(SparkConf().getAll())


def prepare(spark: SparkSession) -> SparkSession:
    """Register the data source in an existing session, and return that session.

    On a cluster it also listens for the ledgers of tasks, on the address of the driver
    (`ledger_collector.py`). Raises OptionError.
    """
    spark.dataSource.register(BinlogDataSource.for_session(_driver_of(spark)))
    return spark


def _driver_of(spark: SparkSession) -> SessionDriver:
    """Return the facts about a session. Under Connect, the driver is another process."""
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return SessionDriver()
    if context.master.partition("[")[0] == "local":
        return SessionDriver(cores=cores(spark))
    return SessionDriver(_collector_of(spark, context))


def _collector_of(spark: SparkSession, context: SparkContext) -> CollectorAddress | None:
    """Return the address of the collector of a cluster's driver; None if it cannot listen."""
    config = context.getConf()
    port = config.get(_LEDGER_PORT, "0")
    if port == "none":
        return None
    if not port.isdecimal() or int(port) > _MOST_PORT:
        raise OptionError(f"{_LEDGER_PORT} {port!r}: expected a port, or none", name=_LEDGER_PORT)
    running: LedgerCollector | None = getattr(context, _COLLECTOR, None)
    if running is None:
        host = config.get("spark.driver.host", "").strip("[]")
        bind = config.get("spark.driver.bindAddress", host).strip("[]")
        try:
            running = LedgerCollector(host, bind, int(port), print_remarks, lambda: cores(spark))
        except OSError as error:
            print(
                f"binlake: cannot listen for the ledgers of tasks on {bind}:{port}: {error}; set {_LEDGER_PORT} to another"
                " port, or to none",
                file=sys.stderr,
            )
            return None
        setattr(context, _COLLECTOR, running)
    return running.address


@contextmanager
def _output_to(log_file: Path | None) -> Iterator[None]:
    """Processes started inside have the file for stdout and stderr, all their life.

    A JVM outlives this process by a moment: what waits for the end of our stdout, such as a pipe,
    must not wait for the JVM.
    """
    if log_file is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    ours = {number: os.dup(number) for number in (1, 2)}
    with log_file.open("ab") as log:
        for number in ours:
            os.dup2(log.fileno(), number)
    try:
        yield
    finally:
        for number, copy in ours.items():
            os.dup2(copy, number)
            os.close(copy)


def check_java() -> None:
    """Raise SourceError, with what to install, if there is no Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    wanted = f"Spark needs Java {_MINIMUM_JAVA} or newer"
    hint = "install one (Debian, Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME"
    if java is None or not os.access(java, os.X_OK):
        raise SourceError(f"{wanted}, but there is none", hint=hint)
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = text.partition('"')[2].partition('"')[0]
    major = version.removeprefix("1.").partition(".")[0].partition("-")[0]
    if not major.isdigit() or int(major) < _MINIMUM_JAVA:
        raise SourceError(f"{wanted}; {java} is version {version or 'unknown'}", hint=hint)
