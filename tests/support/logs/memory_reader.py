"""A log that lies in memory."""

from __future__ import annotations

from binlake.source.reader import ByteReader


class MemoryReader(ByteReader):
    """A seekable reader over bytes; knows the largest read."""

    def __init__(self, data: bytes) -> None:
        self.name = "memory/binlog.000001"
        self.data = data
        self.size = len(data)
        self.largest = 0

    def read_at(self, offset: int, size: int) -> bytes:
        data = self.data[offset : offset + size]
        self.largest = max(self.largest, len(data))
        return data

    def close(self) -> None:
        pass
