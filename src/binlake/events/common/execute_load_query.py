"""EXECUTE_LOAD_QUERY_EVENT (18): the LOAD DATA statement for a file that is in the log.

Source: libs/mysql/binlog/event/load_data_events.cpp, Execute_load_query_event. MariaDB: same.
Since 5.0.3. A QUERY event (query.py) whose post-header continues with:
    4  file_id
    4  file_name_start      byte offsets of the part of the statement that names the file, from
    4  file_name_end        after LOAD DATA, up to INTO: replicas rewrite it
    1  duplicate_handling   0 error, 1 ignore, 2 replace
"""

from __future__ import annotations

from dataclasses import dataclass

from binlake.events.body.fields import U8, U32
from binlake.events.common.query import QueryEvent

_DUPLICATES = {0: "ERROR", 1: "IGNORE", 2: "REPLACE"}


@dataclass(slots=True)
class ExecuteLoadQueryEvent(QueryEvent):
    """LOAD DATA INFILE of the blocks of `file_id`."""

    layout = {
        "file_id": U32,
        "file_name_start": U32,
        "file_name_end": U32,
        "duplicate_handling": U8,
    }
    renders = {
        **QueryEvent.renders,
        "duplicate_handling": lambda value: _DUPLICATES.get(value, f"UNKNOWN_{value}"),
    }

    file_id: int
    file_name_start: int
    file_name_end: int
    duplicate_handling: int
