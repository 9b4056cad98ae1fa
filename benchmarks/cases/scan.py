"""Headers and checksums only: scan.py FILE frames|crc32. `crc32` is zlib over the same events.

`frames` reads every event through `LogFile.windows` (framing, CRC32 verified); `crc32` reads
the same windows of the file and only computes zlib's CRC over each, the least that any
verifying reader must do.
"""

from __future__ import annotations

import json
import sys
import time
import zlib

from binlake.source.chain import resolve
from binlake.values.ledger import Ledger


def frames(path: str) -> int:
    events = 0
    for chain in resolve([path]):
        for file in chain.files:
            for window in file.windows(ledger=Ledger()):
                events += len(window.block)
    return events


def crc32(path: str) -> int:
    buffer = bytearray(8 << 20)
    view = memoryview(buffer)
    total = 0
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total ^= zlib.crc32(view[:count])
    return total


def main() -> None:
    path, what = sys.argv[1:]
    started = time.perf_counter()
    result = {"frames": frames, "crc32": crc32}[what](path)
    print(json.dumps({"seconds": time.perf_counter() - started, "result": result}))


if __name__ == "__main__":
    main()
