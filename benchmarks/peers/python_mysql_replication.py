"""Stream the row events of a server's log with python-mysql-replication: … PORT LOG.

It reads over the replication protocol only, to the end of the log. At some thousand row images a second
that takes minutes.
"""

from __future__ import annotations

import json
import sys
import time

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent


def main() -> None:
    """Measure and print."""
    port, log = int(sys.argv[1]), sys.argv[2]
    stream = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": port, "user": "bench", "passwd": "bench"},
        server_id=4242,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        log_file=log,
        log_pos=4,
        resume_stream=True,
        blocking=False,
    )
    images = 0
    started = time.perf_counter()
    for event in stream:
        if stream.log_file != log:  # the server continues with the next one
            break
        images += len(event.rows) * (2 if isinstance(event, UpdateRowsEvent) else 1)
    seconds = time.perf_counter() - started
    stream.close()
    print(json.dumps({"seconds": seconds, "images": images, "images_per_second": images / seconds}))


if __name__ == "__main__":
    main()
