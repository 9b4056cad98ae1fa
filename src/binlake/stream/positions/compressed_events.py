"""How much longer MariaDB's compressed events are when they are inflated, by the lengths that they claim.

The server writes them with `log_bin_compress`: row events and statements, each compressed on its own.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from binlake.core.memory.cursor import Cursor
from binlake.core.rows.rows_header import RowsHeader
from binlake.errors import BinlogError
from binlake.format.event_types import (
    DELETE_ROWS_COMPRESSED_EVENT,
    DELETE_ROWS_COMPRESSED_EVENT_V1,
    QUERY_COMPRESSED_EVENT,
    UPDATE_ROWS_COMPRESSED_EVENT,
    UPDATE_ROWS_COMPRESSED_EVENT_V1,
    WRITE_ROWS_COMPRESSED_EVENT,
    WRITE_ROWS_COMPRESSED_EVENT_V1,
)

if TYPE_CHECKING:
    from binlake.source.window import Window

#: Compressed row events: (version, bitmaps of columns).
_ROWS = {
    WRITE_ROWS_COMPRESSED_EVENT_V1: (1, 1),
    UPDATE_ROWS_COMPRESSED_EVENT_V1: (1, 2),
    DELETE_ROWS_COMPRESSED_EVENT_V1: (1, 1),
    WRITE_ROWS_COMPRESSED_EVENT: (2, 1),
    UPDATE_ROWS_COMPRESSED_EVENT: (2, 2),
    DELETE_ROWS_COMPRESSED_EVENT: (2, 1),
}
_COMPRESSED = (QUERY_COMPRESSED_EVENT, *_ROWS)
# in the body of a QUERY event
_DATABASE_LENGTH_AT = 8
_STATUS_LENGTH_AT = 11
_STATUS_AT = 13
_LENGTH_BYTES = 0x07  # in the first byte of compressed data


class CompressedEvents:
    """The compressed events of one file, window by window in their order. Their bytes are counted up to the end of the newest
    window.
    """

    def __init__(self) -> None:
        self._before = 0
        self._offsets: list[int] = []
        self._saved: list[int] = [0]

    def enter(self, window: Window) -> None:
        """Count the events of the next window."""
        self._before += self._saved[-1]
        block = window.block
        counts = block.types(0, block.count)
        if not any(counts[code] for code in _COMPRESSED):
            self._offsets, self._saved = [], [0]
            return
        codes = bytes(block.type_code[: block.count])
        found = [at for at, code in enumerate(codes) if code in _COMPRESSED]
        self._offsets = [block.offset[at] for at in found]
        self._saved = list(accumulate((_saved(window, at) for at in found), initial=0))

    def saved_bytes(self, end: int) -> int:
        """How many bytes longer the events before `end` are. The position is in the newest window, or at its end."""
        return self._before + self._saved[bisect_left(self._offsets, end)]


def _saved(window: Window, index: int) -> int:
    """How many bytes longer an event is when it is inflated; 0 for one that cannot be read: its reader raises the error."""
    try:
        body = window.body(index)
        type_code = window.block.type_code[index]
        if (rows := _ROWS.get(type_code)) is None:
            status_bytes = int.from_bytes(body[_STATUS_LENGTH_AT:_STATUS_AT], "little")
            at = _STATUS_AT + status_bytes + body[_DATABASE_LENGTH_AT] + 1
        else:
            head = RowsHeader()
            head.parse(Cursor(body), window.format.table_id_bytes(type_code), *rows)
            at = head.rows_start
        length_bytes = body[at] & _LENGTH_BYTES
    except (BinlogError, IndexError):
        return 0
    claimed = int.from_bytes(body[at + 1 : at + 1 + length_bytes], "big")
    return max(0, claimed - (len(body) - at))
