"""ROTATE_EVENT (4): names the next log file.

Source: libs/mysql/binlog/event/control_events.cpp, Rotate_event; formats.md §1.5, §11.
MariaDB: same. Since 3.23. Written as the last event of a file; the copy that a source sends at
the start of a stream is ARTIFICIAL, has timestamp 0 and names the file that follows. In a
relay log the source's rotations lie in the middle of the file.
Body:
    8     position   first byte to read in that file; 4 except in artificial ones
    rest  next_file  no terminator
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.events.base import BodyReader, Event, file_name_text
from binlake.values.frame import EventFormat, Frame

__all__ = ["RotateEvent"]


@dataclass(slots=True)
class RotateEvent(Event):
    """Names the next log file and the byte offset at which reading goes on there."""

    position: int
    next_file: str

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        position = reader.u64("position")
        return cls(frame, position, file_name_text(reader.rest("next_file")))
