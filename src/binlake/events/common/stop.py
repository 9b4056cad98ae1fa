"""STOP_EVENT (3): the server shut down; the last event of its file. The body is empty.

Source: libs/mysql/binlog/event/control_events.h, Stop_event. MariaDB: same. Since 3.23.
"""

from __future__ import annotations

from dataclasses import dataclass

from binlake.events.base import Event


@dataclass(slots=True)
class StopEvent(Event):
    """The server ended its log in good order. No fields."""
