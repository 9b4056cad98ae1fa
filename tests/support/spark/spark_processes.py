"""Processes that the Spark tests start: scripts with a session of their own, a real cluster."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyspark

__all__ = ["PATIENCE", "PATIENT", "SOURCE", "Cluster", "environment", "run_script"]

SOURCE = Path(__file__).resolve().parents[3] / "src"
SPARK_HOME = Path(pyspark.__file__).parent

#: How many seconds Python and the JVM wait for each other's connections; 15 by default.
PATIENCE = {"SPARK_AUTH_SOCKET_TIMEOUT": "300"}
PATIENT = {"spark.python.authenticate.socketTimeout": "300s"}


def environment(**more: str) -> dict[str, str]:
    """The environment of a new process that finds the package."""
    return {**os.environ, **PATIENCE, "PYTHONPATH": str(SOURCE), **more}


def run_script(folder: Path, text: str, *arguments: str, **variables: str) -> Any:
    """Run Python text in a fresh process; what it gives to `answer(…)` comes back."""
    reply = folder / "answer.json"
    script = folder / "main.py"
    script.write_text(
        "import json, sys\n"
        f"def answer(value): open({str(reply)!r}, 'w').write(json.dumps(value))\n" + dedent(text)
    )
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True, text=True, timeout=600, cwd=folder, check=False,
        env=environment(**variables),
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return json.loads(reply.read_text())


class Cluster:
    """Spark's own standalone master and two workers, on this machine.

    `cores` and `memory` are those of each worker, `variables` environment variables of the daemons, and so of the executors.
    """

    def __init__(
        self, folder: Path, cores: int = 1, memory: str = "1g", /, **variables: str
    ) -> None:
        self._variables = variables
        self._daemons: list[subprocess.Popen[str]] = []
        common = "--host", "127.0.0.1", "--webui-port", "0"
        self.url = self._start(
            "master.Master", *common, "--port", "0", until=r"Starting Spark master at (spark://\S+)"
        )
        for number in (1, 2):
            self._start(
                "worker.Worker", *common, "--cores", str(cores), "--memory", memory,
                "--work-dir", str(folder / f"work{number}"), self.url,
                until=r"(Successfully registered) with master",
            )  # fmt: skip

    def _start(self, name: str, *arguments: str, until: str) -> str:
        """Start a daemon and wait for a line of its log."""
        daemon = subprocess.Popen(
            [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=environment(
                SPARK_HOME=str(SPARK_HOME), SPARK_DAEMON_MEMORY="256m", **self._variables
            ),
        )  # fmt: skip
        self._daemons.append(daemon)
        assert daemon.stderr is not None
        for line in daemon.stderr:
            found = re.search(until, line)
            if found:
                # its log is read on, so that it never blocks on a full pipe
                threading.Thread(target=daemon.stderr.read, daemon=True).start()
                return found[1]
        raise AssertionError(f"{name} ended with {daemon.wait()}")

    def executors(self) -> list[int]:
        """The processes that the workers have started for applications."""
        parents = {daemon.pid for daemon in self._daemons}
        return [pid for pid, parent in _processes() if parent in parents]

    def kill_executor(self, application: str, number: str) -> None:
        """Kill the process of an executor of an application."""
        for pid in self.executors():
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if application in words and words[words.index("--executor-id") + 1] == number:
                os.kill(pid, signal.SIGKILL)
                return
        raise AssertionError(f"{application} has no executor {number}")

    def stop(self) -> None:
        """End the daemons, workers first."""
        for daemon in reversed(self._daemons):
            daemon.terminate()
            try:
                daemon.wait(60)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _processes() -> list[tuple[int, int]]:
    """Every process and its parent."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # the name, in parentheses, may hold anything
            found.append(
                (int(status.parent.name), int(status.read_text().rpartition(")")[2].split()[1]))
            )
    return found
