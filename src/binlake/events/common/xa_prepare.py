"""XA_PREPARE_LOG_EVENT (38): ends the prepared part of an XA transaction.

Source: libs/mysql/binlog/event/control_events.cpp, XA_prepare_event; sql/log_event.cc of
MariaDB 10.5, XA_prepare_log_event (same layout). Since MySQL 5.7.7. A later XA COMMIT or XA
ROLLBACK, perhaps in a later file, completes the transaction; with `one_phase` set the
event itself commits (XA COMMIT … ONE PHASE).
Body:
    1  one_phase
    4  format_id
    4  gtrid length
    4  bqual length
    n  gtrid, bqual
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.events.base import Event
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.values.frame import EventFormat, Frame


@dataclass(slots=True)
class XaPrepareEvent(Event):
    """Prepares (or, one-phase, commits) the XA transaction named by its three xid parts."""

    extra_fields = ("xid",)

    one_phase: bool
    format_id: int
    gtrid: bytes
    bqual: bytes

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        one_phase = bool(reader.u8("one_phase"))
        format_id = reader.u32("format_id")
        gtrid_bytes = reader.u32("gtrid_length")
        bqual_bytes = reader.u32("bqual_length")
        gtrid = reader.take("gtrid", gtrid_bytes)
        return cls(frame, one_phase, format_id, gtrid, reader.take("bqual", bqual_bytes))

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        writer.u8("one_phase", self.one_phase)
        writer.u32("format_id", self.format_id)
        writer.u32("gtrid_length", len(self.gtrid))
        writer.u32("bqual_length", len(self.bqual))
        writer.rest("gtrid", self.gtrid)
        writer.rest("bqual", self.bqual)

    @property
    def xid(self) -> str:
        """The XID in the form of the server's XA statements: X'gtrid',X'bqual',format."""
        return xid_text(self.gtrid, self.bqual, self.format_id)


def xid_text(gtrid: bytes, bqual: bytes, format_id: int) -> str:
    """The name of an XA transaction in the form that both servers log: `X'6162',X'',1`."""
    return f"X'{gtrid.hex()}',X'{bqual.hex()}',{format_id}"
