"""Read the middle 1 % of a log by commit time: window.py FILE TABLE.

The window is taken from the log's own commit times, so that it holds about 1 % of the
transactions. Prints which share of the file's bytes was decoded beyond the header scan.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import binlake


def main() -> None:
    """Measure and print."""
    path, table = sys.argv[1:]
    times = [batch.column("commit_ts") for batch in binlake.open(path).view("transactions")]
    moments = sorted(t for column in times for t in column.cast("int64").to_pylist())
    low, high = moments[len(moments) * 495 // 1000], moments[len(moments) * 505 // 1000]
    bounds = {"since": f"@{low / 1e6:.6f}", "until": f"@{high / 1e6:.6f}"}
    started = time.perf_counter()
    log = binlake.open(path, **bounds)
    rows = sum(batch.num_rows for batch in log.changes(table))
    seconds = time.perf_counter() - started
    share = log.ledger.decoded_bytes / Path(path).stat().st_size
    print(json.dumps({"seconds": seconds, "rows": rows, "decoded_share": share}))


if __name__ == "__main__":
    main()
