"""HEARTBEAT_LOG_EVENT (27) and HEARTBEAT_LOG_EVENT_V2 (41): the source is alive.

Sent in streams only. Source: libs/mysql/binlog/event/control_events.cpp, Heartbeat_event and
Heartbeat_event_v2; MariaDB sql/log_event.cc, Heartbeat_log_event.
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

from binlake.events.base import HIDDEN, Event, file_name_text
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter, lenenc_bytes
from binlake.values.frame import EventFormat, Frame

_V2_END = 0
_V2_FILE = 1
_V2_POSITION = 2


@dataclass(slots=True)
class HeartbeatEvent(Event):
    """The position of the source: `position` is a byte offset in `file`."""

    renders = {"file_raw": HIDDEN}
    extra_fields = ("file",)

    position: int
    file_raw: bytes

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        position = reader.u64("position") if _in_body(frame, fmt) else frame.log_pos
        return cls(frame, position, reader.rest("file"))

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        if _in_body(self.frame, fmt):
            writer.u64("position", self.position)
        writer.rest("file", self.file_raw)

    @property
    def file(self) -> str:
        """The log being sent."""
        return file_name_text(self.file_raw)


@dataclass(slots=True)
class HeartbeatV2Event(Event):
    """The position of the source; `position` has 64 bits here.

    `unknown` are entries of later servers, as (type, value).
    """

    renders = {"file_raw": HIDDEN, "unknown": HIDDEN}
    extra_fields = ("file",)

    position: int
    file_raw: bytes
    unknown: tuple[tuple[int, bytes], ...] = ()

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        position = 0
        file = b""
        unknown: tuple[tuple[int, bytes], ...] = ()
        while True:
            kind = reader.lenenc("type")
            if kind == _V2_END:
                return cls(frame, position, file, unknown)
            with reader.block("value", reader.at("length").length()):
                if kind == _V2_FILE:
                    file = reader.rest("file")
                elif kind == _V2_POSITION:
                    position = reader.lenenc("position")
                else:
                    unknown += ((kind, reader.rest("value")),)

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        known = ((_V2_FILE, self.file_raw), (_V2_POSITION, lenenc_bytes(self.position)))
        for kind, value in known + self.unknown:
            writer.lenenc("type", kind)
            writer.counted("value", value)
        writer.lenenc("type", _V2_END)

    @property
    def file(self) -> str:
        """The log being sent."""
        return file_name_text(self.file_raw)


def _in_body(frame: Frame, fmt: EventFormat | None) -> bool:
    """Whether the position is in the body of a HEARTBEAT_LOG_EVENT, not in its header."""
    return frame.log_pos == 0 and fmt is not None and fmt.flavour == "mariadb"
