"""The cost of a command that reads a file. It runs as users run it, as a separate process."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

from support.logs import costly_events, costly_logs, costly_tables

__all__ = ["COMMANDS", "MOST_MEMORY_KB", "cost", "saved"]

MOST_MEMORY_KB = 300 << 10
MOST_CPU_S = 180  # only ends what takes minutes
COMMANDS = (
    ("stats",), ("rows",), ("rows", "-f", "arrow"), ("inspect",), ("verify",), ("mysqlbinlog", "-v"),
)  # fmt: skip


def cost(folder: Path, *argv: str) -> tuple[int, int, str]:
    """Exit code (negative: a signal), the most memory in kB, and stderr of a command."""
    command = [sys.executable, "-m", "binlake.cli.main", *argv]
    report = folder / "cost.json"
    launcher = Path(__file__).parents[3] / "dev" / "peak_memory.py"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))

    done = subprocess.run(
        [sys.executable, "-S", str(launcher), str(report), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=limit,
        check=True,
    )
    measured = json.loads(report.read_text())
    return measured["code"], measured["peak_memory_bytes"] >> 10, done.stderr.decode()


def saved(folder: Path, name: str) -> str:
    path = folder / f"{name}.000001"
    if not path.exists():
        modules = (costly_logs, costly_tables, costly_events)
        [module] = [one for one in modules if name in one.SHAPES]
        path.write_bytes(getattr(module, name)())
        assert path.stat().st_size <= 1 << 20
    return str(path)
