"""Single events, each with its position: for `inspect`, the events view and the API.

Events inside a compressed transaction follow their payload event, numbered from 0. They have its
position, since a read can only resume there. A wrong checksum does not end the walk: the event
reports it (`checksum`), and the caller decides what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from binlake.core.events.checksum import first_bad
from binlake.errors import BinlogError, FormatError
from binlake.events.base import Event
from binlake.events.raw import RawEvent
from binlake.format.event_header import HEADER_BYTES
from binlake.format.event_types import (
    QUERY_COMPRESSED_EVENT,
    QUERY_EVENT,
    TRANSACTION_PAYLOAD_EVENT,
    any_code,
    event_name,
)
from binlake.format.flags import EVENT_FLAGS, flag_names
from binlake.stream.event_at import event_at
from binlake.stream.payload import inner_windows
from binlake.stream.runs import Piece, Transaction
from binlake.values.frame import Frame

if TYPE_CHECKING:
    from binlake.source.window import Window

_QUERY_CODES = any_code((QUERY_EVENT, QUERY_COMPRESSED_EVENT))

#: Called for an event that is whole but cannot be decoded (option on_error=skip).
OnDamage = Callable[["LogEvent", FormatError], None]


class LogEvent:
    """One event of a log and its position. `event` decodes the body on demand.

    `frame` is its header; inside a payload its offset counts in the inflated payload. `pos` and
    `end_pos` are offsets in the file (of the payload event, for an event inside it). `inner` is
    None or the ordinal inside the payload, and `outer` the header of the payload event. `window` holds
    the event, at `index`. `checksum` is "ok", "none" or "bad".
    """

    __slots__ = ("_event", "checksum", "frame", "index", "inner", "outer", "window")

    def __init__(
        self, window: Window, index: int, checksum: str, outer: Frame | None, inner: int | None
    ) -> None:
        self.frame = window.frame(index)
        self.checksum = checksum
        self.inner = inner
        self.window = window
        self.index = index
        self.outer = outer
        self._event: Event | None = None

    @property
    def file(self) -> str:
        """Base name of the log file."""
        return self.window.file.name

    @property
    def pos(self) -> int:
        """Offset in the file of the event, or of the payload event that holds it."""
        return (self.outer or self.frame).offset

    @property
    def end_pos(self) -> int:
        """Offset of the byte after it."""
        return (self.outer or self.frame).end

    @property
    def type(self) -> str:
        """The type as the server's enumeration spells it."""
        return event_name(self.frame.type_code)

    @property
    def event(self) -> Event:
        """The typed event. Raises FormatError, UnsupportedError (a bad checksum: a RawEvent)."""
        if self._event is None:
            try:
                self._event = event_at(self.window, self.index)
            except BinlogError as error:
                if self.outer is not None:
                    raise error.at(event_pos=self.outer.offset) from None
                if self.checksum != "bad" or not isinstance(error, FormatError):
                    raise
                return self.as_raw()
        return self._event

    def as_raw(self) -> Event:
        """Make `event` return the raw bytes from now on: for an event that cannot be decoded."""
        self._event = RawEvent(self.frame, bytes(self.window.raw(self.index)[HEADER_BYTES:]))
        return self._event

    @property
    def raw(self) -> memoryview:
        """All bytes of the event: header, body, checksum."""
        return self.window.raw(self.index)

    @property
    def flags(self) -> list[str]:
        """Names of the header's flags."""
        return flag_names(EVENT_FLAGS, self.frame.flags)

    def to_json(self) -> dict[str, Any]:
        """One line of `binlake inspect --json`."""
        frame = self.frame
        return {
            "file": self.file,
            "pos": self.pos,
            "end_pos": self.end_pos,
            "log_pos": frame.log_pos,
            "type": self.type,
            "code": frame.type_code,
            "ts": self._time_text(),
            "server_id": frame.server_id,
            "flags": self.flags,
            "size": frame.length,
            "checksum": self.checksum,
            "inner": self.inner,
            "event": self.event.to_fields(),
        }

    def _time_text(self) -> str | None:
        """The header's time in UTC; None for an artificial event, which has no time."""
        if not self.frame.timestamp:
            return None
        return datetime.fromtimestamp(self.frame.timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def __repr__(self) -> str:
        inside = "" if self.inner is None else f" inner {self.inner}"
        return f"<{self.type} {self.file}:{self.pos}{inside}>"


def pieces_of_window(
    window: Window, first: int, last: int, on_damage: OnDamage | None = None
) -> Iterator[Piece]:
    """Yield frames [first, last) as pieces, and the content of a payload after its payload event.

    Raises FormatError for a payload that cannot be inflated, unless `on_damage` handles it.
    """
    block = window.block
    at = first
    payloads = block.types(first, last)[TRANSACTION_PAYLOAD_EVENT]
    while payloads:
        index = next(i for i in range(at, last) if block.type_code[i] == TRANSACTION_PAYLOAD_EVENT)
        yield Piece(window, at, index + 1)
        at = index + 1
        payloads -= 1
        (event,) = events_of_piece(Piece(window, index, index + 1))
        if event.checksum == "bad":
            continue
        try:
            ordinal = 0
            for inner in inner_windows(window, index):
                yield Piece(inner, 0, len(inner), event.frame, ordinal)
                ordinal += len(inner)
        except FormatError as error:
            if on_damage is None:
                raise
            on_damage(event, error)
    if at < last:
        yield Piece(window, at, last)


def events_of_piece(piece: Piece) -> Iterator[LogEvent]:
    """Yield the events of a piece, without those inside payloads."""
    window = piece.window
    checked = window.format.checksum_bytes > 0
    bad = first_bad_of(piece)
    for index in range(piece.first, piece.last):
        checksum = "ok" if checked else "none"
        if index == bad:
            checksum = "bad"
            bad = first_bad_of(piece.part(index + 1, piece.last))
        inner = None if piece.outer is None else piece.inner + index - piece.first
        yield LogEvent(window, index, checksum, piece.outer, inner)


def coded_events(piece: Piece, codes: re.Pattern[bytes]) -> Iterator[LogEvent]:
    """Yield the events of a piece whose type codes match `codes`."""
    for match in codes.finditer(bytes(piece.window.block.type_code[piece.first : piece.last])):
        at = piece.first + match.start()
        yield from events_of_piece(piece.part(at, at + 1))


def query_events(transaction: Transaction) -> Iterator[LogEvent]:
    """Yield the QUERY events of a transaction. Raises BinlogError."""
    for piece in transaction.pieces():
        yield from coded_events(piece, _QUERY_CODES)


def first_bad_of(piece: Piece) -> int:
    """Return the first frame of a piece whose checksum is wrong, or -1."""
    window = piece.window
    if not window.format.checksum_bytes:
        return -1
    return first_bad(window.data, window.base, window.block, piece.first, piece.last)
