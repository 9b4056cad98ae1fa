"""Lookups in a row index: mirror_index.py ENTRIES DIRECTORY, of 128-bit keys.

The index is made as a mirror makes it, of data files with four million rows. Then each of five rounds looks up a million keys
that are scattered over the index, and adds the rows that replace them, as a round of a million updates does. Prints
the median of the CPU time of a round, of all threads, and of the time that has passed, and the most resident memory that it saw in the rounds.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.processes import PeakMemory
from binlake.mirror.iceberg.row_index import RowIndex
from binlake.mirror.tables.keys import Keys, sorted_keys

_FILE_ROWS = 4_000_000
_WANTED = 1_000_000
_ROUNDS = 5


def main() -> None:
    """Measure and print."""
    entries, scratch = int(sys.argv[1]), Path(sys.argv[2])
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        index = RowIndex(Path(directory))
        samples = []
        for first in range(0, entries, _FILE_ROWS):
            rows = min(_FILE_ROWS, entries - first)
            high, low = random.integers(0, np.iinfo(np.uint64).max, (2, rows), np.uint64)
            keys = Keys(high, low)
            samples.append(keys.take(random.integers(0, rows, rows * _WANTED // entries)))
            index.add(f"{first}.parquet", sorted_keys(keys))
            del high, low, keys
        wanted = Keys.joined(samples)
        wanted = wanted.take(random.permutation(len(wanted)))
        found, added, elapsed = [], [], []
        with PeakMemory() as peak:
            for number in range(_ROUNDS):
                at, began = time.monotonic(), time.process_time()
                rows_found, _ = index.find(wanted)
                found.append(time.process_time() - began)
                if len(rows_found) < len(wanted):
                    raise SystemExit(f"only {len(rows_found)} of {len(wanted)} keys were found")
                began = time.process_time()
                index.add(f"round-{number}.parquet", sorted_keys(wanted))
                added.append(time.process_time() - began)
                elapsed.append(time.monotonic() - at)
    lookup, adding = statistics.median(found), statistics.median(added)
    print(json.dumps({
        "seconds": lookup + adding, "lookup_cpu_seconds": lookup, "adding_cpu_seconds": adding,
        "keys_per_cpu_second": round(len(wanted) / (lookup + adding)),
        "elapsed_seconds": statistics.median(elapsed), "resident_bytes": peak.bytes,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
