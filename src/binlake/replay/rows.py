"""Row changes: BINLOG statements that a server applies, and pseudo-SQL comments to read.

A statement's TABLE_MAPs and rows events belong together: a server takes them in one BINLOG, which
ends with the rows event that has STMT_END. So they are kept until then, on disk when they are many.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

from binlake.core.table_sink import TableSink
from binlake.core.walk import RowWalker
from binlake.errors import BinlogError, FormatError, MissingContextError, UnsupportedError
from binlake.events.reader import BodyReader
from binlake.events.rows import RowsEvent
from binlake.events.table_map import TableMapEvent
from binlake.format.event_types import TABLE_MAP_EVENT
from binlake.format.flags import ROWS_STMT_END_F
from binlake.replay.shown import Shown
from binlake.replay.text import DELIMITER, TextOptions, base64_lines
from binlake.source.window import Window
from binlake.table.pseudo_sql import PseudoTable, quoted_name
from binlake.values.frame import EventFormat, Frame

__all__ = ["PseudoSql", "RowStatement", "rows_flags_text"]

_IN_MEMORY_BYTES = 8 << 20
_CHUNK_BYTES = 1 << 20
_MOST_TABLES = 1 << 12

# as the servers' tools spell them
_FLAG_WORDS = (
    (0x0001, "STMT_END_F"),
    (0x0002, "NO_FOREIGN_KEY_CHECKS_F"),
    (0x0004, "RELAXED_UNIQUE_CHECKS_F"),
    (0x0008, "COMPLETE_ROWS_F"),
)
_MYSQL_FLAG_WORDS = (*_FLAG_WORDS, (0x0010, "USE_SQL_FOREIGN_KEY_F"))
_MARIADB_FLAG_WORDS = (*_FLAG_WORDS, (0x0080, "NO_CHECK_CONSTRAINT_CHECKS_F"))


def rows_flags_text(flags: int, flavour: str) -> str:
    """The flags of a rows event by the flavour's names, unknown bits as hex; "" for none."""
    words = []
    rest = flags
    for bit, word in _MARIADB_FLAG_WORDS if flavour == "mariadb" else _MYSQL_FLAG_WORDS:
        if flags & bit:
            words.append(word)
            rest &= ~bit
    if rest:
        words.append(f"UNKNOWN_FLAG(0x{rest:x})")
    return " flags: " + " ".join(words) if words else ""


class RowChanges(NamedTuple):
    """What an event changed: how many rows, and their comments, made when they are asked for."""

    rows: int
    lines: Iterator[bytes]


