"""Make one log of many gigabytes: `python -m dev.long_log SOURCE TARGET --gigabytes 20`.

SOURCE is a log of MySQL with checksums (`dev/bench_log.py` makes one). TARGET begins with its first
events and repeats its large transactions, with GTIDs that go on counting and positions and
checksums that are right, so that every command takes it for a log that a server wrote.
"""

from __future__ import annotations

import argparse
import struct
import zlib
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

_HEADER_BYTES, _CHECKSUM_BYTES = 19, 4
_GTID_EVENT, _XID_EVENT = 33, 16
_GNO_AT = _HEADER_BYTES + 17  # behind flags and UUID
_LEAST_BYTES = 64 << 10  # of a transaction: few events make many bytes
_POSITIONS = 1 << 32  # the header has 32 bits for them


def events_of(log: bytes) -> Iterator[bytes]:
    """The events of a log, without their checksums."""
    at = 4
    while at < len(log):
        size = int.from_bytes(log[at + 9 : at + 13], "little")
        yield log[at : at + size - _CHECKSUM_BYTES]
        at += size


def parts_of(log: bytes) -> tuple[list[bytes], list[list[bytes]]]:
    """The events before the first transaction, and the large transactions."""
    head: list[bytes] = []
    transactions: list[list[bytes]] = []
    current: list[bytes] | None = None
    for event in events_of(log):
        if event[4] == _GTID_EVENT:
            current = []
        if current is None:
            head.append(event)
            continue
        current.append(event)
        if event[4] == _XID_EVENT and sum(map(len, current)) >= _LEAST_BYTES:
            transactions.append(current)
    return head, transactions


def make(source: Path, target: Path, size: int) -> int:
    """Write the log; returns how many transactions it has."""
    head, transactions = parts_of(source.read_bytes())
    offset = count = 0
    with target.open("wb") as file:
        offset += file.write(b"\xfebin")
        for event in head:
            offset += file.write(_placed(event, offset))
        for transaction in cycle(transactions):
            count += 1
            for event in transaction:
                if event[4] == _GTID_EVENT:
                    gno = struct.pack("<q", count)
                    event = event[:_GNO_AT] + gno + event[_GNO_AT + 8 :]
                offset += file.write(_placed(event, offset))
            if offset >= size:
                return count
    raise ValueError(f"{source} has no transaction of {_LEAST_BYTES} bytes")


def _placed(event: bytes, offset: int) -> bytes:
    """An event at an offset of the file, with its checksum."""
    end = (offset + len(event) + _CHECKSUM_BYTES) % _POSITIONS
    placed = event[:13] + struct.pack("<I", end) + event[17:]
    return placed + struct.pack("<I", zlib.crc32(placed))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--gigabytes", type=float, default=20)
    given = parser.parse_args()
    made = make(given.source, given.target, int(given.gigabytes * 1_000_000_000))
    print(f"{given.target}: {given.target.stat().st_size:,} bytes, {made:,} transactions")
