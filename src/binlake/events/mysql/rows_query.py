"""ROWS_QUERY_LOG_EVENT (29): the statement that produced the row events after it.

Source: libs/mysql/binlog/event/rows_event.cpp, Rows_query_event. MySQL 5.6.2 and later, when
`binlog_rows_query_log_events` is on. MariaDB has ANNOTATE_ROWS_EVENT instead.
Body:
    1     length_byte   length of the text modulo 256, 0 in MySQL 9; not usable
    rest  query
"""

from __future__ import annotations

from dataclasses import dataclass

from binlake.events.base import HIDDEN, Event, text_or_hex
from binlake.events.body.fields import REST, U8


@dataclass(slots=True)
class RowsQueryEvent(Event):
    """The statement that produced the next row events; `query_raw` is its text as logged, in bytes.

    `length_byte` has no meaning; it is kept so that the event encodes to the same bytes.
    """

    layout = {"length_byte": U8, "query_raw": REST}
    renders = {"length_byte": HIDDEN, "query_raw": HIDDEN}
    extra_fields = ("query",)

    length_byte: int
    query_raw: bytes

    @property
    def query(self) -> str:
        """The statement; its character set is not logged: UTF-8, else 0x… in hex."""
        return text_or_hex(self.query_raw)
