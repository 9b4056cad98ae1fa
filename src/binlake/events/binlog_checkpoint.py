"""BINLOG_CHECKPOINT_EVENT (161): the oldest file that crash recovery may need (MariaDB 10.0).

Source: MariaDB sql/log_event.cc, Binlog_checkpoint_log_event.
Body:
    4  length of the name
    n  file
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.events.base import BodyReader, Event, file_name_text
from binlake.values.frame import EventFormat, Frame

__all__ = ["BinlogCheckpointEvent"]


@dataclass(slots=True)
class BinlogCheckpointEvent(Event):
    """XA recovery can start from `file`."""

    file: str

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        length = reader.u32("file_length")
        return cls(frame, file_name_text(reader.take("file", length)))
