"""Rounds of a mirror in tables of different sizes: mirror_flat.py URL LOGS LAKE FOLDER KEY ROUNDS ROWS..., two cores.

The server in FOLDER runs and has the tables of `benchmarks.flat`. ROUNDS is a list like 2x1000000,20x100000. The rounds of the
tables alternate, so that a machine that becomes slower or faster does so for all tables. Prints for each table and each size
of the rounds the CPU seconds and the seconds for a million changes. Compactions that are due after a round are apart.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.flat import loads
from benchmarks.mirror_load import Load
from benchmarks.mirror_session import followed
from benchmarks.processes import PeakMemory
from binlake.mirror.loop import Mirror

_ROUND_BYTES = 1 << 30  # more than a million changes have, so that they are one round


@dataclass
class _Sum:
    """The sums of the rounds of one size in one table."""

    changes: int = 0
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    compaction_cpu_seconds: float = 0.0

    def as_dict(self) -> dict[str, object]:
        return {
            "changes": self.changes,
            "seconds_per_million": round(sum(self.seconds) / self.changes * 1e6, 2),
            "cpu_seconds_per_million": round(sum(self.cpu_seconds) / self.changes * 1e6, 2),
            "compaction_cpu_seconds_per_million": round(
                self.compaction_cpu_seconds / self.changes * 1e6, 2
            ),
            "seconds": [round(one, 2) for one in self.seconds],
            "cpu_seconds": [round(one, 2) for one in self.cpu_seconds],
        }


def _round(mirror: Mirror, peak: PeakMemory, load: Load, changes: int, into: _Sum) -> None:
    into.changes += load.change(changes)
    began, cpu = time.perf_counter(), peak.cpu_seconds()
    mirror.reach()
    applied = peak.cpu_seconds()
    into.cpu_seconds.append(applied - cpu)
    into.seconds.append(time.perf_counter() - began)
    mirror.tidy()
    into.compaction_cpu_seconds += peak.cpu_seconds() - applied


def main() -> None:
    """Measure and print."""
    url, logs, lake, folder, key, rounds, *rows = sys.argv[1:]
    found = {}
    with (
        followed(url, logs, lake, "*.orders", round_bytes=_ROUND_BYTES) as mirror,
        PeakMemory() as peak,
    ):
        began = time.perf_counter()
        mirror.run(once=True)
        tables = loads(Path(folder), key, list(map(int, rows)))
        for load in tables:  # the first round of a process takes longer
            _round(mirror, peak, load, 10_000, _Sum())
        for size in rounds.split(","):
            count, _, changes = size.partition("x")
            sums = {load.table: _Sum() for load in tables}
            for _ in range(int(count)):
                for load in tables:
                    _round(mirror, peak, load, int(changes), sums[load.table])
            for load in tables:
                here, there = mirror.tables[load.table].lake.rows, load.count()
                if here != there:
                    raise SystemExit(f"{load.table}: the lake has {here} rows, the server {there}")
                found[f"{load.table}, {changes}"] = {"rows": there, **sums[load.table].as_dict()}
        print(json.dumps({"seconds": time.perf_counter() - began, "rounds": found}))


if __name__ == "__main__":
    main()
