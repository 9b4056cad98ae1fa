"""GTID_EVENT (162): a MariaDB transaction or standalone statement begins.

Layout and sources: core/events/gtid.py, which reads it. The event replaces BEGIN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from binlake.core.events.gtid import GtidFields
from binlake.events.base import Event, bits
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.events.common.xa_prepare import xid_text
from binlake.format.flags import (
    FL_COMMIT_ALTER,
    FL_EXTRA_MULTI_ENGINE,
    FL_GROUP_COMMIT_ID,
    FL_ROLLBACK_ALTER,
    MARIADB_GTID_EXTRA_FLAGS,
    MARIADB_GTID_FLAGS,
)
from binlake.values.frame import EventFormat, Frame
from binlake.values.gtid import MariaGtid


@dataclass(slots=True)
class MariadbGtidEvent(Event):
    """Start an event group and give its GTID; a field is None if the event does not contain it.

    The GTID is `domain_id`, the header's server id and `seq_no`. Groups with the same
    `commit_id` were committed together. `extra_engines` counts the engines that took part
    beyond the first, `start_alter_seq_no` names the START ALTER that this group ends.
    """

    renders = {
        "flags": bits(MARIADB_GTID_FLAGS),
        "flags_extra": bits(MARIADB_GTID_EXTRA_FLAGS),
    }
    extra_fields = ("gtid", "xid")

    seq_no: int
    domain_id: int
    flags: int
    commit_id: int | None
    format_id: int | None
    gtrid: bytes | None
    bqual: bytes | None
    flags_extra: int | None
    extra_engines: int
    start_alter_seq_no: int | None
    thread_id: int | None

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        parsed = GtidFields()
        parsed.parse_mariadb(reader.at("gtid"))
        has_xid = parsed.xid_format >= 0
        extra = max(parsed.flags_extra, 0)
        return cls(
            frame=frame,
            seq_no=parsed.seq_no,
            domain_id=parsed.domain_id,
            flags=parsed.flags,
            commit_id=parsed.commit_id if parsed.flags & FL_GROUP_COMMIT_ID else None,
            format_id=parsed.xid_format if has_xid else None,
            gtrid=parsed.xid_gtrid if has_xid else None,
            bqual=parsed.xid_bqual if has_xid else None,
            flags_extra=parsed.flags_extra if parsed.flags_extra >= 0 else None,
            extra_engines=parsed.extra_engines,
            start_alter_seq_no=(
                parsed.start_alter_seq_no if extra & (FL_COMMIT_ALTER | FL_ROLLBACK_ALTER) else None
            ),
            thread_id=parsed.thread_id if parsed.thread_id >= 0 else None,
        )

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        writer.u64("seq_no", self.seq_no)
        writer.u32("domain_id", self.domain_id)
        writer.u8("flags", self.flags)
        if self.commit_id is not None:
            writer.u64("commit_id", self.commit_id)
        if self.format_id is not None:
            writer.u32("format_id", self.format_id)
            writer.u8("gtrid_length", len(self.gtrid or b""))
            writer.u8("bqual_length", len(self.bqual or b""))
            writer.rest("gtrid", self.gtrid or b"")
            writer.rest("bqual", self.bqual or b"")
        if self.flags_extra is not None:
            writer.u8("flags_extra", self.flags_extra)
            if self.flags_extra & FL_EXTRA_MULTI_ENGINE:
                writer.u8("extra_engines", self.extra_engines)
            if self.start_alter_seq_no is not None:
                writer.u64("start_alter_seq_no", self.start_alter_seq_no)
            if self.thread_id is not None:
                writer.u32("thread_id", self.thread_id)

    @property
    def gtid(self) -> str:
        """`domain-server-sequence`."""
        return str(MariaGtid(self.domain_id, self.frame.server_id, self.seq_no))

    @property
    def xid(self) -> str | None:
        """The XA transaction that the group prepares or completes: X'gtrid',X'bqual',format."""
        if self.format_id is None or self.gtrid is None or self.bqual is None:
            return None
        return xid_text(self.gtrid, self.bqual, self.format_id)
