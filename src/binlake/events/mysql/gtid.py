"""GTID_LOG_EVENT (33) and ANONYMOUS_GTID_LOG_EVENT (34): a MySQL transaction begins.

Layout and sources: core/events/gtid.py, which reads it. The tagged GTID event (42) has the same
fields in another encoding: tagged_gtid.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from binlake.core.events.gtid import GtidFields
from binlake.errors import MalformedError
from binlake.events.base import HIDDEN, Event, bits
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.format.event_types import ANONYMOUS_GTID_LOG_EVENT
from binlake.format.flags import LOGICAL_TIMESTAMP_TYPECODE, MYSQL_GTID_FLAGS
from binlake.values.frame import EventFormat, Frame
from binlake.values.gtid import Gtid

# Offsets in the body, in bytes: the flags are before them, the optional fields behind.
SID_AT = 1
GNO_AT = 17
OPTIONAL_AT = 25


@dataclass(slots=True)
class GtidEvent(Event):
    """Start a transaction and give its GTID; a field is None if the server version does not log it.

    `sid` is the 16 bytes of the UUID, `gno` the number in it (both zero when anonymous), `tag`
    "" except in GTID_TAGGED_LOG_EVENT. Commit times are microseconds since 1970: on the server
    that wrote this log, and where the transaction was first committed. `transaction_length`
    counts the bytes in the file from this event to the commit. Versions are numbers such as
    80046. `last_committed` and `sequence_number` are the logical clock of parallel replication.
    `clock_type` is 2 for that clock and None if the event has no clock. binlake does not read the
    fields of other clock types.
    """

    renders = {"flags": bits(MYSQL_GTID_FLAGS), "clock_type": HIDDEN}
    extra_fields = ("gtid",)

    flags: int
    sid: bytes
    gno: int
    tag: str = field(default="")
    last_committed: int | None = None
    sequence_number: int | None = None
    immediate_commit_us: int | None = None
    original_commit_us: int | None = None
    transaction_length: int | None = None
    immediate_server_version: int | None = None
    original_server_version: int | None = None
    commit_group_ticket: int | None = None
    clock_type: int | None = None

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        parsed = GtidFields()
        parsed.parse_mysql(reader.at("gtid"))
        has_clock = parsed.clock_type == LOGICAL_TIMESTAMP_TYPECODE
        reached = parsed.reached
        return cls(
            frame=frame,
            flags=parsed.flags,
            sid=parsed.sid,
            gno=parsed.gno,
            last_committed=parsed.last_committed if has_clock else None,
            sequence_number=parsed.sequence_number if has_clock else None,
            immediate_commit_us=parsed.immediate_commit_us if reached > 0 else None,
            original_commit_us=parsed.original_commit_us if reached > 0 else None,
            transaction_length=parsed.transaction_length if reached > 1 else None,
            immediate_server_version=parsed.immediate_server_version if reached > 2 else None,
            original_server_version=parsed.original_server_version if reached > 2 else None,
            commit_group_ticket=parsed.commit_group_ticket if reached > 3 else None,
            clock_type=parsed.clock_type if parsed.clock_type >= 0 else None,
        )

    def encode(self, writer: BodyWriter, fmt: EventFormat | None) -> None:
        writer.u8("flags", self.flags)
        writer.take("sid", 16, self.sid)
        writer.i64("gno", self.gno)
        if self.clock_type is None:
            return
        writer.u8("clock_type", self.clock_type)
        if self.last_committed is not None and self.sequence_number is not None:
            writer.i64("last_committed", self.last_committed)
            writer.i64("sequence_number", self.sequence_number)
        if self.immediate_commit_us is not None:
            _write_pair(writer, "commit_us", 7, self.immediate_commit_us, self.original_commit_us)
        if self.transaction_length is not None:
            writer.lenenc("transaction_length", self.transaction_length)
        if self.immediate_server_version is not None:
            _write_pair(
                writer, "server_version", 4, self.immediate_server_version,
                self.original_server_version,
            )  # fmt: skip
        if self.commit_group_ticket is not None:
            writer.u64("commit_group_ticket", self.commit_group_ticket)

    @property
    def gtid(self) -> str | None:
        """`uuid:gno` or `uuid:tag:gno`; None when the transaction is anonymous."""
        if self.frame.type_code == ANONYMOUS_GTID_LOG_EVENT:
            return None
        return str(Gtid(self.sid, self.gno, self.tag))


def _write_pair(
    writer: BodyWriter, name: str, width: int, immediate: int, original: int | None
) -> None:
    """Write two numbers; the second only if it differs, which the top bit of the first marks."""
    top = 1 << (8 * width - 1)
    if immediate >= top:
        raise MalformedError(f"{immediate} does not fit into {8 * width - 1} bits", field=name)
    if original in (None, immediate):
        writer.le_uint(name, width, immediate)
    else:
        writer.le_uint(name, width, immediate | top)
        writer.le_uint(name, width, original)
