"""BINLOG_CHECKPOINT_EVENT (161): the oldest file that crash recovery may need (MariaDB 10.0).

Source: MariaDB sql/log_event.cc, Binlog_checkpoint_log_event.
Body:
    4  length of the name
    n  file
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from binlake.events.base import HIDDEN, Event, Render, file_name_text
from binlake.events.body.fields import FieldFormat, counted


@dataclass(slots=True)
class BinlogCheckpointEvent(Event):
    """XA recovery can start from `file`."""

    layout: ClassVar[Mapping[str, FieldFormat]] = {"file_raw": counted(4)}
    renders: ClassVar[Mapping[str, Render | None]] = {"file_raw": HIDDEN}
    extra_fields: ClassVar[tuple[str, ...]] = ("file",)

    file_raw: bytes

    @property
    def file(self) -> str:
        """The name of the file."""
        return file_name_text(self.file_raw)
