"""XID_EVENT (16): commit of a transaction in an engine that can do two-phase commit.

Source: libs/mysql/binlog/event/control_events.cpp, Xid_event. MariaDB: same. Since 5.0.
Body:
    8  xid  in the byte order of the source host (little-endian wherever servers run today)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.events.base import BodyReader, Event
from binlake.values.frame import EventFormat, Frame

__all__ = ["XidEvent"]


@dataclass(slots=True)
class XidEvent(Event):
    """Commits the open transaction; `xid` is the server's internal number of it."""

    xid: int

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        return cls(frame, reader.u64("xid"))
