"""HEARTBEAT_LOG_EVENT (27) and HEARTBEAT_LOG_EVENT_V2 (41): the source is alive.

Sent in streams only. Source: libs/mysql/binlog/event/control_events.cpp, Heartbeat_event and
Heartbeat_event_v2; MariaDB sql/log_event.cc, Heartbeat_log_event; formats.md §8.
Body of 27:
    8     position   MariaDB only, and only when the header's log_pos is 0
    rest  file       the log being sent; otherwise the header's log_pos is the position
Body of 41: entries (type, length, value), all lenenc, until type 0:
    1     file
    2     position   a lenenc number
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.events.base import BodyReader, Event, file_name_text
from binlake.values.frame import EventFormat, Frame

__all__ = ["HeartbeatEvent", "HeartbeatV2Event"]

_V2_END = 0
_V2_FILE = 1
_V2_POSITION = 2


@dataclass(slots=True)
class HeartbeatEvent(Event):
    """Where the source stands: `position` is a byte offset in `file`."""

    position: int
    file: str

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        position = frame.log_pos
        if position == 0 and fmt is not None and fmt.flavour == "mariadb":
            position = reader.u64("position")
        return cls(frame, position, file_name_text(reader.rest("file")))


@dataclass(slots=True)
class HeartbeatV2Event(Event):
    """Where the source stands; `position` is 64 bits wide here. Unknown entries are skipped."""

    position: int
    file: str

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        position = 0
        file = ""
        while True:
            kind = reader.lenenc("type")
            if kind == _V2_END:
                return cls(frame, position, file)
            with reader.block("value", reader.at("length").length()):
                if kind == _V2_FILE:
                    file = file_name_text(reader.rest("file"))
                elif kind == _V2_POSITION:
                    position = reader.lenenc("position")
