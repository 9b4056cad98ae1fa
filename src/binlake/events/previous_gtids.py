"""PREVIOUS_GTIDS_LOG_EVENT (35): the GTIDs of all earlier files (MySQL 5.6).

Source: libs/mysql/binlog/event/control_events.cpp, Previous_gtids_event; the encoded set is
sql/rpl_gtid_set.cc's, with tags since 8.3: values/gtid.py decodes both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.events.base import Event
from binlake.events.reader import BodyReader
from binlake.events.writer import BodyWriter
from binlake.values.frame import EventFormat, Frame
from binlake.values.gtid import GtidSet

__all__ = ["PreviousGtidsEvent"]


@dataclass(slots=True)
class PreviousGtidsEvent(Event):
    """What was executed before this file began."""

    gtids: GtidSet

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        raw = reader.rest("gtids")
        gtids = GtidSet.decode(raw)
        encoded = gtids.encode()
        # the server ignores what follows the set; so do we, but keep it
        trailing = raw[len(encoded) :] if raw.startswith(encoded) else b""
        return cls(frame, gtids, trailing=trailing)

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        writer.rest("gtids", self.gtids.encode())
