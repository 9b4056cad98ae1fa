"""A standalone Spark cluster whose executors each have half of a processor core.

A core is shared by two slots. A slot is a session of its own, and Linux gives the sessions on a busy core
equal shares (`kernel.sched_autogroup_enabled`). Slots without an executor are kept busy, so an
executor has half a core however many there are: on two cores, one, two or four of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pyspark

__all__ = ["SLOTS_OF_A_CORE", "SlottedCluster"]

SLOTS_OF_A_CORE = 2
_HOME = Path(pyspark.__file__).parent
_AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")
_REGISTERED = r"(Successfully registered) with master"
_MASTER = r"Starting Spark master at (spark://\S+)"


class SlottedCluster:
    """A master, and `executors` workers of one task each, in directories of their own."""

    def __init__(self, folder: Path, executors: int) -> None:
        cores = sorted(os.sched_getaffinity(0))
        slots = [core for _ in range(SLOTS_OF_A_CORE) for core in cores]
        if executors > len(slots) or _AUTOGROUP.read_text().strip() != "1":
            raise SystemExit(
                f"{executors} executors need {executors} half cores and kernel.sched_autogroup_enabled=1"
            )
        self._running: list[subprocess.Popen[str]] = []
        common = "--host", "127.0.0.1", "--webui-port", "0"
        try:
            self.url = self._daemon("master.Master", [], [*common, "--port", "0"], _MASTER)
            for number, core in enumerate(slots[:executors]):
                given = [
                    *common,
                    "--cores",
                    "1",
                    "--memory",
                    "1g",
                    "--work-dir",
                    str(folder / f"worker{number}"),
                ]
                self._daemon("worker.Worker", _pinned(core), [*given, self.url], _REGISTERED)
            used = set(slots[:executors])
            for core in slots[executors:]:
                if core in used:  # a core without an executor is left to the driver
                    self._start([*_pinned(core), sys.executable, "-c", "while True: pass"])
        except BaseException:
            self.stop()
            raise

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        environment = {**os.environ, "SPARK_HOME": str(_HOME), "SPARK_DAEMON_MEMORY": "256m"}
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=environment, start_new_session=True,
        )  # fmt: skip
        self._running.append(process)
        return process

    def _daemon(self, name: str, pinned: list[str], given: list[str], until: str) -> str:
        """Start a daemon and wait for a line of its log."""
        program = [str(_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        process = self._start([*pinned, *program, *given])
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(until, line):
                # its log is read on, so that it never blocks on a full pipe
                threading.Thread(target=process.stderr.read, daemon=True).start()
                return found[1]
        raise SystemExit(f"{name} ended with {process.wait()}")

    def stop(self) -> None:
        """End all processes, workers before their master."""
        for process in reversed(self._running):
            process.terminate()
            process.wait()


def _pinned(core: int) -> list[str]:
    return ["taskset", "--cpu-list", str(core)]
