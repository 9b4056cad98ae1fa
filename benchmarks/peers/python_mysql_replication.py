"""Stream row events from a server with python-mysql-replication: … PORT SECONDS.

It reads over the replication protocol only, and at some thousand row images a second a whole
500 MB log takes minutes; so it is timed for SECONDS and its rate is compared, not its total.
"""

from __future__ import annotations

import json
import sys
import time

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent


def main() -> None:
    """Measure and print."""
    port, limit = int(sys.argv[1]), float(sys.argv[2])
    stream = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": port, "user": "bench", "passwd": "bench"},
        server_id=4242,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        log_file="binlog.000001",
        log_pos=4,
        resume_stream=True,
        blocking=False,
    )
    images = 0
    started = time.perf_counter()
    for event in stream:
        images += len(event.rows) * (2 if isinstance(event, UpdateRowsEvent) else 1)
        if time.perf_counter() - started > limit:
            break
    seconds = time.perf_counter() - started
    stream.close()
    print(json.dumps({"seconds": seconds, "images": images, "images_per_second": images / seconds}))


if __name__ == "__main__":
    main()
