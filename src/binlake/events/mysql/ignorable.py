"""IGNORABLE_LOG_EVENT (28): an event of a later server, which other servers skip.

Source: libs/mysql/binlog/event/control_events.h, Ignorable_event. MariaDB: same. Since 5.6. No
server writes the type itself: events that may be skipped have types of their own and the header's
IGNORABLE flag. MySQL gives it the type to announce such an event in its text.
"""

from __future__ import annotations

from dataclasses import dataclass

from binlake.events.base import Event
from binlake.events.body.fields import REST


@dataclass(slots=True)
class IgnorableEvent(Event):
    """An event that readers may skip; `body` is its content, undecoded."""

    layout = {"body": REST}

    body: bytes
