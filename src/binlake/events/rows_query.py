"""ROWS_QUERY_LOG_EVENT (29): the statement behind the row events that follow.

Source: libs/mysql/binlog/event/rows_event.cpp, Rows_query_event. MySQL 5.6.2 and later, when
`binlog_rows_query_log_events` is on. MariaDB has ANNOTATE_ROWS_EVENT instead.
Body:
    1     length of the text modulo 256: useless, ignored
    rest  query
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from binlake.events.base import HIDDEN, BodyReader, Event, Render, text_or_hex
from binlake.values.frame import EventFormat, Frame

__all__ = ["RowsQueryEvent"]


@dataclass(slots=True)
class RowsQueryEvent(Event):
    """Text of the statement that made the next row events; `query_raw` as it is in the log."""

    renders: ClassVar[Mapping[str, Render | None]] = {"query_raw": HIDDEN}
    extra_fields: ClassVar[tuple[str, ...]] = ("query",)

    query_raw: bytes

    @classmethod
    def decode(cls, frame: Frame, reader: BodyReader, fmt: EventFormat | None) -> Self:
        reader.u8("length")
        return cls(frame, reader.rest("query"))

    @property
    def query(self) -> str:
        """The statement; its character set is not logged: UTF-8, else 0x… in hex."""
        return text_or_hex(self.query_raw)
