"""PREVIOUS_GTIDS_LOG_EVENT (35): the GTIDs of all earlier files (MySQL 5.6).

Source: libs/mysql/binlog/event/control_events.cpp, Previous_gtids_event; the encoded set is
sql/rpl_gtid_set.cc's, with tags since 8.3: values/gtid.py decodes both (formats.md §7.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.events.base import BodyReader, Event
from binlake.values.frame import EventFormat, Frame
from binlake.values.gtid import GtidSet

__all__ = ["PreviousGtidsEvent"]


@dataclass(slots=True)
class PreviousGtidsEvent(Event):
    """What was executed before this file began."""

    gtids: GtidSet

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        return cls(frame, GtidSet.decode(reader.rest("gtids")))
