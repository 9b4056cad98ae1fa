"""Committed statements by digest: how often, how many rows and bytes, and where first and last.

    digests = Digests(options, ledger)
    for transaction in reader.transactions(digests.on_ddl): digests.add(transaction)
    for entry in digests.entries(): …

The rows of a statement are those of the rows events after its text. Rows events without a logged
statement count by table and operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from binlake.events.common.query import QueryEvent
from binlake.events.mariadb.annotate_rows import AnnotateRowsEvent
from binlake.events.mysql.rows_query import RowsQueryEvent
from binlake.format.event_types import TABLE_MAP_EVENT, Role, any_code, codes_of
from binlake.stream.event_at import event_at
from binlake.stream.runs import Piece, Transaction
from binlake.stream.sql.digest import digest_text
from binlake.stream.sql.statements import CONTROL, ROWS_TEXT, WITHOUT_TEXT, statement_kind
from binlake.stream.views import STATEMENT_CODES
from binlake.table.batches import OPERATIONS
from binlake.table.counting.row_counts import RowCounter
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.times import utc_text

_MOST_DIGESTS = 1 << 16
_CHARACTERS = 2000
_ROWS = any_code({TABLE_MAP_EVENT, *codes_of(Role.ROWS)})


class _Key(NamedTuple):
    kind: str
    database: str | None
    digest: str


class _Occurrence(NamedTuple):
    """A statement in the logs: its time, the file as it is shown, and the offset."""

    ts_us: int
    file: str
    pos: int

    def to_json(self) -> dict[str, Any]:
        return {"ts": utc_text(self.ts_us), "file": self.file, "pos": self.pos}


@dataclass(slots=True)
class _Sums:
    first: _Occurrence
    last: _Occurrence
    count: int = 0
    rows: int | None = None
    bytes: int = 0


class Digests:
    """Sums by digest, of the kinds that `wants` chooses.

    If there are very many digests, those with the fewest bytes are left out, and counted in
    `left_out`. Pass the DDL in between to `on_ddl`, as for RowCounter.
    """

    def __init__(self, options: ReadOptions, ledger: Ledger, wants: Callable[[str], bool]) -> None:
        self._counter = RowCounter(options, ledger)
        self.on_ddl = self._counter.on_ddl
        self._wants = wants
        self._sums: dict[_Key, _Sums] = {}
        self._current: _Sums | None = None  # of the statement to which rows events belong
        self._passes = False  # whether that statement is of a kind that is not wanted
        self.left_out = 0

    def add(self, transaction: Transaction) -> None:
        """Count the statements of a transaction. Raises BinlogError."""
        self._current, self._passes = None, False
        self._counter.begin(transaction)
        for piece in transaction.pieces():
            codes = bytes(piece.window.block.type_code[piece.first : piece.last])
            edges = [piece.first + m.start() for m in STATEMENT_CODES.finditer(codes)]
            edges.append(piece.last)
            if piece.first < edges[0]:
                self._count(piece.part(piece.first, edges[0]))
            for start, end in pairwise(edges):
                self._begin(piece, start)
                self._count(piece.part(start, end))
        if len(self._sums) > _MOST_DIGESTS:
            self._forget()

    def entries(self) -> Iterator[dict[str, Any]]:
        """JSON-ready, most bytes first."""
        ordered = sorted(self._sums.items(), key=lambda item: (-item[1].bytes, item[0].digest))
        for key, sums in ordered:
            yield {
                "digest": key.digest,
                "kind": key.kind,
                "database": key.database,
                "count": sums.count,
                "rows": sums.rows,
                "bytes": sums.bytes,
                "first": sums.first.to_json(),
                "last": sums.last.to_json(),
            }

    def _begin(self, piece: Piece, index: int) -> None:
        """Return the statement at a frame, which rows events may follow."""
        event = event_at(piece.window, index)
        database = None
        if isinstance(event, QueryEvent):
            kind, sql, database = statement_kind(event.sql_raw), event.sql, event.database or None
        elif isinstance(event, RowsQueryEvent | AnnotateRowsEvent):
            kind, sql = ROWS_TEXT, event.query
        else:
            return
        self._current = None
        has_rows = kind != CONTROL  # statements after BEGIN have no text
        self._passes = has_rows and not self._wants(kind)
        if self._wants(kind):
            sums = self._of(_Key(kind, database, digest_text(sql)[:_CHARACTERS]), piece, index)
            sums.bytes += piece.window.block.length[index]
            self._current = sums if has_rows else None

    def _count(self, piece: Piece) -> None:
        """Return the rows events of a part of a piece that contains at most one statement."""
        block = piece.window.block
        codes = bytes(block.type_code[piece.first : piece.last])
        found = [piece.first + m.start() for m in _ROWS.finditer(codes)]
        if not found or self._passes:
            return
        if self._current is None:
            if self._wants(WITHOUT_TEXT):
                self._count_events(piece, found)
            return
        counts: dict[str, list[int]] = {}
        self._current.bytes += sum(block.length[index] for index in found)
        if self._counter.count(piece, counts):
            self._current.rows = sum(map(sum, counts.values())) + (self._current.rows or 0)

    def _count_events(self, piece: Piece, found: list[int]) -> None:
        """Count rows events of unknown statements, each by its table and operation."""
        block = piece.window.block
        start, size = piece.first, 0
        for index in found:
            size += block.length[index]
            if block.type_code[index] == TABLE_MAP_EVENT:
                continue
            counts: dict[str, list[int]] = {}
            text = "row changes that cannot be counted"
            if self._counter.count(piece.part(start, index + 1), counts):
                text = ", ".join(
                    f"{operation} {table}"
                    for table, by_operation in counts.items()
                    for operation, rows in zip(OPERATIONS, by_operation, strict=True)
                    if rows
                )
            sums = self._of(_Key(WITHOUT_TEXT, None, text), piece, index)
            sums.rows = sum(map(sum, counts.values())) + (sums.rows or 0)
            sums.bytes += size
            start, size = index + 1, 0

    def _of(self, key: _Key, piece: Piece, index: int) -> _Sums:
        window = piece.window
        frame = window.frame(index)
        pos = piece.outer.offset if piece.outer is not None else frame.offset
        found = _Occurrence(frame.timestamp * 1_000_000, window.file.shown, pos)
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = _Sums(found, found)
        sums.last = found
        sums.count += 1
        return sums

    def _forget(self) -> None:
        ordered = sorted(self._sums, key=lambda key: self._sums[key].bytes)
        for key in ordered[: len(ordered) // 2]:
            del self._sums[key]
        self.left_out += len(ordered) // 2
