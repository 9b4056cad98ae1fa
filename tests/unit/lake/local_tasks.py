"""Tasks that the workers of a local engine import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from binlake.errors import ChecksumError
from binlake.lake.engine import Task


class Echo(Task):
    """Returns its number and the process that it ran in."""

    def __init__(self, number: int) -> None:
        self.number = number

    def run(self) -> str:
        print("a library prints this")
        return f"{self.number} {os.getpid()}"


class Fails(Task):
    """Fails, once there is a file."""

    def __init__(self, number: int, waits_for: Path | None = None) -> None:
        self.number = number
        self.waits_for = waits_for

    def run(self) -> str:
        while self.waits_for is not None and not self.waits_for.exists():
            time.sleep(0.01)
        raise ChecksumError(f"task {self.number}", file="binlog.000007", event_pos=4)


class Writes(Task):
    """Makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self) -> str:
        self.path.write_text(str(os.getpid()))
        return ""


class Dies(Task):
    """Kills its process."""

    def run(self) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return ""


class Waits(Task):
    """Makes a file, and then waits until it is not wanted any more."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self) -> str:
        self.path.write_text("")
        while True:
            self.check_wanted()
            time.sleep(0.001)


class Stuck(Task):
    """Writes the number of its process, and never ends."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self) -> str:
        self.path.write_text(str(os.getpid()))
        while True:
            time.sleep(60)
