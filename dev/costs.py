"""Measure the cost of hostile logs of at most 1 MB for each command: `python -m dev.costs [SHAPE …]`.

Makes the logs of tests/support/logs/costly_*.py, reads each with every command and prints processor
time beyond that of the same command on a small log, and the most memory:

    shape                    stats            rows     …
    wide_tables          0.3 s  98       1.2 s 120     …

A cell with `!` is above 2 s or 300 MB; `x1` is an exit code. Measure on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

MOST_SECONDS = 2.0
MOST_MB = 300
ENDS_AFTER_S = 60  # of processor time

_TESTS = Path(__file__).parents[1] / "tests"
_CHANGES = """
import sys, binlake
for batch in binlake.open(sys.argv[1]).changes():
    pass
"""

COMMANDS: dict[str, tuple[str, ...]] = {
    "stats": ("stats", "LOG"),
    "inspect": ("inspect", "LOG"),
    "inspect --json": ("inspect", "--json", "LOG"),
    "rows": ("rows", "LOG"),
    "rows --table": ("rows", "--table", "shop.t*", "LOG"),
    "sql": ("sql", "LOG"),
    "sql --undo": ("sql", "--undo", "LOG"),
    "mysqlbinlog -v": ("mysqlbinlog", "-v", "LOG"),
    "mysqlbinlog -vv": ("mysqlbinlog", "-vv", "LOG"),
    "schema": ("schema", "LOG"),
    "verify": ("verify", "LOG"),
    "index": ("index", "--again", "LOG"),
    "query": ("query", "SELECT max(length(after)) FROM changes", "LOG"),
    "stats --html": ("stats", "--html", "PAGE", "LOG"),
    "export": ("export", "--engine", "local", "LOG", "DIR"),
}  # fmt: skip


def measure(folder: Path, command: str, log: Path) -> tuple[int, float, int]:
    """Exit code, seconds of processor time and megabytes that a command takes."""
    target = folder / "export"
    shutil.rmtree(target, ignore_errors=True)
    places = {"LOG": str(log), "DIR": str(target), "PAGE": str(folder / "page.html")}
    if command == "changes":
        argv = [sys.executable, "-c", _CHANGES, str(log)]
    else:
        words = [places.get(word, word) for word in COMMANDS[command]]
        argv = [sys.executable, "-m", "binlake.cli.main", *words]
    report = folder / "report.json"
    launcher = Path(__file__).with_name("peak_memory.py")
    subprocess.run(
        [sys.executable, "-S", str(launcher), str(report), *argv],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (ENDS_AFTER_S, ENDS_AFTER_S)),
        check=True,
    )
    found = json.loads(report.read_text())
    log.with_name(log.name + ".idx").unlink(missing_ok=True)
    return found["code"], found["cpu_seconds"], found["peak_memory_bytes"] >> 20


def shapes(modules: list[ModuleType]) -> dict[str, ModuleType]:
    """The makers of logs, by name."""
    return {name: module for module in modules for name in module.SHAPES}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", nargs="*")
    parser.add_argument("--command", action="append", help="only this command")
    given = parser.parse_args()
    sys.path.insert(0, str(_TESTS))
    from support.logs import costly_events, costly_logs, costly_tables

    makers = shapes([costly_logs, costly_tables, costly_events])
    commands = given.command or [*COMMANDS, "changes"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = folder / "small.000001"
        base.write_bytes(costly_logs.many_tables(1))
        start = {command: measure(folder, command, base)[1] for command in commands}
        print("shape".ljust(24), *(command.rjust(16) for command in commands))
        print("(start)".ljust(24), *(f"{start[c]:14.1f} s" for c in commands), flush=True)
        for shape in given.shape or makers:
            log = folder / f"{shape}.000001"
            log.write_bytes(getattr(makers[shape], shape)())
            print(f"{shape} {log.stat().st_size >> 10}k".ljust(24), end="", flush=True)
            for command in commands:
                code, seconds, megabytes = measure(folder, command, log)
                seconds -= start[command]
                high = seconds > MOST_SECONDS or megabytes > MOST_MB
                told = f"x{code} " if code else ""
                print(
                    f"{told}{seconds:.1f} s {megabytes}{'!' if high else ''}".rjust(17),
                    end="",
                    flush=True,
                )
            print(flush=True)
            log.unlink()


if __name__ == "__main__":
    main()
