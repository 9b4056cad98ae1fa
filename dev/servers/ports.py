"""Ports of this machine for servers that are started here, stopped, and started again."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from dev.servers.packages import SetupError

__all__ = ["ReservedPort", "await_port"]

_HOST = "127.0.0.1"
_LOWEST = 10_000
_HIGHEST = 32_000  # below what systems choose by themselves, where this cannot be asked
_START_SECONDS = 300  # a deadline only


class ReservedPort:
    """A free port that no other process of this kind gets until `release`.

    It is none that the system hands out by itself: those may be taken while a server is down,
    by any connection, even by the one that tries to reach the server. Raises SetupError.
    """

    def __init__(self) -> None:
        self.number, self._lock = _reserved()

    def release(self) -> None:
        """Let others have it."""
        os.close(self._lock)


def _reserved() -> tuple[int, int]:
    folder = Path(tempfile.gettempdir()) / f"binlake-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    candidates = range(_LOWEST, _first_of_the_system())
    for number in random.sample(candidates, min(len(candidates), 1000)):
        lock = os.open(folder / str(number), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind((_HOST, number))
        except OSError:
            os.close(lock)
            continue
        return number, lock
    raise SetupError(f"no free port from {_LOWEST} on")


def _first_of_the_system() -> int:
    """The first port that the system chooses by itself."""
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        return _HIGHEST
    return first if first > _LOWEST + 1000 else _HIGHEST


def await_port(process: subprocess.Popen[bytes], port: int, what: str) -> None:
    """Wait until a process listens on a port of this machine. Raises SetupError, which names `what`, if it ends before."""
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex((_HOST, port)) == 0:
                return
        time.sleep(0.05)
    raise SetupError(f"{what} did not start")
