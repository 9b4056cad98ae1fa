"""Ask logs for something, and time the work without imports: ask.py history|where|columns|query ….

    ask.py history DIRECTORY TABLE KEY     the changes of one row; bytes read, of how many
    ask.py where FILE TABLE CONDITION      the rows that a condition chooses, all columns of them
    ask.py columns FILE TABLE COLUMNS      the rows with some columns only
    ask.py query FILE SQL                  a statement

Prints one JSON line.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import duckdb  # noqa: F401 - imported before the clock starts, as are the others
import pyarrow as pa
import sqlglot.dialects.mysql  # noqa: F401

import binlake
import binlake.stream.index.key_lookup
import binlake.table.checks.column_check
import binlake.table.reading
import binlake.table.where.choosing
from binlake.query.database import LogDatabase
from binlake.source.resolve import resolve
from binlake.values.options import ReadOptions


def bytes_read() -> int:
    """The bytes that this process has read so far, from disk or from the page cache."""
    words = Path("/proc/self/io").read_text().split()
    return int(words[words.index("rchar:") + 1])


def history(directory: str, table: str, key: str) -> dict[str, Any]:
    """Find the changes of a row."""
    logs = sum(path.stat().st_size for path in Path(directory).glob("binlog.??????"))
    before = bytes_read()
    found = sum(1 for _ in binlake.open(directory).history(table, key))
    read = bytes_read() - before
    return {"rows": found, "bytes_read": read, "share": read / logs}


def decode(path: str, table: str, **options: Any) -> dict[str, Any]:
    """Decode rows."""
    return {"rows": sum(batch.num_rows for batch in binlake.open(path, **options).changes(table))}


def query(path: str, sql: str) -> dict[str, Any]:
    """Run a statement."""
    database = LogDatabase(resolve([path]), ReadOptions(), [path])
    [result] = [
        pa.Table.from_batches(batches, schema).to_pylist()
        for schema, batches in (answer.batches() for answer in database.run(sql))
    ]
    return {"result": json.loads(json.dumps(result, default=str))}


def main() -> None:
    """Measure and print."""
    what, path, *words = sys.argv[1:]
    started = time.perf_counter()
    if what == "history":
        found = history(path, *words)
    elif what == "where":
        found = decode(path, words[0], where=words[1])
    elif what == "columns":
        found = decode(path, words[0], columns=words[1])
    else:
        found = query(path, *words)
    print(json.dumps({"seconds": time.perf_counter() - started, **found}))


if __name__ == "__main__":
    main()
