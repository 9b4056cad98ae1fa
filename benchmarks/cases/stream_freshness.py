"""From commit to sink: stream_freshness.py SERVER directory|server ROWS_PER_SECOND SECONDS.

A real server changes rows at a rate, ten in a transaction. A stream reads it, straight or from the
directory of its logs, into a sink (`foreachBatch`) that notes when it has a row. Freshness of a row:
that time less its commit time (of the same clock). Prints median and 99th percentile in seconds,
without the first five seconds, and the rate that the server reached.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
import time
from typing import Any

from binlake.spark.sessions import session
from dev.servers import Server, running

_PER_TRANSACTION = 10
_WARM_UP_S = 5.0


class Writer(threading.Thread):
    """Changes rows at a rate; behind it, it catches up as fast as the server allows."""

    def __init__(self, server: Server, rows_per_second: float, seconds: float) -> None:
        super().__init__()
        self._server = server
        self._rate = rows_per_second
        self._seconds = seconds
        self.rows = 0
        self.took_s = 0.0

    def run(self) -> None:
        started = time.monotonic()
        with self._server.session() as connection:
            while (now := time.monotonic() - started) < self._seconds:
                if self.rows > now * self._rate:
                    time.sleep(self.rows / self._rate - now)
                    continue
                first = self.rows
                values = ",".join(f"({first + i}, 'x')" for i in range(_PER_TRANSACTION))
                connection.execute(f"INSERT INTO shop.t VALUES {values}")
                self.rows += _PER_TRANSACTION
        self.took_s = time.monotonic() - started


def main() -> None:
    """Measure and print."""
    name, where, rate, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    ages: list[float] = []
    begun = time.time()

    def take(batch: Any, _number: int) -> None:
        times = [row[0] for row in batch.selectExpr("unix_micros(_ts) / 1e6").collect()]
        now = time.time()
        ages.extend(now - committed for committed in times if committed > begun + _WARM_UP_S)

    spark = session(master="local[2]", config={"spark.ui.enabled": "false"})
    spark.range(1).count()
    with (
        running(name, ["--binlog-row-metadata=FULL"]) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        server.execute(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.t (id INT PRIMARY KEY, v CHAR(200))",
            "INSERT INTO shop.t VALUES (-1, '')",
            "CREATE USER reader@localhost, reader@'127.0.0.1'",
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reader@localhost, "
            "reader@'127.0.0.1'",
        )
        stream = spark.readStream.format("binlog").option("table", "shop.t")
        if where == "server":
            stream = stream.option("server", f"mysql://reader@127.0.0.1:{server.port}")
            frame = stream.load()
        else:
            frame = stream.load(str(server.data / "binlog.0*"))
        write = frame.writeStream.foreachBatch(take).option("checkpointLocation", folder)
        query = write.start()
        query.processAllAvailable()
        begun = time.time()
        writer = Writer(server, rate, seconds)
        writer.start()
        writer.join()
        query.processAllAvailable()
        query.stop()
    spark.stop()
    ages.sort()
    print(json.dumps({
        "seconds": statistics.median(ages), "p99": ages[int(0.99 * (len(ages) - 1))],
        "rows": len(ages), "rows_per_second": round(writer.rows / writer.took_s),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
