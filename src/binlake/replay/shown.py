"""Events as they are shown: out of payloads, uncompressed, with their checksums."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from binlake.events.base import Event
from binlake.events.common.rows import RowsEvent
from binlake.format import event_types as types
from binlake.format.event_header import CHECKSUM_BYTES, SERVER_ID_AT, TYPE_AT
from binlake.replay.event_text import clock_text, sealed, with_length
from binlake.stream.log_events import LogEvent
from binlake.values.frame import BINLOG_CHECKSUM_ALG_CRC32, EventFormat, Frame

_UNCOMPRESSED = {
    types.WRITE_ROWS_COMPRESSED_EVENT_V1: types.WRITE_ROWS_EVENT_V1,
    types.UPDATE_ROWS_COMPRESSED_EVENT_V1: types.UPDATE_ROWS_EVENT_V1,
    types.DELETE_ROWS_COMPRESSED_EVENT_V1: types.DELETE_ROWS_EVENT_V1,
    types.WRITE_ROWS_COMPRESSED_EVENT: types.WRITE_ROWS_EVENT,
    types.UPDATE_ROWS_COMPRESSED_EVENT: types.UPDATE_ROWS_EVENT,
    types.DELETE_ROWS_COMPRESSED_EVENT: types.DELETE_ROWS_EVENT,
}


class Shown(NamedTuple):
    """One event, ready to be shown.

    `event` is decoded, `raw` its bytes as a server takes them (of one inside a payload: with a
    checksum; row changes uncompressed). `checksum` is the stored CRC32, None when there is none.
    `at` is what "# at" says, `end_log_pos` the end position that its header, or that
    of the payload, says; `format` is that of `raw`.
    """

    event: Event
    raw: bytes
    at: int
    end_log_pos: int
    checksum: int | None
    format: EventFormat

    @property
    def frame(self) -> Frame:
        """The header."""
        return self.event.frame

    def line(self) -> bytes:
        """The header as a comment, up to where the event's own words begin."""
        text = f"#{clock_text(self.frame.timestamp)} server id {self.frame.server_id}"
        text += f"  end_log_pos {self.end_log_pos} "
        if self.checksum is not None:
            text += f"CRC32 0x{self.checksum:08x} "
        return text.encode()


def shown_event(log_event: LogEvent) -> Shown:
    """An event of a log, ready. Raises BinlogError."""
    event = log_event.event
    raw = bytes(log_event.raw)
    fmt = log_event.window.format
    outer = log_event.outer
    if outer is None:
        checksum = int.from_bytes(raw[-CHECKSUM_BYTES:], "little") if fmt.checksum_bytes else None
        if isinstance(event, RowsEvent) and event.frame.type_code in _UNCOMPRESSED:
            raw = _uncompressed(event, raw, fmt)
        return Shown(event, raw, log_event.pos, event.frame.log_pos, checksum, fmt)
    checksum = None
    if fmt.checksum_alg == BINLOG_CHECKSUM_ALG_CRC32:
        fmt = replace(fmt, checksum_bytes=CHECKSUM_BYTES)
        raw = sealed(raw)
        checksum = int.from_bytes(raw[-CHECKSUM_BYTES:], "little")
    return Shown(event, raw, outer.log_pos, outer.log_pos, checksum, fmt)


def _uncompressed(event: RowsEvent, raw: bytes, fmt: EventFormat) -> bytes:
    """MariaDB's compressed row changes as a server without them takes them."""
    rows = event.inflate(fmt)
    head = raw[: len(raw) - fmt.checksum_bytes - event.rows.nbytes]
    code = bytes((_UNCOMPRESSED[event.frame.type_code],))
    made = head[:TYPE_AT] + code + head[SERVER_ID_AT:] + rows
    return sealed(made) if fmt.checksum_bytes else with_length(made)
