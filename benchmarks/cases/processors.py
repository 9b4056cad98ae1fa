"""How much faster two processors are than one on this machine: processors.py.

Two processes compute zlib.crc32 of a buffer in the cache, at the same time, beside one process alone. Two processors
that share one core (hyper-threads, as most virtual machines have them) give less than 2. No decoder with two threads
can gain more. Prints one JSON line: seconds of the two processes, and `speed_up`.
"""

from __future__ import annotations

import json
import statistics
import time
import zlib
from multiprocessing import get_context
from multiprocessing.pool import Pool

_BUFFER_BYTES = 16 << 10
_TIMES = 60_000


def work(_number: int) -> None:
    """Compute checksums for about a quarter of a second."""
    buffer = bytes(_BUFFER_BYTES)
    for _ in range(_TIMES):
        zlib.crc32(buffer)


def main() -> None:
    """Measure and print."""
    with get_context("fork").Pool(2) as pool:
        took = {
            count: statistics.median(_seconds(pool, count) for _ in range(3)) for count in (1, 2)
        }
    print(json.dumps({"seconds": took[2], "speed_up": 2 * took[1] / took[2]}))


def _seconds(pool: Pool, count: int) -> float:
    started = time.perf_counter()
    pool.map(work, range(count), chunksize=1)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
