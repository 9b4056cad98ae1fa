"""Join rows events that MariaDB 12.3 cut into PARTIAL_ROW_DATA events.

The fragments of a rows event follow one another, after its TABLE_MAP. Joined, they are the event
that the server would have written in one piece, starting with its header. The joined event gets a
window of its own, so row decoders need no special case; its position is that of all its fragments.

This follows the documentation, which does not specify whether the joined bytes include a checksum.
So binlake accepts both, and anything else that is not a rows event is an error.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from binlake.core.events.frames import FrameBlock, read_frame, scan
from binlake.errors import MalformedError, TruncatedError
from binlake.events.mariadb.partial_row_data import PartialRowDataEvent
from binlake.format.event_header import CHECKSUM_BYTES, HEADER_BYTES, LENGTH_AT, LOG_POS_AT, U32
from binlake.format.event_types import (
    PARTIAL_ROW_DATA_EVENT,
    TABLE_MAP_EVENT,
    Role,
    codes_of,
    event_name,
)
from binlake.source.window import Window
from binlake.stream.event_at import event_at
from binlake.stream.runs import Piece
from binlake.values.frame import EventFormat, Frame

_ROWS = codes_of(Role.ROWS)
_BETWEEN = _ROWS | {TABLE_MAP_EVENT}  # events that may not stand between fragments


def join_fragments(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces of a transaction, with the whole rows event in the place of its last fragment.

    Raises MalformedError for fragments that are not in order or join to something else,
    TruncatedError for those that end too early.
    """
    joiner = FragmentJoiner()
    for piece in pieces:
        codes = bytes(piece.window.block.type_code[piece.first : piece.last])
        if PARTIAL_ROW_DATA_EVENT not in codes and not joiner.is_open:
            yield piece
            continue
        at = piece.first
        for index in range(piece.first, piece.last):
            code = codes[index - piece.first]
            if code == PARTIAL_ROW_DATA_EVENT:
                if at < index:
                    yield replace(piece, first=at, last=index)
                at = index + 1
                whole = joiner.add(piece.window, index)
                if whole is not None:
                    yield whole
            elif code in _BETWEEN:
                joiner.expect_closed()
        if at < piece.last:
            yield replace(piece, first=at)
    joiner.expect_closed()


class FragmentJoiner:
    """Collects the fragments of one rows event, in the order of the log."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._chunks: list[bytes] = []
        self._total = 0
        self._first: Frame | None = None
        self._window: Window | None = None
        self._size: int | None = None  # that the first fragment declares

    @property
    def is_open(self) -> bool:
        """Whether fragments are missing."""
        return self._first is not None

    def add(self, window: Window, index: int) -> Piece | None:
        """Take the next fragment; return the rows event after the last one."""
        event = event_at(window, index)
        assert isinstance(event, PartialRowDataEvent)
        if event.sequence != len(self._chunks) + 1 or event.sequence > event.total:
            raise self._error(
                window, event.frame, f"fragment {event.sequence} of {event.total} is out of order"
            )
        if self._first is None:
            self._first, self._window, self._size = event.frame, window, event.original_size
        self._total = event.total
        self._chunks.append(bytes(event.chunk))
        if event.sequence < event.total:
            return None
        whole = self._whole(window, event.frame)
        self._start()
        return whole

    def expect_closed(self) -> None:
        """Raise TruncatedError if fragments are missing."""
        if self._first is None or self._window is None:
            return
        raise TruncatedError(
            f"{len(self._chunks)} of {self._total} fragments of a rows event are present",
            file=self._window.file.name,
            event_pos=self._first.offset,
            event_type=event_name(PARTIAL_ROW_DATA_EVENT),
        )

    def _whole(self, window: Window, last: Frame) -> Piece:
        assert self._first is not None
        joined = b"".join(self._chunks)
        if self._size not in (None, len(joined)):
            message = f"fragments of {len(joined)} bytes in total, but they declare {self._size}"
            raise self._error(window, last, message)
        raw = _as_written(joined, window.format)
        if raw is None:
            message = f"the fragments join to {len(joined)} bytes that are not a rows event"
            raise self._error(window, last, message)
        block = FrameBlock(1)
        scan(raw, self._first.offset, 0, len(raw), HEADER_BYTES, block)
        made = replace(window, data=raw, base=self._first.offset, block=block)
        length = last.end - self._first.offset
        return Piece(made, 0, 1, self._first._replace(length=length, log_pos=last.log_pos))

    def _error(self, window: Window, frame: Frame, message: str) -> MalformedError:
        return MalformedError(
            message,
            file=window.file.name,
            event_pos=frame.offset,
            event_type=event_name(frame.type_code),
        )


def _as_written(joined: bytes, fmt: EventFormat) -> bytes | None:
    """The rows event as it would be in the log: right length, with a checksum where logs have one.

    None if the bytes are no rows event.
    """
    if len(joined) < fmt.header_length:
        return None
    frame = read_frame(joined, 0, 0)
    if frame.type_code not in _ROWS:
        return None
    checked = fmt.checksum_bytes > 0
    stored = int.from_bytes(joined[-CHECKSUM_BYTES:], "little")
    if checked and frame.length == len(joined) and zlib.crc32(joined[:-CHECKSUM_BYTES]) == stored:
        return joined
    if frame.length not in (len(joined), len(joined) + fmt.checksum_bytes):
        return None
    length = len(joined) + fmt.checksum_bytes
    raw = joined[:LENGTH_AT] + U32.pack(length) + joined[LOG_POS_AT:]
    return raw + zlib.crc32(raw).to_bytes(CHECKSUM_BYTES, "little") if checked else raw
