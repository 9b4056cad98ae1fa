"""LARGE_TRANSACTION_HEADER_EVENT (43): the file consists of one large transaction.

Source: MySQL's trunk after 9.7.4, libs/mysql/binlog/event/large_transaction_header_event.cpp;
Such a transaction is not copied into the log: the file that it was collected in
becomes the next log file, and this event fills the reserved space at its beginning. The
header's IGNORABLE flag is set. We had no log of such a server.
Body:
    1     version
    8     terminating_event_offset   of the event that ends the transaction, in the file
    1     terminating_event_type     QUERY, XID or XA_PREPARE
    rest  padding
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.errors import UnsupportedError
from binlake.events.base import Event
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.format.event_types import event_name
from binlake.values.frame import EventFormat, Frame

_VERSION = 1


@dataclass(slots=True)
class LargeTransactionHeaderEvent(Event):
    """Where the transaction of this file ends, and how."""

    renders = {"terminating_event_type": event_name}

    version: int
    terminating_event_offset: int
    terminating_event_type: int

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        version = reader.u8("version")
        if version != _VERSION:
            raise UnsupportedError(f"large transaction header of version {version}")
        return cls(frame, version, reader.u64("terminating_event_offset"), reader.u8("type"))

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        writer.u8("version", self.version)
        writer.u64("terminating_event_offset", self.terminating_event_offset)
        writer.u8("type", self.terminating_event_type)
