"""Events that have no typed class: named where the name is known, their bytes kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.events.base import BodyReader, Event
from binlake.values.frame import EventFormat, Frame

__all__ = ["RawEvent"]


@dataclass(slots=True)
class RawEvent(Event):
    """An event of a type that is unknown, or known and not typed: nothing is lost of it.

    `body` is everything between the common header and the checksum.
    """

    body: bytes

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        return cls(frame, reader.rest("body"))
