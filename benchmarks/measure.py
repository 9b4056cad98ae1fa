"""Run commands as whole processes and keep what the operating system says of them."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Measured", "machine", "measure"]

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Measured:
    """Medians over the counted runs of one command.

    `seconds` is what the program itself timed (its work, without start-up) where it prints a
    JSON line with that key, else the wall time; `wall_seconds`, `cpu_seconds` and
    `peak_memory_bytes` are the operating system's figures for the whole process.
    """

    name: str
    command: str
    runs: int
    seconds: float
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    seconds_each: list[float] = field(default_factory=list)
    output: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _without_folders(word: str) -> str:
    """A word of a command without the folders of this machine, also in the URL of a socket."""
    user, slash, socket = word.partition("%2F")
    if slash:
        return user + socket.rpartition("%2F")[2]
    return Path(word).name if os.sep in word else word


def _once(command: Sequence[str], env: dict[str, str], keep: bool) -> tuple[float, float, int, str]:
    started = time.perf_counter()
    out = subprocess.PIPE if keep else subprocess.DEVNULL
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=out, stderr=errors, env=env)
        text = process.stdout.read().decode() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            said = errors.read().decode(errors="replace")[-2000:]
            raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}\n{said}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, text


def measure(
    name: str,
    command: Sequence[str | Path],
    *,
    runs: int = 5,
    warmup: int = 1,
    env: dict[str, str] | None = None,
    keep_output: bool = True,
) -> Measured:
    """Run a command `warmup` + `runs` times; medians of the counted runs."""
    words = [str(word) for word in command]
    # cases may start real servers, with what is in dev/
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(env or {})}
    # installed packages have their bytecode, so that no start compiles 250 modules
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for _ in range(warmup):
        _once(words, environment, keep_output)
    results = [_once(words, environment, keep_output) for _ in range(runs)]
    outputs = [_last_json(text) for *_, text in results]
    own = [o.get("seconds", wall) for o, (wall, *_) in zip(outputs, results, strict=True)]
    return Measured(
        name=name,
        command=" ".join(map(_without_folders, words)),
        runs=runs,
        seconds=statistics.median(own),
        wall_seconds=statistics.median(r[0] for r in results),
        cpu_seconds=statistics.median(r[1] for r in results),
        peak_memory_bytes=max(r[2] for r in results),
        seconds_each=[round(s, 4) for s in own],
        output=outputs[-1],
    )


def _last_json(text: str) -> dict[str, Any]:
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            parsed: dict[str, Any] = json.loads(line)
            return parsed
    return {}


def machine() -> dict[str, Any]:
    """The machine of the measurements."""
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory / (1 << 30), 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
