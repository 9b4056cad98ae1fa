"""CPU time and memory of this process and all that it started: a JVM, its Python workers."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Self

__all__ = ["PeakMemory", "cpu_seconds_of_each"]

_EVERY_S = 0.5
# fields of /proc/PID/stat behind the name
_PARENT, _OWN_CPU, _CPU = 1, slice(11, 13), slice(11, 15)


def _fields() -> dict[int, list[str]]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                found[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
    return found


def _family(fields: dict[int, list[str]], first: int) -> list[int]:
    """The numbers of a process and its descendants."""
    children = defaultdict(list)
    for pid, of in fields.items():
        children[int(of[_PARENT])].append(pid)
    family = [first]
    for pid in family:
        family += children[pid]
    return family


def _cpu_seconds() -> float:
    """User and system time of this process and its descendants so far, that of ended children included."""
    fields = _fields()
    ticks = sum(int(tick) for pid in _family(fields, os.getpid()) for tick in fields[pid][_CPU])
    return ticks / os.sysconf("SC_CLK_TCK")


def cpu_seconds_of_each(but: int) -> dict[int, float]:
    """User and system time so far of this process and each descendant, without process `but` and its descendants.

    Differences of these stay right when a process ends, other than differences of the sum with ended children.
    """
    fields = _fields()
    wanted = set(_family(fields, os.getpid())) - set(_family(fields, but))
    per_second = os.sysconf("SC_CLK_TCK")
    return {pid: sum(map(int, fields[pid][_OWN_CPU])) / per_second for pid in wanted}


def _resident_bytes() -> int:
    """Resident memory of the family; a page that several of them share counts once."""
    size = 0
    for pid in _family(_fields(), os.getpid()):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    size += int(line.split()[1]) * 1024
    return size


class PeakMemory:
    """Looks at the memory twice a second while it is entered; `bytes` is the most it saw.

    A look walks the page tables of the whole family, which takes CPU time: `cpu_seconds` leaves it out.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._own_cpu = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.is_set():
            self.bytes = max(self.bytes, _resident_bytes())
            self._own_cpu = time.thread_time()
            self._over.wait(_EVERY_S)

    def cpu_seconds(self) -> float:
        """User and system time of the family so far, that of ended children included, without the looks."""
        return _cpu_seconds() - self._own_cpu

    @property
    def look_seconds(self) -> float:
        """CPU time of the looks so far."""
        return self._own_cpu

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
