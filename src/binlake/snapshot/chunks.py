"""The rows that a table has now, in chunks that are read independently and at different times.

    for chunk in chunks_of(url, table):              # picklable: a task reads a chunk
        with chunk.read(url) as reading:
            reading.position                         # apply the log from the oldest position on
            for batch in reading: ...

No table is locked. A chunk sees every change before its position and maybe later ones. Applying the log
from the oldest position of all chunks on, by key, leaves the rows as the server has them.
A table without a key is one chunk, read at exactly its position.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, pairwise

import pyarrow as pa

from binlake.errors import OptionError, ServerError, UnsupportedError
from binlake.format import column_types as ct
from binlake.snapshot.bounds import Bound, between, even_bounds, walked_bounds
from binlake.snapshot.commits import wait_for_unlocks
from binlake.snapshot.read_session import (
    begin_snapshot,
    open_session,
    settled_position,
    take_raw_text,
)
from binlake.snapshot.table_rows import RowSelect
from binlake.snapshot.tables import SourceTable
from binlake.source.replica.connection import ServerConnection
from binlake.source.replica.prepared import BatchLimits
from binlake.values.builds import PickledByName
from binlake.values.closing import Closing
from binlake.values.position import Position
from binlake.values.times import since_epoch_us

_MOST_CHUNKS = 100_000
# A mirror that is stopped waits for the chunks that it reads, and one that is killed reads them again.
_MOST_CHUNK_BYTES = 1 << 30
_MOST_CHUNK_S = 20
_FEWEST_CHUNK_ROWS = 64
# The servers' limit for the columns of a row, without the content of BLOB, TEXT, JSON, GEOMETRY and VECTOR.
_MOST_ROW_BYTES = 65_535


@dataclass(frozen=True, slots=True)
class SnapshotOptions(PickledByName):
    """How a snapshot is read.

    `chunk_rows`: about how many rows a chunk has, fewer if rows are large or the rate is bounded. `batch_rows` and `batch_bytes` bound a batch.
    `max_rows_per_s` bounds the rate of one reader, 0 does not: divide a total by the number of readers.
    """

    chunk_rows: int = 1_000_000
    batch_rows: int = 65_536
    batch_bytes: int = 32 << 20
    max_rows_per_s: int = 0

    def __post_init__(self) -> None:
        for name in ("chunk_rows", "batch_rows", "batch_bytes"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name}: expected 1 or more", name=name)
        if self.max_rows_per_s < 0:
            raise OptionError("max_rows_per_s: expected 0 or more", name="max_rows_per_s")

    @property
    def limits(self) -> BatchLimits:
        """The bounds of a batch: about a second's rows where the rate is bounded."""
        rows = min(self.batch_rows, self.max_rows_per_s or self.batch_rows)
        return BatchLimits(rows, self.batch_bytes)


def chunks_of(
    url: str, table: SourceTable, options: SnapshotOptions | None = None
) -> list[TableChunk]:
    """Divide a table. The bounds stay valid whatever is written: new rows are in some chunk.

    Raises ServerError, OptionError, and UnsupportedError for a table without a key whose engine has
    no consistent reads.
    """
    options = options or SnapshotOptions()
    if not table.key:
        if not table.is_transactional:
            raise UnsupportedError(
                f"{table.full_name}: a table of engine {table.engine} needs a primary key",
                hint="add a primary key, or change the engine to InnoDB",
            )
        return [TableChunk(table, options, 0, None, None)]
    rows = _chunk_rows(table, options)
    with open_session(url) as server:
        bounds = even_bounds(server, table, rows)
        if bounds is None:
            bounds = list(islice(walked_bounds(server, table, rows), _MOST_CHUNKS))
    edges: list[Bound | None] = [None, *bounds, None]
    return [
        TableChunk(table, options, number, lower, upper)
        for number, (lower, upper) in enumerate(pairwise(edges))
    ]


