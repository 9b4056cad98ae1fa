"""PARTIAL_ROW_DATA_EVENT (172): a fragment of a rows event that was too long (MariaDB 12.3).

Source: MariaDB's protocol documentation, PARTIAL_ROW_DATA_EVENT (MDEV-32570). We had no log with
such events. The fragments follow one another; the TABLE_MAP comes before the
first. The pages disagree whether the last fragment is one too or a plain rows event, and do not
state whether the joined bytes begin with the rows event's own header.
Body:
    4     total          number of fragments
    4     sequence       of this one, from 1
    1     flags          bit 0: the size follows
    8     original_size  bytes of the rows event; in the first fragment
    rest  chunk
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.events.base import HIDDEN, Event, bits
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.values.frame import EventFormat, Frame

_HAS_SIZE = 0x01


@dataclass(slots=True)
class PartialRowDataEvent(Event):
    """One of `total` pieces of a rows event of `original_size` bytes (None after the first)."""

    renders = {"flags": bits({_HAS_SIZE: "ORIG_EVENT_SIZE"}), "chunk": HIDDEN}
    extra_fields = ("chunk_bytes",)

    total: int
    sequence: int
    flags: int
    original_size: int | None
    chunk: memoryview

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        total = reader.u32("total")
        sequence = reader.u32("sequence")
        flags = reader.u8("flags")
        size = reader.u64("original_size") if flags & _HAS_SIZE else None
        return cls(frame, total, sequence, flags, size, reader.rest_view("chunk"))

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        writer.u32("total", self.total)
        writer.u32("sequence", self.sequence)
        writer.u8("flags", self.flags)
        if self.flags & _HAS_SIZE:
            writer.u64("original_size", self.original_size or 0)
        writer.rest("chunk", self.chunk)

    @property
    def chunk_bytes(self) -> int:
        """Length of the piece."""
        return self.chunk.nbytes
