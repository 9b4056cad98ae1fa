"""Settings of Spark that contain secrets, such as the password of a catalog, reach a new JVM in a file that only this user can read.

PySpark puts the settings of a session on the command line of the JVM, where every user of the machine can read them.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from binlake.source.bytes import writing
from binlake.spark.worker_python import GATEWAY_PORT

# Spark hides most of these in its web page (spark.redaction.regex); REST catalogs of Iceberg call theirs a credential.
_SECRET = re.compile(
    r"secret|password|passphrase|token|credential|(?:access|account|shared|private)[._-]?key",
    re.IGNORECASE,
)
# What Java reads as the name of a property, and spark-submit as one of Spark.
_NAME = re.compile(r"spark\.[^\s:=\\#!]+")
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_DEFAULT = "pyspark-shell"


def start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM of a session if settings are secret, unless it runs or the session is one of Spark Connect. The session is to get all
    settings afterwards, which PySpark passes to a JVM that runs over its socket. Raises SourceError if a file cannot be written.
    """
    from pyspark import SparkConf, SparkContext

    secrets = {name: value for name, value in settings.items() if _SECRET.search(name)}
    runs = GATEWAY_PORT in os.environ or SparkContext._gateway is not None
    if not secrets or runs or _is_connect(settings):
        return
    others = [(name, value) for name, value in settings.items() if name not in secrets]
    with _in_file(secrets):  # Spark may need them to fetch jars
        SparkContext._ensure_initialized(conf=SparkConf().setAll(others))


def _is_connect(settings: Mapping[str, str]) -> bool:
    modes = (settings.get("spark.api.mode"), os.environ.get("SPARK_API_MODE"))
    names = {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"} & {*os.environ}
    return bool(names) or "spark.remote" in settings or "connect" in modes


@contextmanager
def _in_file(secrets: Mapping[str, str]) -> Iterator[None]:
    """A JVM that is started inside reads the secrets from a file, unless the user has named another one."""
    before = os.environ.get(_ARGUMENTS)
    if "--properties-file" in (before or ""):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="binlake-") as folder:  # of this user only
        file = Path(folder, "secret.properties")
        with writing(str(file)):
            file.write_text("".join(map(_property, secrets, secrets.values())), "utf-8")
        flags = f"--load-spark-defaults --properties-file {shlex.quote(str(file))}"
        os.environ[_ARGUMENTS] = f"{flags} {before or _DEFAULT}"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_ARGUMENTS]
            else:
                os.environ[_ARGUMENTS] = before


def _property(name: str, value: str) -> str:
    """A line of a file of Java's Properties; "" for a name that is none of Spark."""
    if not _NAME.fullmatch(name):
        return ""
    escaped = f"{value}".replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{name}={escaped}\n"
