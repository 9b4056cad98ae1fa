"""Facts that successive row changes share beside their transaction: file, statement, source
position.

The compiled walker numbers all row changes (`RowWalker.rows`). Facts that change rarely are stored
here as row_origins with such numbers. Facts that change with every event (the statement, the
source's position in a relay log) are stored only if the options want them: a run is then walked in
parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from binlake.events.mariadb.annotate_rows import AnnotateRowsEvent
from binlake.events.mysql.rows_query import RowsQueryEvent
from binlake.format import event_types as types
from binlake.format.event_types import Role, codes_of
from binlake.source.arrays import runs, scalar
from binlake.source.window import OpenLog
from binlake.stream.event_at import event_at
from binlake.stream.groups.relay import source_file_before, source_files
from binlake.stream.runs import Piece
from binlake.table.batches import RowOrigin
from binlake.values.options import ReadOptions

if TYPE_CHECKING:
    from binlake.core.rows.walk import RowWalker
    from binlake.source.window import Window

_STATEMENT_TEXTS = (types.ROWS_QUERY_LOG_EVENT, types.ANNOTATE_ROWS_EVENT)
_ROWS, _GTIDS, _QUERIES, _ENDS = map(codes_of, (Role.ROWS, Role.GTID, Role.QUERY, Role.XID))


class RowOriginFinder:
    """Notes the row_origins of one decoder."""

    def __init__(self, options: ReadOptions) -> None:
        self._wants_query = options.query
        self._current = RowOrigin(0, "", 0)
        self._noted: list[RowOrigin] = []
        self._source_files: dict[str, list[tuple[int, str]]] = {}
        self._sources_before: dict[str, str | None] = {}

    def begin(
        self, file: OpenLog, sequence: int, decided: tuple[int, int, int] | None = None
    ) -> None:
        """From row change number `sequence` on they are in `file`, of a run or transaction."""
        self._note(RowOrigin(sequence, file.name, file.ordinal, decided))

    def parts(self, piece: Piece, walker: RowWalker) -> Iterator[tuple[int, int]]:
        """The frames of a piece in parts, each of which lies in one row_origin."""
        if piece.window.file.is_relay:
            yield from self._relay_parts(piece, walker)
        elif self._wants_query:
            yield from self._query_parts(piece, walker)
        else:
            yield piece.first, piece.last

    def take(self, sequence: int) -> list[RowOrigin]:
        """Return the row_origins noted so far; the current one continues from `sequence`."""
        taken = self._noted
        self._noted = []
        self._note(self._current._replace(first_sequence=sequence))
        return taken

    def _note(self, row_origin: RowOrigin) -> None:
        if self._noted and self._noted[-1].first_sequence == row_origin.first_sequence:
            self._noted.pop()  # no row change was in it
        elif self._noted and self._noted[-1][1:] == row_origin[1:]:
            return
        self._current = row_origin
        self._noted.append(row_origin)

    def _query_parts(self, piece: Piece, walker: RowWalker) -> Iterator[tuple[int, int]]:
        first = piece.first
        for at in range(piece.first, piece.last):
            code = piece.window.block.type_code[at]
            if code in _STATEMENT_TEXTS or code in _GTIDS or code in _QUERIES or code in _ENDS:
                yield first, at
                self._note_query(piece.window, at, walker.rows)
                first = at
        yield first, piece.last

    def _note_query(self, window: Window, at: int, sequence: int) -> None:
        """Note a statement: its text holds until the next one, or the next transaction."""
        text: str | None = None
        if window.block.type_code[at] in _STATEMENT_TEXTS:
            event = event_at(window, at)
            assert isinstance(event, RowsQueryEvent | AnnotateRowsEvent)
            text = event.query
        self._note(self._current._replace(first_sequence=sequence, query=text))

    def _relay_parts(self, piece: Piece, walker: RowWalker) -> Iterator[tuple[int, int]]:
        """Note positions event by event, because each has its own position in the source's log."""
        window = piece.window
        for at in range(piece.first, piece.last):
            code = window.block.type_code[at]
            if self._wants_query and code in _STATEMENT_TEXTS:
                self._note_query(window, at, walker.rows)
            elif code in _ROWS:
                frame = piece.outer or window.frame(at)
                source = self._source_file(window.file, frame.offset)
                pos = frame.log_pos - frame.length if frame.log_pos else None
                self._note(
                    self._current._replace(
                        first_sequence=walker.rows, source_file=source, source_pos=pos
                    )
                )
            yield at, at + 1

    def _source_file(self, file: OpenLog, offset: int) -> str | None:
        """Return the source's log file from which the event at an offset of a relay log came."""
        known = self._source_files.get(file.path)
        if known is None:
            known = self._source_files[file.path] = source_files(file)
        name = None
        for start, source_file in known:
            if start > offset:
                break
            name = source_file
        if name is None:
            if file.path not in self._sources_before:
                self._sources_before[file.path] = source_file_before(file)
            name = self._sources_before[file.path]
        return name


def row_origin_of(sequence: pa.Array, row_origins: Sequence[RowOrigin]) -> pa.Array:
    """Return the index of the row_origin (int32) of each row change number."""
    if len(row_origins) == 1:
        return pa.repeat(scalar(0, pa.int32()), len(sequence))
    start = row_origins[0].first_sequence
    count = pc.max(sequence).as_py() - start + 1
    ends = [row_origin.first_sequence - start for row_origin in row_origins[1:]]
    ends = [end for end in ends if end < count]
    index = runs([*ends, count], range(len(ends) + 1))
    return index.take(pc.subtract(sequence, scalar(start)))
