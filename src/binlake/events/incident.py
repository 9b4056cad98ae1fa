"""INCIDENT_EVENT (26): something happened that the log does not hold.

Source: libs/mysql/binlog/event/control_events.cpp, Incident_event. MariaDB: same. Since 5.1.18.
Replicas stop here: events are missing.
Body:
    2  number    1 = LOST_EVENTS
    1  length of the message; the message
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from binlake.events.base import BodyReader, Event, text_or_hex
from binlake.values.frame import EventFormat, Frame

__all__ = ["IncidentEvent"]

_NAMES = {0: "NONE", 1: "LOST_EVENTS"}


@dataclass(slots=True)
class IncidentEvent(Event):
    """The log is incomplete from here on; `number` says why in code, `message` in words."""

    extra_fields: ClassVar[tuple[str, ...]] = ("incident",)

    number: int
    message: str

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        number = reader.u16("number")
        # MariaDB takes an event without a message too (sql/log_event.cc, Incident_log_event).
        message = text_or_hex(reader.short("message")) if reader.left else ""
        return cls(frame, number, message)

    @property
    def incident(self) -> str:
        """The server's name of `number`."""
        return _NAMES.get(self.number, f"UNKNOWN_{self.number}")
