"""The Python that Spark starts for its workers.

Spark puts its own archive of PySpark first into the path of each worker. Python keeps no compiled modules of an archive, so each
new worker compiles PySpark again, which takes a second; a first read starts four. And each task reads the directories of all archives,
about 50 ms. In a session on this machine, `worker-python.sh` therefore removes them from the path. The installed
PySpark, from which the session itself comes, is the same code.

The script gets the name of the Python from the environment of the JVM. A JVM that another part of the program has started does not
have it, and `spark.stop()` does not end a JVM.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PYTHON = "PYSPARK_PYTHON"
_REAL_PYTHON = "BINLAKE_WORKER_PYTHON"
_SCRIPT = Path(__file__).with_name("worker-python.sh")
#: The environment variable that spark-submit sets, which has started the JVM.
GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"

# The connection to the JVM that was started with the variables of this module, if there is one.
_our_jvm: Any = None


@contextmanager
def worker_python(master: str | None, script: Path = _SCRIPT) -> Iterator[None]:
    """Name the Python of the workers in the environment, where the JVM and a new context read it.

    `master`: where the session will run, or None if Spark's own configuration sets it. If the user has set PYSPARK_PYTHON to another
    Python, it is unchanged. `script` starts a worker without Spark's archives.
    """
    global _our_jvm
    from pyspark import SparkContext

    if os.environ.get(_PYTHON, sys.executable) != sys.executable:
        yield
        return
    os.environ[_REAL_PYTHON] = sys.executable
    is_here = master is not None and master.partition("[")[0] == "local"
    is_new = SparkContext._gateway is None and GATEWAY_PORT not in os.environ
    is_ours = is_new or SparkContext._gateway is _our_jvm is not None
    os.environ[_PYTHON] = str(script) if is_here and is_ours and _works(script) else sys.executable
    try:
        yield
        if is_new:
            _our_jvm = SparkContext._gateway
    finally:
        # Another session may run elsewhere.
        os.environ[_PYTHON] = sys.executable


def _works(script: Path) -> bool:
    """Whether the script can be run, and workers find the same PySpark without Spark's archives."""
    import py4j
    import pyspark

    if not os.access(script, os.X_OK):
        return False
    folders = [Path(str(module.__file__)).parents[1] for module in (py4j, pyspark)]
    home = os.environ.get("SPARK_HOME")
    is_its_own = home is None or Path(home).resolve() == (folders[1] / "pyspark").resolve()
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    installed = {*map(str, site.getsitepackages()), site.getusersitepackages(), *named}
    return is_its_own and all(str(folder) in installed for folder in folders)
