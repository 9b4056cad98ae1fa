"""Row changes: BINLOG statements that a server applies, and pseudo-SQL comments to read.

A statement's TABLE_MAPs and rows events belong together: a server takes them in one BINLOG, which
ends with the rows event that has STMT_END. So they are kept until then, on disk when they are many.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.rows.table_sink import TableSink
from binlake.core.rows.walk import RowWalker
from binlake.core.text.replay_lines import base64_lines
from binlake.core.text.text_rows import RowTemplate, write_values
from binlake.errors import BinlogError, FormatError, MissingContextError, UnsupportedError
from binlake.events.common.rows import RowsEvent
from binlake.events.common.table_map import TableMapEvent, table_map_of
from binlake.format.event_header import TYPE_AT, U32
from binlake.format.event_types import TABLE_MAP_EVENT
from binlake.format.flags import (
    ROWS_FLAGS,
    ROWS_NO_CHECK_CONSTRAINT_CHECKS_F,
    ROWS_STMT_END_F,
    ROWS_USE_SQL_FOREIGN_KEY_F,
)
from binlake.format.sql_names import quoted_name
from binlake.printable import printable
from binlake.replay.event_text import END, TextOptions
from binlake.replay.shown import Shown
from binlake.source.arrays import numbers
from binlake.source.window import Window
from binlake.table.sql.pseudo_sql import PseudoTable, PseudoTables
from binlake.values.frame import EventFormat

_IN_MEMORY_BYTES = 8 << 20
_CHUNK_BYTES = 1 << 20

# as the servers' tools spell them
_FLAG_WORDS = {
    flavour: {bit: f"{name}_F" for bit, name in ROWS_FLAGS.items() if bit != of_the_other}
    for flavour, of_the_other in (
        ("mysql", ROWS_NO_CHECK_CONSTRAINT_CHECKS_F),
        ("mariadb", ROWS_USE_SQL_FOREIGN_KEY_F),
    )
}


def rows_flags_text(flags: int, flavour: str) -> str:
    """The flags of a rows event by the flavour's names, unknown bits as hex; "" for none."""
    words = []
    rest = flags
    for bit, word in _FLAG_WORDS[flavour].items():
        if flags & bit:
            words.append(word)
            rest &= ~bit
    if rest:
        words.append(f"UNKNOWN_FLAG(0x{rest:x})")
    return " flags: " + " ".join(words) if words else ""


class EventRows(NamedTuple):
    """The changes of an event: the number of rows, and their comments."""

    rows: int
    comments: bytes | memoryview

    def followed_by(self, more: EventRows) -> EventRows:
        """These, and more of the same event."""
        return EventRows(self.rows + more.rows, b"".join((self.comments, more.comments)))


class PseudoSql:
    """Decodes the rows events of a log for their comments; called with events in their order.

    The rows of a whole window are decoded at its first event. Where that fails, or makes too much text,
    the window's events are decoded one by one, so that only those that cannot be decoded have no rows.
    `name_of(table_map)` is what the statements call a table.
    """

    def __init__(self, options: TextOptions, name_of: Callable[[TableMapEvent], bytes]) -> None:
        self._has_types = options.verbose > 1
        self._limits = options.limits
        self._is_shown = bool(options.verbose) and not options.short_form
        self._name_of = name_of
        self._tables = PseudoTables()
        self._window: Window | None = None
        self._whole: dict[int, EventRows] | None = None  # by the event's offset in the window
        self._open_maps: list[tuple[Window, int]] = []  # of the statement that has not ended
        self._start()

    def _start(self) -> None:
        """Also after an error, when the walker no longer knows the tables of the statement."""
        self._walker = RowWalker(self._resolve, self._limits.decoded)
        self._walker.begin_transaction(None, 0, None, 0)

    def _resolve(self, body: bytes, fmt: EventFormat) -> TableSink:
        event = table_map_of(body, fmt)
        table = self._tables.table(event, self._name_of(event))
        sink = table.new_sink()
        sink.purpose = table
        return sink

    def whole(self, window: Window, index: int) -> dict[int, EventRows] | None:
        """The changes of a window from an event on, by the offsets of rows events; None where not
        all of them can be decoded, or where they are too much text to hold.
        """
        self._enter(window, index)
        return self._whole

    def take_table(self, window: Window, index: int) -> None:
        """Take in a TABLE_MAP. An error in it is raised when it has rows."""
        self._enter(window, index)
        self._open_maps.append((window, index))
        if self._whole is None:
            self._take_alone(window, index)

    def _take_alone(self, window: Window, index: int) -> None:
        try:
            self._walk(window, index, index + 1)
        except (UnsupportedError, FormatError):
            self._start()

    def changes(self, window: Window, index: int, event: RowsEvent) -> Iterator[EventRows]:
        """Yield the decoded changes of a rows event, in parts that do not take much memory.

        Where they cannot be decoded (an unknown table, a type of old), the comment is one line that
        says why, and there are no rows. Raises FormatError, behind the parts before the damage.
        """
        self._enter(window, index)
        if event.is_statement_end:
            self._open_maps.clear()
        if event.is_dummy:
            return
        if self._whole is not None:
            yield self._whole.get(event.frame.offset, EventRows(0, b""))
            return
        try:
            for found in self._decoded(window, index, index + 1):
                yield from found.values()
        except MissingContextError:
            self._start()
            yield EventRows(0, f"### Row event for unknown table #{event.table_id}\n".encode())
        except UnsupportedError as error:
            self._start()
            yield EventRows(0, f"### {printable(error.message)}\n".encode())
        except BinlogError:
            self._start()
            raise

    def _enter(self, window: Window, index: int) -> None:
        """Decode a window from this event on, if that was not done yet."""
        if window is self._window:
            return
        self._window = window
        try:
            self._whole = self._decoded_whole(window, index)
        except BinlogError:
            self._whole = None
        if self._whole is None:
            # not before an error is gone: it keeps the walker, whose tables may be many
            self._start_anew()

    def _start_anew(self) -> None:
        self._start()
        for window, index in self._open_maps:
            self._take_alone(window, index)

    def _decoded_whole(self, window: Window, first: int) -> dict[int, EventRows] | None:
        """The changes of a window from an event on, by the offsets of events; None if they are too much
        text.
        """
        found: dict[int, EventRows] = {}
        size = 0
        for part in self._decoded(window, first, len(window)):
            size += sum(len(more.comments) for more in part.values())
            if size > self._limits.window:
                return None
            for position, more in part.items():
                begun = found.get(position)
                found[position] = more if begun is None else begun.followed_by(more)
        return found

    def _decoded(self, window: Window, first: int, last: int) -> Iterator[dict[int, EventRows]]:
        """Yield the changes of events [first, last), by their offsets, whenever enough are held."""
        at = first
        while at < last:
            at = self._walk(window, at, last)
            yield self._written()

    def _walk(self, window: Window, first: int, last: int) -> int:
        self._walker.set_format(window.format)
        return self._walker.run_rows(window.data, window.base, window.block, first, last)

    def _written(self) -> dict[int, EventRows]:
        """Return the walker's results, by event."""
        found = self._walker.finish().tables
        if not found:
            return {}
        templates, positions, sequences = [], [], []
        for sink, rows in found:
            table: PseudoTable = sink.purpose
            shown = None
            if self._is_shown:
                template = table.commented_template if self._has_types else table.template
                shown = template(rows)
            templates.append(shown or RowTemplate(rows.count))
            positions.append(numbers(pa.int64(), rows.count, rows.pos))
            sequences.append(numbers(pa.int64(), rows.count, rows.seq))
        order = pc.sort_indices(pa.concat_arrays(sequences))
        written, offsets = write_values(templates, order.buffers()[1])
        text, starts = memoryview(written), memoryview(offsets).cast("q")
        runs = pc.run_end_encode(pa.concat_arrays(positions).take(order))
        result = {}
        first = 0
        ends = zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True)
        for position, end in ends:
            result[position] = EventRows(end - first, text[starts[first] : starts[end]])
            first = end
        return result


