"""From commit to lake: mirror_freshness.py SERVER CHANGES_PER_SECOND SECONDS IDLE_SECONDS.

A real server changes rows at a rate, ten in a transaction: every other transaction inserts, the others
update. A mirror follows it. Freshness of an inserted row: the time of the lake commit that has it, less the
time of its commit on the server. Prints median and 99th percentile in seconds without the first five seconds,
the rate that the server reached, and then, without writes, the lake's commits and the share of a core that the
mirror takes: this process, its JVM and its Python workers, without the server. The share is measured twice, IDLE_SECONDS
each: in the first part, the JVM still compiles what it ran under load.
"""

from __future__ import annotations

import bisect
import json
import statistics
import sys
import tempfile
import threading
import time
from typing import Any

from benchmarks.mirror_session import followed
from benchmarks.processes import PeakMemory, cpu_seconds_of_each
from binlake.mirror.iceberg.jvm import IcebergTable
from binlake.mirror.loop import Mirror
from dev.servers import Server, running

_PER_TRANSACTION = 10
_WARM_UP_S = 5.0
_TABLE = "shop.t"
_FIRST_ROWS = 100_000
_SETTLED_S = 10.0


class Writer(threading.Thread):
    """Changes rows at a rate; behind it, it catches up as fast as the server allows."""

    def __init__(self, server: Server, changes_per_second: float, seconds: float) -> None:
        super().__init__()
        self._server = server
        self._rate = changes_per_second
        self._seconds = seconds
        self.committed: list[float] = []  # when each inserting transaction was
        self.changes = 0
        self.took_s = 0.0

    def run(self) -> None:
        started = time.monotonic()
        rows = _FIRST_ROWS
        with self._server.session() as connection:
            while (now := time.monotonic() - started) < self._seconds:
                if self.changes > now * self._rate:
                    time.sleep(self.changes / self._rate - now)
                    continue
                ids = [rows + i for i in range(_PER_TRANSACTION)]
                connection.execute(
                    f"INSERT INTO {_TABLE} VALUES {','.join(f'({i}, 0, 0)' for i in ids)}"
                )
                self.committed.append(time.time())
                updated = ",".join(str(i * 7919 % rows) for i in ids)
                connection.execute(f"UPDATE {_TABLE} SET v = v + 1 WHERE id IN ({updated})")
                rows += _PER_TRANSACTION
                self.changes += 2 * _PER_TRANSACTION
        self.took_s = time.monotonic() - started


def ages(writer: Writer, snapshots: list[dict[str, Any]]) -> list[float]:
    """The freshness of each inserting transaction."""
    rows = [
        int(one["summary"]["total-records"]) - int(one["summary"]["total-position-deletes"])
        for one in snapshots
    ]
    found = []
    for number, committed in enumerate(writer.committed):
        if committed > writer.committed[0] + _WARM_UP_S:
            has = bisect.bisect_left(rows, _FIRST_ROWS + (number + 1) * _PER_TRANSACTION)
            found.append(snapshots[has]["committed_ms"] / 1000 - committed)
    return sorted(found)


def wait_for(mirror: Mirror, rows: int) -> None:
    """Until the lake has so many rows."""
    while _TABLE not in mirror.tables or mirror.tables[_TABLE].lake.rows < rows:
        time.sleep(0.1)


def _idle_cpu(server_process: int, peak: PeakMemory, seconds: float) -> float:
    """The share of a core in the next seconds, without the looks at the memory."""
    before, looks = cpu_seconds_of_each(but=server_process), peak.look_seconds
    time.sleep(seconds)
    after = cpu_seconds_of_each(but=server_process)
    spent = sum(cpu - before.get(pid, 0) for pid, cpu in after.items())
    return (spent - (peak.look_seconds - looks)) / seconds


def measured(
    server: Server, mirror: Mirror, peak: PeakMemory, rate: float, seconds: float, idle: float
) -> dict[str, Any]:
    """Write, then rest."""
    wait_for(mirror, _FIRST_ROWS)
    writer = Writer(server, rate, seconds)
    writer.start()
    writer.join()
    wait_for(mirror, _FIRST_ROWS + len(writer.committed) * _PER_TRANSACTION)
    time.sleep(_SETTLED_S)  # the last rewrite of a compaction
    iceberg = mirror.tables[_TABLE].lake.stored
    assert isinstance(iceberg, IcebergTable)
    server_process = int((server.run / "pid").read_text())
    before = iceberg.history()
    first, second = (_idle_cpu(server_process, peak, idle) for _ in range(2))
    found = ages(writer, before)
    return {
        "seconds": statistics.median(found), "p99": found[int(0.99 * (len(found) - 1))],
        "changes": writer.changes, "changes_per_second": round(writer.changes / writer.took_s),
        "idle_commits": len(iceberg.history()) - len(before),
        "idle_cpu_at_first": first, "idle_cpu": second,
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    name, rate, seconds, idle = sys.argv[1], *map(float, sys.argv[2:])
    with (
        running(name, ["--binlog-row-metadata=FULL"]) as server,
        tempfile.TemporaryDirectory() as lake,
    ):
        server.execute(
            "CREATE DATABASE shop",
            f"CREATE TABLE {_TABLE} (id INT PRIMARY KEY, v INT, w BIGINT)",
            "SET cte_max_recursion_depth = 10000000; "
            f"INSERT INTO {_TABLE} WITH RECURSIVE n(i) AS "
            f"(SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {_FIRST_ROWS - 1}) SELECT i, 0, 0 FROM n",
        )
        socket = str(server.run / "server.sock").replace("/", "%2F")
        url = f"mysql://root@{socket}/?option-file=none"
        with followed(url, None, lake, _TABLE) as mirror, PeakMemory() as peak:
            thread = threading.Thread(target=lambda: mirror.run(once=False), daemon=True)
            thread.start()
            found = measured(server, mirror, peak, rate, seconds, idle)
            mirror.stop()
            thread.join()
    print(json.dumps({**found, "resident_bytes": peak.bytes}))


if __name__ == "__main__":
    main()
