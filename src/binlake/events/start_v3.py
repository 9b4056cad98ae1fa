"""START_EVENT_V3 (1): the first event of a log before MySQL 5.0 (versions 1 and 3).

Source: sql/log_event.cc of MySQL 5.0, Start_log_event_v3 and the constructor of
Format_description_log_event from a version; formats.md §1.2. It says what server wrote the log,
but not how its events are laid out: that follows from the version.
Body:
    2   binlog_version   1 (3.23) or 3 (4.0.2 to 4.1); 2 was an alpha's
    50  server_version   padded with zero bytes
    4   created          seconds since 1970; 0 where the file does not follow a start of the server
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from binlake.events.base import HIDDEN, Event, Render
from binlake.events.format_description import SERVER_VERSION_BYTES, version_text
from binlake.events.layout import U16, U32, Wire, fixed

__all__ = ["StartV3Event"]


@dataclass(slots=True)
class StartV3Event(Event):
    """The server, and the version of its log."""

    layout: ClassVar[Mapping[str, Wire]] = {
        "binlog_version": U16,
        "server_version_raw": fixed(SERVER_VERSION_BYTES),
        "created": U32,
    }
    renders: ClassVar[Mapping[str, Render | None]] = {"server_version_raw": HIDDEN}
    extra_fields: ClassVar[tuple[str, ...]] = ("server_version",)

    binlog_version: int
    server_version_raw: bytes
    created: int

    @property
    def server_version(self) -> str:
        """The server's version, as it says it."""
        return version_text(self.server_version_raw)