class RowStatement:
    """The rows of one statement, up to STMT_END: heads, base64 and comments."""

    def __init__(self, options: TextOptions) -> None:
        self._options = options
        self._base64: _Spool = _Spool()
        self._comments: _Spool = _Spool()
        self._last: tuple[bytes, EventFormat] | None = None
        self.heads: list[bytes] = []
        self.rows = 0
        self.is_open = False

    def add(self, shown: Shown) -> None:
        """Take in a TABLE_MAP or rows event."""
        self.is_open = True
        if self._options.prints_base64:
            self._keep()
            self._last = (shown.raw, shown.format)

    def add_comments(self, text: bytes | memoryview) -> None:
        """Take in the pseudo-SQL of an event."""
        self._comments.write(text)

    def _keep(self) -> None:
        if self._last is not None:
            self._base64.write(base64_lines(self._last[0]))
            self._last = None

    def finish(self, write: Callable[[bytes | memoryview], object]) -> None:
        """Print it all, and start the next statement."""
        self._print_heads(write)
        if self._last is not None:
            self._last = (_ending_statement(*self._last), self._last[1])
        self._keep()
        if not self._base64.is_empty:
            write(b"\nBINLOG '\n")
            self._base64.drain(write)
            write(b"'" + END)
        self._comments.drain(write)
        self._start_next()

    def drop(self, write: Callable[[bytes | memoryview], object]) -> None:
        """Print only that there were events: their end is missing."""
        self._print_heads(write)
        for spool in (self._base64, self._comments):
            spool.drain(lambda _: None)
        self._start_next()

    def _print_heads(self, write: Callable[[bytes | memoryview], object]) -> None:
        for head in self.heads:
            write(head)
        self.heads = []

    def _start_next(self) -> None:
        self._last = None
        self.rows = 0
        self.is_open = False


class _Spool:
    """Buffered text: in memory, or on disk if it is large."""

    def __init__(self) -> None:
        self._file: SpooledTemporaryFile[bytes] | None = None

    @property
    def is_empty(self) -> bool:
        return self._file is None

    def write(self, text: bytes | memoryview) -> None:
        if self._file is None:
            self._file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115
        self._file.write(text)

    def drain(self, write: Callable[[bytes | memoryview], object]) -> None:
        """Return all text, and clear the buffer."""
        if self._file is None:
            return
        with self._file as file:
            self._file = None
            file.seek(0)
            while chunk := file.read(_CHUNK_BYTES):
                write(chunk)


def _ending_statement(raw: bytes, fmt: EventFormat) -> bytes:
    """Print a statement's last rows event with STMT_END if the event that had the flag is not
    shown. Without the flag a server would keep the tables open, and refuse what comes next.
    """
    if raw[TYPE_AT] == TABLE_MAP_EVENT:
        return raw
    flags_at = fmt.header_length + fmt.table_id_bytes(raw[TYPE_AT])
    if raw[flags_at] & ROWS_STMT_END_F:
        return raw
    body_end = len(raw) - fmt.checksum_bytes
    patched = (
        raw[:flags_at] + bytes((raw[flags_at] | ROWS_STMT_END_F,)) + raw[flags_at + 1 : body_end]
    )
    return patched + U32.pack(zlib.crc32(patched))[: fmt.checksum_bytes]


def table_name(event: TableMapEvent, options: TextOptions) -> bytes:
    """`database`.`table`, renamed as the options say."""
    return quoted_name(options.renamed(event.database), event.table).encode()