def _chunk_rows(table: SourceTable, options: SnapshotOptions) -> int:
    """About how many rows a chunk has."""
    rows = options.chunk_rows
    if table.row_bytes:
        rows = min(rows, max(_FEWEST_CHUNK_ROWS, _MOST_CHUNK_BYTES // _row_bytes(table)))
    if options.max_rows_per_s:
        rows = min(rows, _MOST_CHUNK_S * options.max_rows_per_s)
    return max(1, rows)


def _row_bytes(table: SourceTable) -> int:
    """The average size of a row. The server's estimate includes the space of deleted rows, which may be a gigabyte a row in a
    table that is used as a queue.
    """
    if any(column.type_code in ct.LARGE_TYPES for column in table.definition.columns):
        return table.row_bytes
    return min(table.row_bytes, _MOST_ROW_BYTES)


@dataclass(frozen=True, slots=True)
class TableChunk(PickledByName):
    """Part of a table: the rows whose keys are beyond `lower` and not beyond `upper`."""

    table: SourceTable
    options: SnapshotOptions
    number: int
    lower: Bound | None
    upper: Bound | None

    def read(self, url: str) -> ChunkReading:
        """Log in and note the position; iterating then reads the rows. Raises as `connect`, ServerError."""
        return ChunkReading(self, url)

    @property
    def condition(self) -> str:
        """The rows of the chunk as an SQL condition; "" for all."""
        if self.lower is None and self.upper is None:
            return ""
        return between(self.table, self.lower, self.upper)

    def to_json(self) -> str:
        """The number and the bounds, to go on with the same chunks later."""
        return json.dumps({"number": self.number, "lower": self.lower, "upper": self.upper})

    @classmethod
    def from_json(cls, text: str, table: SourceTable, options: SnapshotOptions) -> TableChunk:
        """The chunk that `to_json` wrote. Raises ValueError."""
        known = json.loads(text)
        lower, upper = (
            None if known[name] is None else tuple(map(str, known[name]))
            for name in ("lower", "upper")
        )
        return cls(table, options, int(known["number"]), lower, upper)


class ChunkReading(Closing):
    """One reading of a chunk: an iterator of record batches, to be closed.

    `position` belongs to it: the rows hold every change before it. `moment_us` is the server's clock before
    the rows were read, microseconds since 1970 UTC. `rows`, `bytes` (as sent) and
    `zero_dates` (by column, which became null) count what has been read so far.
    """

    def __init__(self, chunk: TableChunk, url: str) -> None:
        self.chunk = chunk
        self._select = RowSelect(chunk.table, chunk.options.limits)
        with ExitStack() as stack:
            self._server = stack.enter_context(open_session(url))
            find = settled_position if chunk.table.key else begin_snapshot
            self.moment_us = _moment_us(self._server)
            self.position = find(self._server)
            if not chunk.table.is_transactional:
                wait_for_unlocks(self._server)
            take_raw_text(self._server)
            self._open = stack.pop_all()

    @property
    def rows(self) -> int:
        """Rows read so far."""
        return self._select.rows

    @property
    def bytes(self) -> int:
        """Bytes received for them."""
        return self._select.bytes

    @property
    def zero_dates(self) -> Counter[str]:
        """Zero and partial dates among them that became null, by column."""
        return self._select.zero_dates

    def end(self) -> Position:
        """The end of the server's log now, without its GTIDs: after the last row, no row has a later change. Raises
        ServerError.
        """
        return Position(self._server.identity, *self._server.end())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        rate = self.chunk.options.max_rows_per_s
        began = time.monotonic()
        for batch in self._select.batches(self._server, self.chunk.condition):
            yield batch
            if rate:
                # the server waits meanwhile: it can send no more than the connection's buffers hold
                time.sleep(max(0.0, self.rows / rate - (time.monotonic() - began)))

    def close(self) -> None:
        """End the session; the rows that were not read are not sent."""
        self._open.close()


def _moment_us(server: ServerConnection) -> int:
    """The server's clock."""
    text = server.row("SELECT UTC_TIMESTAMP(6)")[0] or ""
    try:
        moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        raise ServerError(f"{server.where} answers {text[:40]!r} for its clock") from None
    return since_epoch_us(moment)
