"""The lines of `inspect`; `core.event_lines` writes the lines of ordinary events."""

from __future__ import annotations

from functools import lru_cache

from binlake.cli.inspect.event_text import one_line
from binlake.cli.inspect.event_writer import EventWriter
from binlake.core.text.event_kinds import kind_table
from binlake.core.text.event_lines import EventLines
from binlake.format.charsets import CHARSETS
from binlake.format.collations import COLLATIONS
from binlake.format.event_types import QUERY_EVENT, event_name
from binlake.printable import printable
from binlake.stream.log_events import LogEvent
from binlake.stream.runs import Piece

_NAMES = [f"{event_name(code):<28}".encode() for code in range(256)]


class EventLineWriter(EventWriter):
    """Writes the line of each event."""

    def kernel_of(self, piece: Piece) -> EventLines | None:
        fmt = piece.window.format
        place = f"{piece.window.file.shown}:"
        if piece.outer is not None:
            place += f"{piece.outer.offset}#"
        return EventLines(
            self.encoded(printable(place)),
            _NAMES,
            kind_table(fmt),
            ascii_collations(),
            header_bytes=fmt.header_length,
            checksum_bytes=fmt.checksum_bytes,
            query_header_bytes=fmt.post_header_length(QUERY_EVENT),
        )

    def line_of(self, event: LogEvent) -> str:
        return line_of(event)


def line_of(event: LogEvent) -> str:
    """Return the line of one event. Raises FormatError, UnsupportedError."""
    place = f"{event.window.file.shown}:{event.pos}"
    if event.inner is not None:
        place += f"#{event.inner}"
    line = one_line(place, event.event) + ("  BAD CHECKSUM" if event.checksum == "bad" else "")
    return printable(line)


@lru_cache(maxsize=1)
def ascii_collations() -> bytes:
    """By collation id: 1 if every ASCII byte of a statement means itself."""
    table = bytearray(max(COLLATIONS) + 1)
    for number, collation in COLLATIONS.items():
        if collation.charset in ("ascii", "latin1") or (
            collation.charset in CHARSETS and CHARSETS[collation.charset].kind == "utf8"
        ):
            table[number] = 1
    return bytes(table)
