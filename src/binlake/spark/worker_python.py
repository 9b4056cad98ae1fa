"""The Python that Spark starts for its workers.

Spark puts its own archive of PySpark first into the path of each worker. Python keeps no compiled modules of an archive, so each
new worker compiles PySpark again, which takes a second; a first read starts four. And each task reads the directories of all archives,
about 50 ms. In a session on this machine, `worker-python.sh` therefore removes them from the path. The installed
PySpark, from which the session itself comes, is the same code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["worker_python"]

_PYTHON = "PYSPARK_PYTHON"
_REAL_PYTHON = "BINLAKE_WORKER_PYTHON"
_SCRIPT = Path(__file__).with_name("worker-python.sh")


@contextmanager
def worker_python(master: str | None) -> Iterator[None]:
    """Name the Python of the workers in the environment, where the JVM and a new context read it.

    `master`: where the session will run, or None if Spark's own configuration says it. Another Python that the user has named stays.
    """
    if os.environ.get(_PYTHON, sys.executable) != sys.executable:
        yield
        return
    os.environ[_REAL_PYTHON] = sys.executable
    is_here = master is not None and master.partition("[")[0] == "local"
    os.environ[_PYTHON] = str(_SCRIPT) if is_here and _works() else sys.executable
    try:
        yield
    finally:
        # Another session may run elsewhere.
        os.environ[_PYTHON] = sys.executable


def _works() -> bool:
    """Whether the script can be run, and workers find PySpark without Spark's archives."""
    import py4j
    import pyspark

    found = [module.__file__ for module in (py4j, pyspark)]
    return os.access(_SCRIPT, os.X_OK) and all(path and Path(path).is_file() for path in found)
