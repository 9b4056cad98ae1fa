"""SQL statements as a script of whole transactions: in commit order, or backwards.

    -- 2026-11-21T07:09:00.123456Z, 3e11fa47-…:5, binlog.000001:1234
    BEGIN;
    INSERT INTO …;
    COMMIT;

The decoder yields row changes whenever it holds enough, even in the middle of a transaction, so a
batch may continue the transaction of the one before it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from binlake.errors import BinlogError, UnsupportedError
from binlake.printable import printable
from binlake.source.arrays import array, scalar
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import PlainRun, Run
from binlake.stream.spread import ReaderWithRuns, ReadsRuns
from binlake.table.batches import Changes
from binlake.table.sql.backwards import BackwardsFile
from binlake.table.sql.row_sql import SqlFaces
from binlake.table.text.json_text import join
from binlake.table.text.sql_text import SESSION

_TEXT = pa.large_string()
_EMPTY = scalar("", _TEXT)
_COMMIT = "COMMIT;\n"
_NOT_WHOLE = (
    "-- not committed: the log could not be read to the end of this transaction\nROLLBACK;\n"
)


class ForeignKeys:
    """Finds which foreign key checks the statements of a log need.

    Since 9.6 MySQL logs the effect of a foreign key's action on other rows, children first. Older
    servers and MariaDB leave the action to the server that applies the log.
    """

    def __init__(self) -> None:
        self._logged: bool | None = None

    def watch(self, runs: Iterable[Run]) -> Iterator[Run]:
        """Yield the same runs, and remember the server version. Raises UnsupportedError for a
        mixture.
        """
        for run in runs:
            file = run.window.file if isinstance(run, PlainRun) else run.file
            fmt = file.format
            if fmt is not None:
                if self._logged not in (None, fmt.logs_cascades):
                    raise UnsupportedError(
                        "logs of servers before and after MySQL 9.6 need different"
                        " foreign_key_checks",
                        file=file.name,
                        hint="convert the logs of each server separately",
                    )
                self._logged = fmt.logs_cascades
            yield run

    @property
    def are_logged(self) -> bool:
        """Whether the log contains the effects of foreign keys on other rows."""
        return bool(self._logged)

    @property
    def lines(self) -> list[str]:
        """Return the statement that the session needs, if any."""
        return ["SET SESSION foreign_key_checks = 0;"] if self._logged else []


def watched(reader: LogReader, keys: ForeignKeys, shown_kinds: Container[str] = ()) -> ReadsRuns:
    """Return a reader whose runs `keys` sees first; `shown_kinds` as LogReader.runs."""
    return ReaderWithRuns(reader, lambda on_ddl: keys.watch(reader.runs(on_ddl, shown_kinds)))


def session_lines(keys: ForeignKeys) -> bytes:
    """Return the statements at the head of a script."""
    return "".join(line + "\n" for line in (*SESSION, *keys.lines)).encode()


def forward_script(
    changes: Iterable[Changes | bytes], faces: SqlFaces, keys: ForeignKeys
) -> Iterator[pa.Buffer | bytes]:
    """Yield transactions in commit order; their text as it becomes known.

    Bytes among the changes are statements between two transactions, which may change the session.
    Raises BinlogError, after the text before the damage; an incomplete transaction is not
    committed.
    """
    last: _Batch | None = None
    try:
        for found in changes:
            if isinstance(found, bytes):
                if last is not None:
                    yield _COMMIT.encode()
                    last = None
                yield found
                continue
            if not found.tables:
                continue
            batch = _Batch(found, faces)
            if last is None:
                yield session_lines(keys)
            if last is not None and last.last == batch.first:
                batch.continue_transaction()
            elif last is not None:
                yield _COMMIT.encode()
            yield batch.forward()
            last = batch
    except BinlogError:
        if last is not None:
            yield (_NOT_WHOLE if last.is_full else _COMMIT).encode()
        raise
    if last is not None:
        yield _COMMIT.encode()


def backward_script(
    changes: Iterable[Changes], faces: SqlFaces, keys: ForeignKeys
) -> Iterator[pa.Buffer | bytes]:
    """Yield transactions in reverse commit order, and their statements in reverse order.

    Everything is read into a temporary file before the first text is yielded. Raises BinlogError.
    """
    with BackwardsFile() as kept:
        last: _Batch | None = None
        for batch in _batches(changes, faces):
            if last is not None and last.last == batch.first:
                batch.continue_transaction()
            elif last is not None:
                kept.append(last.last_head)
            kept.append(batch.backward())
            last = batch
        if last is None:
            return
        kept.append(last.last_head)
        yield session_lines(keys)
        yield from kept.backwards()


class _Identity(NamedTuple):
    """The facts that distinguish a transaction from the next. `file` is "" in relay logs, where it may
    continue in another file.
    """

    file: str
    start: int
    gtid: str | None
    ts: int


class _Batch:
    """The statements of a flush, in commit order."""

    def __init__(self, changes: Changes, faces: SqlFaces) -> None:
        tables = changes.tables
        statements = pa.concat_arrays([faces.statements(table, changes) for table in tables])
        of = pa.concat_arrays([table.facts.transaction for table in tables])
        row_origin = pa.concat_arrays([table.facts.row_origin for table in tables])
        if len(tables) > 1:
            order = pc.sort_indices(pa.concat_arrays([table.facts.sequence for table in tables]))
            statements, of, row_origin = (x.take(order) for x in (statements, of, row_origin))
        self.is_full = changes.is_full
        self._statements = statements
        changed = pc.not_equal(of[1:], of[:-1])
        edge = array([True], pa.bool_())
        self._begins = self._begun = pa.concat_arrays([edge, changed])
        self._ends = pa.concat_arrays([changed, pc.invert(edge)])  # of the last one, unknown so far
        firsts = pc.indices_nonzero(self._begins)
        self._heads = _heads(changes, of.take(firsts), row_origin.take(firsts))
        self._head_of = pc.subtract(pc.cumulative_sum(self._begins.cast(pa.int32())), scalar(1))
        self.first = _identity(changes, of[0].as_py(), row_origin[0].as_py())
        self.last = _identity(changes, of[-1].as_py(), row_origin[firsts[-1].as_py()].as_py())

    @property
    def last_head(self) -> bytes:
        """The beginning of the last transaction."""
        return str(self._heads[-1]).encode()

    def continue_transaction(self) -> None:
        """Note that the first transaction is the last one of the batch before: it has begun there."""
        self._begun = pa.concat_arrays([array([False], pa.bool_()), self._begins[1:]])

    def forward(self) -> pa.Buffer:
        """Return the text without the last COMMIT."""
        heads = pc.if_else(self._begun, self._heads.take(self._head_of), _EMPTY)
        commits = pc.if_else(self._ends, scalar(_COMMIT, _TEXT), _EMPTY)
        return _buffer(join(heads, self._statements, commits))

    def backward(self) -> pa.Buffer:
        """Return the text backwards, without the beginning of the last transaction."""
        heads = pc.if_else(self._ends, self._heads.take(self._head_of), _EMPTY)
        commits = pc.if_else(self._begun, scalar(_COMMIT, _TEXT), _EMPTY)
        text = join(heads, self._statements, commits)
        return _buffer(text.take(array(range(len(text) - 1, -1, -1), pa.int64())))


def _batches(changes: Iterable[Changes], faces: SqlFaces) -> Iterator[_Batch]:
    for found in changes:
        if found.tables:
            yield _Batch(found, faces)


def _heads(changes: Changes, of: pa.Array, row_origin: pa.Array) -> pa.Array:
    """Return the comment and the BEGIN of transactions, by index and the row_origin of their first
    row.
    """
    facts = changes.transactions
    gtid = pc.if_else(facts.gtid.is_valid(), join(", ", facts.gtid.cast(_TEXT)), _EMPTY)
    place = join(
        array([printable(s.file) for s in changes.row_origins], _TEXT).take(row_origin),
        ":",
        facts.start.cast(_TEXT).take(of),
    )
    return join("\n-- ", facts.ts_text().take(of), gtid.take(of), ", ", place, "\nBEGIN;\n")


def _identity(changes: Changes, of: int, row_origin: int) -> _Identity:
    facts, where = changes.transactions, changes.row_origins[row_origin]
    is_relay = where.source_pos is not None or where.source_file is not None
    return _Identity(
        "" if is_relay else where.file,
        facts.start[of].as_py(),
        facts.gtid[of].as_py(),
        facts.ts[of].value,
    )


def _buffer(text: pa.Array) -> pa.Buffer:
    data = text.buffers()[2]
    return pa.py_buffer(b"") if data is None else data
