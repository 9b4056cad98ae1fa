"""The lines of `inspect --json`; `core.event_json` writes the lines of ordinary events.

The kernel learns the meaning of repeated bytes from typed events: descriptions of tables, heads of
rows events, status variables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, BinaryIO

from binlake.cli.inspect.event_lines import ascii_collations
from binlake.cli.inspect.event_writer import EventWriter
from binlake.core.text.event_json import EventJson, SqlText
from binlake.core.text.event_kinds import kind_table
from binlake.events.common.query import QueryEvent
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.format.charsets import CHARSETS
from binlake.format.collations import COLLATIONS
from binlake.format.event_header import HEADER_BYTES
from binlake.format.event_types import EVENT_TYPES, QUERY_EVENT, event_name
from binlake.format.flags import (
    EVENT_FLAGS,
    MARIADB_GTID_EXTRA_FLAGS,
    MARIADB_GTID_FLAGS,
    MYSQL_GTID_FLAGS,
    flag_names,
)
from binlake.stream.log_events import LogEvent
from binlake.stream.runs import Piece
from binlake.values.frame import EventFormat

_QUERY_HEADER_BYTES = EVENT_TYPES[QUERY_EVENT].post_header_length
_MOST_FORMATS = 16


class EventJsonWriter(EventWriter):
    """Writes the JSON object of each event."""

    def __init__(self, target: BinaryIO, encoding: str, errors: str, limit: int | None) -> None:
        super().__init__(target, encoding, errors, limit)
        self._is_utf8 = encoding.replace("-", "").lower() == "utf8"
        self._kernels: dict[EventFormat, EventJson] = {}

    def kernel_of(self, piece: Piece) -> EventJson | None:
        fmt = piece.window.format
        listed = fmt.post_header_length(QUERY_EVENT)
        if not self._is_utf8 or fmt.header_length != HEADER_BYTES or listed != _QUERY_HEADER_BYTES:
            return None
        kernel = self._kernels.get(fmt)
        if kernel is None:
            if len(self._kernels) >= _MOST_FORMATS:
                self._kernels.clear()
            kernel = self._kernels[fmt] = _kernel(fmt)
        outer = piece.outer
        kernel.begin(
            _text(piece.window.file.name), None if outer is None else (outer.offset, outer.end)
        )
        return kernel

    def line_of(self, event: LogEvent) -> str:
        return json_of(event)

    def learn(self, event: LogEvent) -> None:
        kernel, typed = self._kernels[event.window.format], event.event
        code, body = event.frame.type_code, bytes(event.window.body(event.index))
        if isinstance(typed, TableMapEvent):
            kernel.learn_table_map(body, _text(typed.to_fields()))
        elif isinstance(typed, RowsEvent) and kind_table(event.window.format).bitmaps[code]:
            before, after = _around(typed.to_fields(), "table_id", "rows")
            kernel.learn_rows(code, body, before, after)
        elif isinstance(typed, QueryEvent) and code == QUERY_EVENT:
            fields, _ = _around(typed.to_fields(), "exec_time", "sql")
            kernel.learn_query(body, fields, _sql_text(typed.client_collation))


def json_of(event: LogEvent) -> str:
    """Return the JSON of one event. Raises FormatError, UnsupportedError."""
    return json.dumps(event.to_json(), ensure_ascii=False, separators=(",", ":"))


def _text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _around(fields: Mapping[str, Any], first: str, second: str) -> tuple[bytes, bytes]:
    """Return the JSON, without brackets, of the fields between two of them and of those after
    both.
    """
    names = list(fields)
    low, high = names.index(first), names.index(second)
    between = {name: fields[name] for name in names[low + 1 : high]}
    behind = {name: fields[name] for name in names[high + 1 :]}
    return _text(between)[1:-1], _text(behind)[1:-1]


def _sql_text(collation: int | None) -> SqlText:
    """Return which statements are plain text in a client's collation (events/body/collated_text.py)."""
    known = None if collation is None else COLLATIONS.get(collation)
    if known is None or known.charset not in CHARSETS or known.charset == "utf8mb4":
        return SqlText.UTF8
    return SqlText.ASCII if ascii_collations()[collation or 0] else SqlText.NONE


@lru_cache(maxsize=1)
def _types() -> list[bytes]:
    return [b',"type":%s,"code":%d,"ts":' % (_text(event_name(code)), code) for code in range(256)]


def _names(table: Mapping[int, str]) -> list[bytes]:
    return [_text(flag_names(table, 1 << bit)[0]) for bit in range(16)]


def _kernel(fmt: EventFormat) -> EventJson:
    return EventJson(
        _types(),
        kind_table(fmt),
        *map(_names, (EVENT_FLAGS, MYSQL_GTID_FLAGS, MARIADB_GTID_FLAGS, MARIADB_GTID_EXTRA_FLAGS)),
        checksum_bytes=fmt.checksum_bytes,
    )
