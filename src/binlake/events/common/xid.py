"""XID_EVENT (16): commit of a transaction in an engine that can do two-phase commit.

Source: libs/mysql/binlog/event/control_events.cpp, Xid_event. MariaDB: same. Since 5.0.
Body:
    8  xid  in the byte order of the source host (little-endian wherever servers run today)
"""

from __future__ import annotations

from dataclasses import dataclass

from binlake.events.base import Event
from binlake.events.body.fields import U64


@dataclass(slots=True)
class XidEvent(Event):
    """Commits the open transaction; `xid` is the server's internal number of it."""

    layout = {"xid": U64}

    xid: int
