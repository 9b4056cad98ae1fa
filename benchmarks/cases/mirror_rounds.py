"""Changes from log files into a lake table: mirror_rounds.py URL LOGS LAKE TABLE ROUND_BYTES CHANGES, two cores.

CHANGES is how many row changes the log has that the lake does not have yet. Session start is not timed.
Prints seconds of everything, those of each round by the times of the lake's commits, the rows of the table
at the end, and the CPU time and memory of this process, its JVM and its Python workers.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time

from benchmarks.mirror_session import followed
from benchmarks.processes import PeakMemory
from binlake.mirror.iceberg.jvm import IcebergTable


def main() -> None:
    """Measure and print."""
    url, logs, lake, table, round_bytes, changes = sys.argv[1:]
    with (
        followed(url, logs, lake, table, round_bytes=int(round_bytes)) as mirror,
        PeakMemory() as peak,
    ):
        began, began_ms, cpu = time.perf_counter(), time.time() * 1000, peak.cpu_seconds()
        mirror.run(once=True)
        seconds, cpu = time.perf_counter() - began, peak.cpu_seconds() - cpu
        here = mirror.tables[table].lake
        rows = here.rows
        assert isinstance(here.stored, IcebergTable)
        times = [began_ms] + [
            one["committed_ms"] for one in here.stored.history()
            if one["committed_ms"] > began_ms and one["operation"] != "replace"
        ]  # fmt: skip
    rounds = [(later - first) / 1000 for first, later in itertools.pairwise(times)]
    most = max(1, len(rounds) // 4)
    print(json.dumps({
        "seconds": seconds, "rows": rows, "changes": int(changes),
        "changes_per_second": round(int(changes) / seconds),
        "cpu_seconds_per_million": round(cpu / int(changes) * 1e6, 2),
        "resident_bytes": peak.bytes, "rounds": len(rounds), "round_seconds": rounds,
        "last_quarter": statistics.median(rounds[-most:]) / statistics.median(rounds[:most]),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
