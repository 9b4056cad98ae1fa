"""ANNOTATE_ROWS_EVENT (160): the statement that produced the row events after it (MariaDB).

Source: MariaDB sql/log_event.h, Annotate_rows_log_event; since 5.3, on by default since 10.2.4.
Body: the text, without length or terminator.
"""

from __future__ import annotations

from dataclasses import dataclass

from binlake.events.base import HIDDEN, Event, text_or_hex
from binlake.events.body.fields import REST


@dataclass(slots=True)
class AnnotateRowsEvent(Event):
    """The statement that produced the next row events; `query_raw` is its text as logged, in bytes."""

    layout = {"query_raw": REST}
    renders = {"query_raw": HIDDEN}
    extra_fields = ("query",)

    query_raw: bytes

    @property
    def query(self) -> str:
        """The statement; its character set is not logged: UTF-8, else 0x… in hex."""
        return text_or_hex(self.query_raw)
