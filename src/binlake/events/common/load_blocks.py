"""Files of LOAD DATA INFILE in the log: APPEND_BLOCK_EVENT (9), BEGIN_LOAD_QUERY_EVENT (17),
EXEC_LOAD_EVENT (10), DELETE_FILE_EVENT (11).

Source: libs/mysql/binlog/event/load_data_events.cpp; MariaDB sql/log_event.cc. 9 to 11 since 4.0,
17 since 5.0.3. BEGIN_LOAD_QUERY is an APPEND_BLOCK that begins a file; EXEC_LOAD or
EXECUTE_LOAD_QUERY loads the file, and DELETE_FILE removes it when the statement failed.
Body:
    4     file_id
    rest  block     9 and 17 only
"""

from __future__ import annotations

from dataclasses import dataclass

from binlake.events.base import HIDDEN, Event
from binlake.events.body.fields import REST, U32


@dataclass(slots=True)
class FileBlockEvent(Event):
    """A piece of the file `file_id`, `block_bytes` long (APPEND_BLOCK, BEGIN_LOAD_QUERY)."""

    layout = {"file_id": U32, "block": REST}
    renders = {"block": HIDDEN}
    extra_fields = ("block_bytes",)

    file_id: int
    block: bytes

    @property
    def block_bytes(self) -> int:
        """Length of the piece."""
        return len(self.block)


@dataclass(slots=True)
class LoadedFileEvent(Event):
    """The file `file_id` is whole and is loaded, or is not needed (EXEC_LOAD, DELETE_FILE)."""

    layout = {"file_id": U32}

    file_id: int
