"""Headers and checksums only: scan.py FILE frames|crc32|events.

`frames` reads every event through `LogFile.windows` (framing, CRC32 of each event verified);
`crc32` reads the file and computes zlib's CRC over it in stretches of 8 MB. `events` computes
zlib's CRC of every event, as `frames` must, and nothing else.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from pathlib import Path

from binlake.core.events.checksum import first_bad
from binlake.source.log_file import LogFile
from binlake.values.ledger import Ledger


def frames(path: str) -> int:
    """How many events there are; each verified."""
    return sum(len(window) for window in LogFile.open(path).windows(ledger=Ledger()))


def crc32(path: str) -> int:
    """One CRC32 for each stretch read."""
    buffer = bytearray(8 << 20)
    view = memoryview(buffer)
    total = 0
    with Path(path).open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total ^= zlib.crc32(view[:count])
    return total


def events(path: str) -> int:
    """The checksums of all events that are whole in each stretch, by the native loop alone."""
    wrong = 0
    for window in LogFile.open(path).windows(verify=False):
        wrong += first_bad(window.data, window.base, window.block, 0, len(window)) >= 0
    return wrong


def main() -> None:
    """Measure and print."""
    path, what = sys.argv[1:]
    started = time.perf_counter()
    result = {"frames": frames, "crc32": crc32, "events": events}[what](path)
    print(json.dumps({"seconds": time.perf_counter() - started, "result": result}))


if __name__ == "__main__":
    main()
