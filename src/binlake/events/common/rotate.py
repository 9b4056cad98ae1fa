"""ROTATE_EVENT (4): names the next log file.

Source: libs/mysql/binlog/event/control_events.cpp, Rotate_event.
MariaDB: same. Since 3.23. Written as the last event of a file; the copy that a source sends at
the start of a stream is ARTIFICIAL, has timestamp 0 and names the file that follows. In a relay
log, the source's ROTATE events can be anywhere in the file.
Body:
    8     position   first byte to read in that file; 4 except in artificial ones; not in logs
                     of version 1
    rest  next_file  no terminator
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.events.base import HIDDEN, Event, file_name_text
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.format.magic import FIRST_EVENT
from binlake.values.frame import EventFormat, Frame

# Where the first event of a file begins: after the magic.


@dataclass(slots=True)
class RotateEvent(Event):
    """Name the next log file and the byte offset at which reading continues in it."""

    renders = {"next_file_raw": HIDDEN}
    extra_fields = ("next_file",)

    position: int
    next_file_raw: bytes

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        position = reader.u64("position") if _has_position(fmt) else FIRST_EVENT
        return cls(frame, position, reader.rest("next_file"))

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        if _has_position(fmt):
            writer.u64("position", self.position)
        writer.rest("next_file", self.next_file_raw)

    @property
    def next_file(self) -> str:
        """The name of the next log file, with a directory if the event has one."""
        return file_name_text(self.next_file_raw)


def _has_position(fmt: EventFormat | None) -> bool:
    return fmt is None or fmt.binlog_version > 1
