"""INCIDENT_EVENT (26): the log may lack changes.

Source: libs/mysql/binlog/event/control_events.cpp, Incident_event. MariaDB: same. Since 5.1.18.
Replicas stop here: events are missing.
Body:
    2  number    1 = LOST_EVENTS
    1  length of the message; the message
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.events.base import HIDDEN, Event, text_or_hex
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.values.frame import EventFormat, Frame

_NAMES = {0: "NONE", 1: "LOST_EVENTS"}


@dataclass(slots=True)
class IncidentEvent(Event):
    """The log is incomplete from here on; `number` is the reason as a code, `message` as text."""

    renders = {"message_raw": HIDDEN}
    extra_fields = ("message", "incident")

    number: int
    message_raw: bytes | None

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        number = reader.u16("number")
        # MariaDB also accepts an event without a message (sql/log_event.cc, Incident_log_event).
        return cls(frame, number, reader.short("message") if reader.left else None)

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        writer.u16("number", self.number)
        if self.message_raw is not None:
            writer.short("message", self.message_raw)

    @property
    def message(self) -> str:
        """The server's message, "" if there is none."""
        return text_or_hex(self.message_raw or b"")

    @property
    def incident(self) -> str:
        """The server's name of `number`."""
        return _NAMES.get(self.number, f"UNKNOWN_{self.number}")
