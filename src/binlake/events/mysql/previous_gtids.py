"""PREVIOUS_GTIDS_LOG_EVENT (35): the GTIDs of all earlier files (MySQL 5.6).

Source: libs/mysql/binlog/event/control_events.cpp, Previous_gtids_event; the encoded set is
sql/rpl_gtid_set.cc's, with tags since 8.3: values/gtid.py decodes both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.events.base import HIDDEN, Event
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.values.frame import EventFormat, Frame
from binlake.values.gtid import GtidSet

_COUNT_BYTES = 8  # how many entries; its last byte is the format: 1 with tags, 0 without


@dataclass(slots=True)
class PreviousGtidsEvent(Event):
    """The GTIDs of all transactions before this file.

    `tagged` is true if the set has the form with tags. A server uses this form after its first
    tagged GTID, even if no GTID of the set has a tag.
    """

    renders = {"tagged": HIDDEN}

    gtids: GtidSet
    tagged: bool = False

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        raw = reader.rest("gtids")
        gtids = GtidSet.decode(raw)
        tagged = len(raw) >= _COUNT_BYTES and raw[_COUNT_BYTES - 1] != 0
        encoded = gtids.encode(tagged=tagged)
        # the server ignores bytes after the set; binlake keeps them for encoding
        trailing = raw[len(encoded) :] if raw.startswith(encoded) else b""
        return cls(frame, gtids, tagged, trailing=trailing)

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        writer.rest("gtids", self.gtids.encode(tagged=self.tagged or self.gtids.has_tags))
