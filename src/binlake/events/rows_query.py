"""ROWS_QUERY_LOG_EVENT (29): the statement behind the row events that follow.

Source: libs/mysql/binlog/event/rows_event.cpp, Rows_query_event. MySQL 5.6.2 and later, when
`binlog_rows_query_log_events` is on. MariaDB has ANNOTATE_ROWS_EVENT instead.
Body:
    1     length_byte   length of the text modulo 256, 0 in MySQL 9: useless
    rest  query
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from binlake.events.base import HIDDEN, Event, Render, text_or_hex
from binlake.events.layout import REST, U8, Wire

__all__ = ["RowsQueryEvent"]


@dataclass(slots=True)
class RowsQueryEvent(Event):
    """Text of the statement that made the next row events; `query_raw` as it is in the log.

    `length_byte` is kept because the bytes of the log are: it says nothing.
    """

    layout: ClassVar[Mapping[str, Wire]] = {"length_byte": U8, "query_raw": REST}
    renders: ClassVar[Mapping[str, Render | None]] = {"length_byte": HIDDEN, "query_raw": HIDDEN}
    extra_fields: ClassVar[tuple[str, ...]] = ("query",)

    length_byte: int
    query_raw: bytes

    @property
    def query(self) -> str:
        """The statement; its character set is not logged: UTF-8, else 0x… in hex."""
        return text_or_hex(self.query_raw)
