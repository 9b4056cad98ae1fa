"""Print plain events with compiled code, and all others with the printer.

`core.replay_text` writes transactions whose statements the printer has printed before. `Printer.show` prints the events
at which it stops. This module keeps the printed text about tables, rows and BEGIN, so that the printer makes each text
once. Both ways write the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from binlake.core.text.event_kinds import kind_table
from binlake.core.text.replay_text import ReplayText
from binlake.events.base import Event
from binlake.events.common.format_description import table_id_bytes
from binlake.events.common.query import QueryEvent
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import TableMapEvent
from binlake.format.event_header import CHECKSUM_BYTES, HEADER_BYTES
from binlake.format.event_types import QUERY_EVENT
from binlake.replay.event_text import TextOptions
from binlake.replay.printer import Printer
from binlake.replay.shown import Shown, shown_event
from binlake.replay.statement_events import starts_group
from binlake.stream.log_events import LogEvent, first_bad_of
from binlake.stream.runs import Piece
from binlake.values.frame import BINLOG_CHECKSUM_ALG_CRC32, EventFormat

_MOST_WORDS = 1 << 12


class PlainEvents:
    """Prints the events of one log that `printer` would print the same way."""

    def __init__(self, printer: Printer, options: TextOptions) -> None:
        self._printer = printer
        self._options = options
        self._format: EventFormat | None = None
        self._text: ReplayText | None = None
        self._piece: Piece | None = None
        self._usable = False
        #: states of the session: a number for each, and what restores it
        self._numbers: dict[Any, int] = {}
        self._sessions: list[dict[str, Any]] = []

    def print(self, piece: Piece, first: int, stop: int | None) -> int:
        """Print frames of a piece from `first` on, none at or after the file offset `stop`; how many
        they are.
        """
        if piece is not self._piece:
            self._piece = piece
            self._usable = self._is_usable(piece)
        printer = self._printer
        if not self._usable or not printer.is_between_statements:
            return 0
        window = piece.window
        block = window.block
        end = int(block.end(piece.last - 1))
        if stop is not None and stop < end:
            index = block.find(stop)
            if index <= first:
                return 0
            end = int(block.end(index - 1))
        text = self._of_format(window.format)
        changes = None
        if printer.wants_changes:
            changes = printer.pseudo.whole(window, first)
            if changes is None:
                return 0
        printer.lend(text)
        text.state = before = self._state()
        start = int(block.frame(first).offset) - window.base
        _, frames = text.write(window.data, start, end - window.base, window.base, changes)
        if not frames:
            return 0
        printer.write(memoryview(text.take()))
        printer.take_back(text)
        if text.state != before:
            vars(printer.session).update(self._sessions[text.state])
        return frames

    def show(self, event: LogEvent) -> None:
        """Print one event with the printer, and keep its text. Raises BinlogError."""
        printer = self._printer
        if not self._usable or event.outer is not None:
            printer.show(event)
            return
        before = self._state()
        recorded = _RecordedOutput(printer.write, self._options.limits.recorded)
        printer.write = recorded.write
        try:
            printer.show(event)
        finally:
            printer.write = recorded.target
        text = recorded.text()
        heads = printer.statement.heads
        is_rows = isinstance(event.event, RowsEvent)
        if is_rows and heads:
            text += heads[-1]
        if is_rows or recorded.is_whole:  # of rows, only the line at their start is learned
            self._learn(event.event, shown_event(event), text, before)

    def _learn(self, event: Event, shown: Shown, text: bytes, before: int) -> None:
        """Keep the words that follow the header line of an event."""
        if self._text is None or not isinstance(event, TableMapEvent | RowsEvent | QueryEvent):
            return
        line = b"\n" + shown.line()
        at = text.find(line)
        if at < 0:
            return
        words = text[at + len(line) :]
        body = bytes(shown.raw[HEADER_BYTES:-CHECKSUM_BYTES])
        if isinstance(event, TableMapEvent):
            tables = _with_room(self._text.table_words)
            tables[(self._text.server_version, body)] = words
        elif isinstance(event, RowsEvent):
            code = event.frame.type_code
            head = body[: table_id_bytes(code, shown.format) + 2]
            rows = _with_room(self._text.rows_words)
            rows[(code, head)] = words[: words.index(b"\n") + 1]
        elif starts_group(event) and event.frame.type_code == QUERY_EVENT:
            queries = _with_room(self._text.queries)
            marker = b"SET TIMESTAMP="
            stamp = b"%s%d" % (marker, event.frame.timestamp)
            if words.count(marker) == 1 and stamp in words:
                ahead, _, behind = words.partition(stamp)
                key = (before, event.frame.flags, body)
                queries[key] = (ahead + marker, behind, self._state())

    def _is_usable(self, piece: Piece) -> bool:
        fmt = piece.window.format
        return (
            piece.outer is None
            and fmt.checksum_alg == BINLOG_CHECKSUM_ALG_CRC32
            and fmt.checksum_bytes == CHECKSUM_BYTES
            and fmt.header_length == HEADER_BYTES
            and not self._options.hexdump
            and not self._options.short_form
            and not self._options.skip_gtids
            and not self._options.print_table_metadata
            and not self._options.skip_annotate_row_events
            and not self._options.databases
            and not self._options.rewrite_db
            and first_bad_of(piece) < 0
        )

    def _of_format(self, fmt: EventFormat) -> ReplayText:
        if self._text is None or fmt != self._format:
            self._format = fmt
            self._text = self._printer.replay_text(kind_table(fmt))
            self._text.server_version = 0
        return self._text

    def _state(self) -> int:
        """The number of the session's state."""
        state = vars(self._printer.session)
        key = tuple(map(_hashable, state.values()))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._sessions)
            self._sessions.append(dict(state))
        return number


class _RecordedOutput:
    """Passes text on to `target`, and keeps its first part, of `most_bytes`: of a statement's rows there may be gigabytes."""

    def __init__(self, target: Callable[[bytes | memoryview], object], most_bytes: int) -> None:
        self.target = target
        self.is_whole = True
        self._kept: list[bytes] = []
        self._room = most_bytes

    def write(self, text: bytes | memoryview) -> None:
        """Write text, and keep it if it is among the first."""
        self.target(text)
        self.is_whole = self.is_whole and len(text) <= self._room
        if self.is_whole:
            self._kept.append(bytes(text))
            self._room -= len(text)

    def text(self) -> bytes:
        """Return the first part."""
        return b"".join(self._kept)


def _with_room(words: dict[Any, Any]) -> dict[Any, Any]:
    """Return learned words, all forgotten if they are too many."""
    if len(words) >= _MOST_WORDS:
        words.clear()
    return words


def _hashable(value: Any) -> Any:
    return tuple(sorted(value.items())) if isinstance(value, Mapping) else value
