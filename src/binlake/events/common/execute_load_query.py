"""EXECUTE_LOAD_QUERY_EVENT (18): the LOAD DATA statement for a file that is in the log.

Source: libs/mysql/binlog/event/load_data_events.cpp, Execute_load_query_event. MariaDB: same.
Since 5.0.3. A QUERY event (query.py) whose post-header continues with:
    4  file_id
    4  file_name_start      byte offsets of the part of the statement that names the file, from
    4  file_name_end        after LOAD DATA, up to INTO: replicas rewrite it
    1  duplicate_handling   0 error, 1 ignore, 2 replace
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from binlake.events.base import Render
from binlake.events.body.fields import U8, U32, FieldFormat
from binlake.events.body.reader import BodyReader
from binlake.events.body.writer import BodyWriter
from binlake.events.common.query import QueryEvent

_DUPLICATES = {0: "ERROR", 1: "IGNORE", 2: "REPLACE"}

_OWN: Mapping[str, FieldFormat] = {
    "file_id": U32,
    "file_name_start": U32,
    "file_name_end": U32,
    "duplicate_handling": U8,
}


@dataclass(slots=True)
class ExecuteLoadQueryEvent(QueryEvent):
    """LOAD DATA INFILE of the blocks of `file_id`."""

    renders: ClassVar[Mapping[str, Render | None]] = {
        **QueryEvent.renders,
        "duplicate_handling": lambda value: _DUPLICATES.get(value, f"UNKNOWN_{value}"),
    }

    file_id: int
    file_name_start: int
    file_name_end: int
    duplicate_handling: int

    @classmethod
    def _decode_own(cls, reader: BodyReader) -> tuple[int, ...]:
        return tuple(wire.read(reader, name) for name, wire in _OWN.items())

    def _encode_own(self, writer: BodyWriter) -> None:
        for name, wire in _OWN.items():
            wire.write(writer, name, getattr(self, name))