class PseudoSql:
    """Decodes the rows events of a log for their comments; called with events in their order.

    `name_of(table_map)` is what the statements call a table.
    """

    def __init__(self, options: TextOptions, name_of: Callable[[TableMapEvent], bytes]) -> None:
        self._comments = options.verbose > 1
        self._name_of = name_of
        self._start()

    def _start(self) -> None:
        """Also after an error, when the walker no longer knows the tables of the statement."""
        self._tables: dict[TableSink, PseudoTable] = {}
        self._walker = RowWalker(self._resolve)
        self._walker.begin_transaction(None, 0, None, 0)

    def _resolve(self, body: bytes, fmt: EventFormat) -> TableSink:
        if len(self._tables) > _MOST_TABLES:
            self._tables.clear()
        frame = Frame(0, TABLE_MAP_EVENT, len(body), 0, 0, 0, 0)
        event = TableMapEvent.decode(frame, BodyReader(body), fmt)
        table = PseudoTable(event, self._name_of(event))
        self._tables[table.sink] = table
        return table.sink

    def take_table(self, window: Window, index: int) -> None:
        """Take in a TABLE_MAP. What is wrong with it is told when it has rows."""
        try:
            self._walk(window, index)
        except (UnsupportedError, FormatError):
            self._start()

    def changes(self, window: Window, index: int, event: RowsEvent) -> RowChanges:
        """The decoded changes of a rows event. Raises FormatError.

        Where nobody can tell what they are (an unknown table, a type of old), their one line says
        why, and there are none.
        """
        if event.is_dummy:
            return RowChanges(0, iter(()))
        try:
            self._walk(window, index)
            found = self._walker.finish().tables
        except MissingContextError:
            self._start()
            text = f"### Row event for unknown table #{event.table_id}\n"
            return RowChanges(0, iter((text.encode(),)))
        except UnsupportedError as error:
            self._start()
            return RowChanges(0, iter((f"### {error.message}\n".encode(),)))
        except BinlogError:
            self._start()
            raise
        lines = (
            self._tables[sink].lines(rows, event.operation, comments=self._comments)
            for sink, rows in found
        )
        return RowChanges(sum(rows.count for _, rows in found), chain.from_iterable(lines))

    def _walk(self, window: Window, index: int) -> None:
        self._walker.set_format(window.format)
        self._walker.run_rows(window.data, window.base, window.block, index, index + 1)


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

    def add_comments(self, lines: Iterator[bytes]) -> None:
        """Take in the pseudo-SQL of an event."""
        self._comments.write(lines)

    def _keep(self) -> None:
        if self._last is not None:
            self._base64.write((base64_lines(self._last[0]),))
            self._last = None

    def finish(self, write: Callable[[bytes], object]) -> None:
        """Print it all, and start the next statement."""
        self._say_heads(write)
        if self._last is not None:
            self._last = (_ending_statement(*self._last), self._last[1])
        self._keep()
        if not self._base64.is_empty:
            write(b"\nBINLOG '\n")
            self._base64.drain(write)
            write(b"'" + DELIMITER + b"\n")
        self._comments.drain(write)
        self._start_next()

    def drop(self, write: Callable[[bytes], object]) -> None:
        """Print only that the events were there: what ends them is missing."""
        self._say_heads(write)
        for spool in (self._base64, self._comments):
            spool.drain(lambda _: None)
        self._start_next()

    def _say_heads(self, write: Callable[[bytes], object]) -> None:
        for head in self.heads:
            write(head)
        self.heads = []

    def _start_next(self) -> None:
        self._last = None
        self.rows = 0
        self.is_open = False


class _Spool:
    """Text that waits: in memory, or on disk when it is much."""

    def __init__(self) -> None:
        self._file: SpooledTemporaryFile[bytes] | None = None

    @property
    def is_empty(self) -> bool:
        return self._file is None

    def write(self, texts: Iterable[bytes]) -> None:
        for text in texts:
            if self._file is None:
                self._file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115
            self._file.write(text)

    def drain(self, write: Callable[[bytes], object]) -> None:
        """Hand over everything, and be empty."""
        if self._file is None:
            return
        with self._file as file:
            self._file = None
            file.seek(0)
            while chunk := file.read(_CHUNK_BYTES):
                write(chunk)


def _ending_statement(raw: bytes, fmt: EventFormat) -> bytes:
    """A statement's last rows event, with STMT_END where the one that had it is not shown.

    Without the flag a server would keep the tables open, and refuse what comes next.
    """
    if raw[4] == TABLE_MAP_EVENT:
        return raw
    flags_at = fmt.header_length + (4 if fmt.post_header_length(raw[4], 8) == 6 else 6)
    if raw[flags_at] & ROWS_STMT_END_F:
        return raw
    body_end = len(raw) - fmt.checksum_bytes
    patched = (
        raw[:flags_at] + bytes((raw[flags_at] | ROWS_STMT_END_F,)) + raw[flags_at + 1 : body_end]
    )
    return patched + zlib.crc32(patched).to_bytes(4, "little")[: fmt.checksum_bytes]


def table_name(event: TableMapEvent, options: TextOptions) -> bytes:
    """`database`.`table`, renamed as the options say."""
    return quoted_name(options.renamed(event.database)) + b"." + quoted_name(event.table)
