"""`binlake mirror` as a command, ended by kill -9 after it has committed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

from dev.servers import Server
from support.servers.live import url_of
from support.spark.mirrored import Lake, iceberg_jar
from support.spark.spark_processes import environment

__all__ = ["command", "kill_once_committed"]

PATIENCE_S = 300


def command(server: Server, lake: Lake, *options: str) -> subprocess.Popen[bytes]:
    """The command, in a process group of its own."""
    words = [
        *(sys.executable, "-m", "binlake_program", "mirror", url_of(server), str(lake.folder)),
        *("--table", "shop.*", "--interval", "0.05", *options),
        *("--master", "local[2]", "--iceberg-jar", str(iceberg_jar())),
    ]
    with (lake.folder.parent / "mirror.log").open("ab") as log:
        return subprocess.Popen(
            words, stdout=log, stderr=log, env=environment(), start_new_session=True
        )


def kill_once_committed(process: subprocess.Popen[bytes], lake: Lake, table: str) -> None:
    """End the command with -9 as soon as it has committed a round of a table."""
    hint = lake.folder / table / "metadata" / "version-hint.text"
    deadline = time.monotonic() + PATIENCE_S
    while not hint.exists() or int(hint.read_text() or 0) < 4:
        said = (lake.folder.parent / "mirror.log").read_text()
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
