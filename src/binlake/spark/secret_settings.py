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

# Spark hides these in its web page (spark.redaction.regex), and REST catalogs of Iceberg call theirs a credential.
_SECRET = re.compile(r"secret|password|token|credential|access[._-]?key", re.IGNORECASE)
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_DEFAULT = "pyspark-shell"


def secret_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that a JVM which is still to be started gets from a file; none if it runs already, or if the user has named another
    file.
    """
    from pyspark import SparkContext

    runs = GATEWAY_PORT in os.environ or SparkContext._gateway is not None
    if runs or "--properties-file" in os.environ.get(_ARGUMENTS, ""):
        return {}
    return {name: value for name, value in settings.items() if _SECRET.search(name)}


@contextmanager
def not_as_arguments(secrets: Mapping[str, str]) -> Iterator[None]:
    """A JVM that is started inside has these settings. Raises SourceError if their file cannot be written."""
    if not secrets:
        yield
        return
    before = os.environ.get(_ARGUMENTS)
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
    """A line of a file of Java's Properties."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{name}={escaped}\n"
