"""One small Spark session per module, scripts in a fresh process, and a real cluster.

A JVM holds one classic session at a time, and discovery runs once per JVM: what needs a
session of another kind (Connect, a cluster, a plain session) runs as a script of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pyspark = pytest.importorskip("pyspark", reason="needs the extra [spark]")

SOURCE = Path(__file__).parents[2] / "src"
HOME = Path(pyspark.__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # warnings of PySpark (about pandas, sockets left open) are not ours to mend
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session as `binlake.spark.session` makes it, on two cores."""
    from binlake.spark import session

    config = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
    }
    made = session("binlake tests", master="local[2]", config=config)
    yield made
    made.stop()


Script = Callable[..., Any]


@pytest.fixture(scope="session")
def run_script(tmp_path_factory: pytest.TempPathFactory) -> Script:
    """Run Python text in a fresh process; what it gives to `answer(…)` comes back."""

    def run(text: str, *arguments: str, python: str = sys.executable, **environment: str) -> Any:
        folder = tmp_path_factory.mktemp("script")
        reply = folder / "answer.json"
        script = folder / "main.py"
        script.write_text(
            "import json, sys\n"
            f"def answer(value): open({str(reply)!r}, 'w').write(json.dumps(value))\n"
            + textwrap.dedent(text)
        )
        done = subprocess.run(
            [python, str(script), *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=folder,
            check=False,
            env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return json.loads(reply.read_text())

    return run


class Cluster:
    """Spark's own standalone master and two workers of one core each, on this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[str]] = []
        common = "--host", "127.0.0.1", "--webui-port", "0"
        text = self._start(
            "master.Master", *common, "--port", "0", until=r"Starting Spark master at (spark://\S+)"
        )
        self.url = text
        for number in (1, 2):
            self._start(
                "worker.Worker", *common, "--cores", "1", "--memory", "1g",
                "--work-dir", str(folder / f"work{number}"), self.url,
                until=r"(Successfully registered) with master",
            )  # fmt: skip

    def _start(self, name: str, *arguments: str, until: str) -> str:
        """Start a daemon and wait for a line of its log."""
        process = subprocess.Popen(
            [HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "SPARK_HOME": str(HOME), "SPARK_NO_DAEMONIZE": "1",
                 "SPARK_DAEMON_MEMORY": "256m", "PYTHONPATH": str(SOURCE)},
        )  # fmt: skip
        self._processes.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            found = re.search(until, line)
            if found:
                self._drain(process)
                return found[1]
        raise AssertionError(f"{name} ended with {process.wait()}")

    @staticmethod
    def _drain(process: subprocess.Popen[str]) -> None:
        """Keep reading the log, so that the daemon never blocks on a full pipe."""
        import threading

        assert process.stderr is not None
        threading.Thread(target=process.stderr.read, daemon=True).start()

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(30)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster of two workers."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()
