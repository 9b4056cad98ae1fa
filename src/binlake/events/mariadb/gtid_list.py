"""GTID_LIST_EVENT (163): the last GTIDs of each domain at the start of the file (MariaDB 10.0).

Source: MariaDB sql/log_event.cc, Gtid_list_log_event. Some versions pad the
body of an empty list. In a replication stream, an ARTIFICIAL one informs a replica that it may start.
Body:
    4          count in the low 28 bits, flags in the high 4
    16 each    domain_id 4, server_id 4, seq_no 8
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.errors import MalformedError
from binlake.events.base import Event, bits
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.values.frame import EventFormat, Frame
from binlake.values.gtid import MariaGtid, MariaGtidSet

_COUNT_MASK = (1 << 28) - 1
_ENTRY_BYTES = 16
_FLAGS = {1 << 28: "UNTIL_REACHED", 1 << 29: "IGN_GTIDS"}


@dataclass(slots=True)
class GtidListEvent(Event):
    """Last GTIDs per domain and server; the last one in the list of a domain is its current one."""

    renders = {"flags": bits(_FLAGS), "gtids": lambda gtids: ",".join(map(str, gtids))}

    flags: int
    gtids: tuple[MariaGtid, ...]

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        head = reader.u32("count")
        count = head & _COUNT_MASK
        reader.at("gtids").need(count * _ENTRY_BYTES)
        gtids = tuple(
            MariaGtid(reader.u32("domain_id"), reader.u32("server_id"), reader.u64("seq_no"))
            for _ in range(count)
        )
        return cls(frame, head & ~_COUNT_MASK, gtids)

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        if len(self.gtids) > _COUNT_MASK:
            raise MalformedError("too many GTIDs for one list", field="count")
        writer.u32("count", self.flags | len(self.gtids))
        for gtid in self.gtids:
            writer.u32("domain_id", gtid.domain_id)
            writer.u32("server_id", gtid.server_id)
            writer.u64("seq_no", gtid.seq_no)

    @property
    def gtid_set(self) -> MariaGtidSet:
        """The list as a GTID set, for comparisons with positions."""
        return MariaGtidSet(self.gtids)
