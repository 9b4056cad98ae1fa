"""Decode one table of a log to Arrow, checksums verified: decode.py FILE TABLE [COLUMN,COLUMN…].

Both images of updates are decoded, JSON to text. Prints one JSON line: seconds of the work
itself (imports excluded), rows and Arrow bytes. Options come as NAME=VALUE arguments.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

# Imported before the clock starts: `wall` in the results is that of the whole process.
import pyarrow as pa

import binlake
import binlake.api
import binlake.table.checks.column_check
import binlake.table.reading


def main() -> None:
    """Measure and print."""
    path, table, *rest = sys.argv[1:]
    options: dict[str, Any] = dict(arg.split("=", 1) for arg in rest)
    options.setdefault("before", "true")
    started = time.perf_counter()
    log = binlake.open(path, **options)
    rows = arrow_bytes = 0
    for batch in log.changes(table):
        rows += batch.num_rows
        arrow_bytes += batch.nbytes
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "rows": rows, "arrow_bytes": arrow_bytes,
                      "arrow_threads": pa.cpu_count(), "ledger": log.ledger.to_json()}))  # fmt: skip


if __name__ == "__main__":
    main()
