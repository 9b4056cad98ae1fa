"""GTID_LOG_EVENT (33) and ANONYMOUS_GTID_LOG_EVENT (34): a MySQL transaction begins.

Layout and sources: core/gtid.py, which reads it. The tagged GTID event (42) has the same
fields in another encoding: gtid_tagged.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from binlake.core.gtid import GtidFields
from binlake.events.base import BodyReader, Event, Render, bits
from binlake.format.event_types import ANONYMOUS_GTID_LOG_EVENT
from binlake.format.flags import MYSQL_GTID_FLAGS
from binlake.values.frame import EventFormat, Frame
from binlake.values.gtid import Gtid

__all__ = ["GtidEvent"]

_LOGICAL_CLOCK = 2  # the only clock type; the fields after another one are not read


@dataclass(slots=True)
class GtidEvent(Event):
    """Names the transaction that follows; None for what the server's version does not log.

    `sid` is the 16 bytes of the UUID, `gno` the number in it (both zero when anonymous), `tag`
    "" except in GTID_TAGGED_LOG_EVENT. Commit times are microseconds since 1970: on the server
    that wrote this log, and where the transaction was first committed. `transaction_length`
    counts the bytes in the file from this event to the commit. Versions are numbers such as
    80046. `last_committed` and `sequence_number` are the logical clock of parallel replication.
    """

    renders: ClassVar[Mapping[str, Render | None]] = {"flags": bits(MYSQL_GTID_FLAGS)}
    extra_fields: ClassVar[tuple[str, ...]] = ("gtid",)

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

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        parsed = GtidFields()
        parsed.parse_mysql(reader.at("gtid"))
        has_clock = parsed.clock_type == _LOGICAL_CLOCK
        return cls(
            frame=frame,
            flags=parsed.flags,
            sid=parsed.sid,
            gno=parsed.gno,
            last_committed=parsed.last_committed if has_clock else None,
            sequence_number=parsed.sequence_number if has_clock else None,
            # 0 stands for "absent" in all of these
            immediate_commit_us=parsed.immediate_commit_us or None,
            original_commit_us=parsed.original_commit_us or None,
            transaction_length=parsed.transaction_length or None,
            immediate_server_version=parsed.immediate_server_version or None,
            original_server_version=parsed.original_server_version or None,
            commit_group_ticket=parsed.commit_group_ticket or None,
        )

    @property
    def gtid(self) -> str | None:
        """`uuid:gno` or `uuid:tag:gno`; None when the transaction is anonymous."""
        if self.frame.type_code == ANONYMOUS_GTID_LOG_EVENT:
            return None
        return str(Gtid(self.sid, self.gno, self.tag))
