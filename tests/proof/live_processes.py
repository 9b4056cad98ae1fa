"""The processes that the proof of exactly-once kills: processes that are started again until all has arrived."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.spark.spark_processes import environment

__all__ = ["Supervised", "archiver", "await_until", "stream_job"]

HERE = Path(__file__).resolve().parent


def await_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until `condition` holds; fails with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.05)


class Supervised:
    """A process with its children in a group of its own, started again when it has ended."""

    def __init__(self, command: list[str], log: Path, variables: dict[str, str]) -> None:
        self.command = command
        self.log = log
        self._variables = variables
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        """Start it; what it says is appended to the log."""
        self.starts += 1
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(**self._variables),
                start_new_session=True,
            )

    @property
    def runs(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def keep(self) -> None:
        """Start it again, if it has ended."""
        if not self.runs:
            self.start()

    def kill(self) -> None:
        """kill -9, of the process and of all that it has started."""
        assert self._process is not None
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""


def archiver(url: str, folder: Path, log: Path, password: str, *options: str) -> Supervised:
    """`binlake archive URL DIR`."""
    command = [sys.executable, "-m", "binlake.cli.main", "archive", url, str(folder), *options]
    return Supervised(command, log, {"BINLAKE_PASSWORD": password})


def stream_job(job: dict[str, Any], log: Path, password: str = "") -> Supervised:
    """A Spark driver that streams into `job["sink"]` (see stream_job.py)."""
    command = [sys.executable, str(HERE / "stream_job.py"), json.dumps(job)]
    return Supervised(command, log, {"BINLAKE_PASSWORD": password} if password else {})
