"""BINLOG_CHECKPOINT_EVENT (161): the oldest file that crash recovery may need (MariaDB 10.0).

Source: MariaDB sql/log_event.cc, Binlog_checkpoint_log_event.
Body:
    4  length of the name
    n  file
"""

from __future__ import annotations

from dataclasses import dataclass

from binlake.events.base import HIDDEN, Event, file_name_text
from binlake.events.body.fields import counted


@dataclass(slots=True)
class BinlogCheckpointEvent(Event):
    """XA recovery can start from `file`."""

    layout = {"file_raw": counted(4)}
    renders = {"file_raw": HIDDEN}
    extra_fields = ("file",)

    file_raw: bytes

    @property
    def file(self) -> str:
        """The name of the file."""
        return file_name_text(self.file_raw)
