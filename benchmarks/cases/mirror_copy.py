"""The first copy of a table: mirror_copy.py URL LOGS LAKE TABLE, two cores.

Session start is not timed. Prints seconds, rows, and the CPU time and memory of this process, its JVM
and its Python workers.
"""

from __future__ import annotations

import json
import sys
import time

from benchmarks.mirror_session import followed
from benchmarks.processes import PeakMemory


def main() -> None:
    """Measure and print."""
    url, logs, lake, table = sys.argv[1:]
    with followed(url, logs, lake, table) as mirror, PeakMemory() as peak:
        began, cpu = time.perf_counter(), peak.cpu_seconds()
        mirror.run(once=True)
        seconds, cpu = time.perf_counter() - began, peak.cpu_seconds() - cpu
        rows = mirror.tables[table].lake.rows
    print(json.dumps({
        "seconds": seconds, "rows": rows, "cpu_seconds": round(cpu, 2),
        "rows_per_cpu_second": round(rows / cpu), "resident_bytes": peak.bytes,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
