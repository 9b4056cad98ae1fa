"""Decode the row changes of transactions: the one way from frames to Arrow.

    decoder = ChangeDecoder(options, Target.TYPED, ledger)
    for changes in decoder.read(reader):            # or decode(runs), for a part of a log
        for found in changes.table_batches(options):
            found.definition, found.batch

The decoder owns the compiled walker and, per table definition, the column types that finish the
walker's values. It flushes whenever it holds `batch_bytes`, so memory is bounded inside a huge
transaction, too. It has no state of framing or of transactions.

Undecodable bytes are an error, raised after everything before them has been yielded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import pyarrow as pa

from binlake.core.rows.row_selection import RowSelection
from binlake.core.rows.table_sink import BothImages, CurrentRow, TableBuffers, TableSink
from binlake.core.rows.walk import RowWalker, WalkedRows
from binlake.errors import BinlogError, FormatError, MissingContextError, UnsupportedError
from binlake.events.common.format_description import is_pre_release
from binlake.stream.runs import Piece, PlainRun, Run, Transaction
from binlake.stream.spread import ReadsRuns
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.batches import (
    OPERATIONS,
    Changes,
    RowFacts,
    RowOrigin,
    TableChanges,
    TransactionFacts,
)
from binlake.table.images import Image
from binlake.table.metadata import PLACES_OF_NAMES, check_names
from binlake.table.plan import ColumnsOf, TableTypes
from binlake.table.pre_release import with_described_rows
from binlake.table.resolve import MetTables, ResolvesTables, TableResolver
from binlake.table.row_cutoff import RowCutoff, cut, transaction_of
from binlake.table.row_origins import RowOriginFinder, row_origin_of
from binlake.table.schema.declared import DeclaredSchema
from binlake.table.schema.history import SchemaHistory, position_of
from binlake.table.schema.renames import noting_renames
from binlake.table.schema.schema_file import declared_schema
from binlake.table.types.base import Target, fixed_width, var_width
from binlake.table.where.choosing import ChoosesRows, RunChooser, WhereRows, probe_options
from binlake.table.where.matching_rows import MatchingRows
from binlake.values.frame import EventFormat
from binlake.values.ledger import Ledger, SkippedRange
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition

if TYPE_CHECKING:
    from binlake.source.window import Window

_UTC = pa.timestamp("us", "UTC")


class ChangeDecoder:
    """Decodes the row changes of runs for one target.

    `schema` completes the facts about tables that the log lacks; without it, the option schema is
    read. `read` follows the DDL of the log, too. `decode` alone does not, and a task that sees a
    part of a log must not: its answers would depend on where the part begins. `rows` chooses row
    changes; by default the option where does. `columns` are those to decode, instead of the option
    columns. `tables` resolves the tables of the log, instead of all these. Counts rows,
    decoded bytes, zero dates and warnings in `ledger`.
    """

    def __init__(
        self,
        options: ReadOptions,
        target: Target,
        ledger: Ledger,
        schema: DeclaredSchema | None = None,
        *,
        history: SchemaHistory | None = None,
        rows: ChoosesRows | None = None,
        columns: ColumnsOf | None = None,
        tables: ResolvesTables | None = None,
    ) -> None:
        self.options = options
        self.target = target
        self._ledger = ledger
        self._rows = rows
        if rows is None and options.where is not None:
            self._rows = WhereRows(options)
        self._history = history or SchemaHistory(schema or declared_schema(options))
        self._tables = tables or TableResolver(options, target, ledger.warn, self._history, columns)
        self._generation = 0
        self._operations = [OPERATIONS.index(op) for op in options.op or OPERATIONS]
        self._row_origins = RowOriginFinder(options)
        self._chooser = None if self._rows is None else self._new_chooser(self._rows)
        self._matching = MatchingRows()
        self._start_walker()

    def read(self, reader: ReadsRuns) -> Iterator[Changes]:
        """Yield the row changes of a chain: as `decode`, with names from its DDL that TABLE_MAP
        lacks.
        """
        return self.decode(self.runs(reader))

    def runs(self, reader: ReadsRuns) -> Iterator[Run]:
        """Yield the runs of a chain, from its start, for `decode`, and follow their DDL."""
        self.begin(reader.ddl_before)
        return reader.runs(noting_renames(self._ledger.renamed, self.on_ddl))

    def begin(self, ddl_before: Callable[[], Iterable[DdlStatement]]) -> None:
        """Start a chain; `ddl_before` returns the statements that it contains before that place."""
        self._history.begin(ddl_before)

    def on_ddl(self, ddl: DdlStatement) -> None:
        """Take a DDL statement, after the runs that were decoded last."""
        self._history.note(ddl)

    def decode(self, runs: Iterable[Run]) -> Iterator[Changes]:
        """The row changes of the runs, in commit order, each time the buffers are full.

        Raises BinlogError with file and event, after the changes of all transactions before it
        (and, for a transaction larger than `batch_bytes`, after the part that was already
        yielded). With the option on_error=skip a transaction whose rows cannot be decoded is left
        out as a whole, and the ledger keeps its byte range.
        """
        source = iter(runs)
        while True:
            try:
                run = next(source, None)
            except BinlogError:
                yield from self._flush()  # the transactions before the damage are whole
                raise
            if run is None:
                break
            sound = self._sound(run) if self.options.on_error == "skip" else (run,)
            for part in sound:
                first_row = self._walker.rows
                try:
                    yield from self._decode(part)
                except BinlogError as error:
                    yield from self._flush(RowCutoff(first_row, _start_of_bad(part, error)))
                    raise
        yield from self._flush()

    def forget_tables(self) -> None:
        """Resolve every table again when a row of it comes next."""
        self._walker.forget_tables()

    def held(self) -> Iterator[Changes]:
        """Yield the decoded changes that are still held, while there are no more runs: for readers
        that follow a growing log. Raises as `decode`.
        """
        yield from self._flush()

    # -- runs ----------------------------------------------------------------------------------

    def _new_chooser(self, rows: ChoosesRows) -> RunChooser:
        options, counts = probe_options(self.options), Ledger()

        def probe_of(met: Callable[[TableTypes], object]) -> ChangeDecoder:
            tables = TableResolver(options, Target.TEXT, counts.warn, self._history, rows.columns)
            watched = MetTables(tables, met)
            return ChangeDecoder(
                options, Target.TEXT, counts, history=self._history, tables=watched
            )

        return RunChooser(rows, probe_of, self._ledger, self.options, self._history)

    def _decode(self, run: Run) -> Iterator[Changes]:
        if self._chooser is None:
            yield from self._decode_all(run)
            return
        try:
            chosen = self._chooser.choose(run)
        except BinlogError:
            if not isinstance(run, PlainRun) or run.groups == 1:
                raise
            for one in run.each():  # the transactions before the bad one are whole
                yield from self._decode(one)
            return
        if chosen is None:
            return
        if not self.options.whole_transaction:
            self._matching.add(chosen.matches)
        if isinstance(run, PlainRun):
            rows = None if self.options.whole_transaction else chosen.rows
            yield from self._decode_plain(run, chosen.pieces, rows)
        else:
            yield from self._decode_transaction(run)

    def _decode_all(self, run: Run) -> Iterator[Changes]:
        if isinstance(run, PlainRun):
            yield from self._decode_plain(run, [Piece(run.window, run.first, run.last)])
        else:
            yield from self._decode_transaction(run)

    def _follow_history(self, run: Run) -> None:
        generation = self._history.at(position_of(run))
        if generation != self._generation:
            self._generation = generation
            self._walker.forget_tables()

    def _decode_plain(
        self, run: PlainRun, pieces: Iterable[Piece], selected: RowSelection | None = None
    ) -> Iterator[Changes]:
        """Decode pieces of a run, or the selected rows in them; there may be thousands, so the work for each one
        counts.
        """
        self._follow_history(run)
        self._row_origins.begin(run.window.file, self._walker.rows)
        rows = partial(self._walker.run_groups, groups=run.plain, rows=selected)
        yield from self._walk(run.window, pieces, rows)

    def _decode_transaction(self, run: Transaction) -> Iterator[Changes]:
        self._follow_history(run)
        gtid = None if run.gtid is None else run.gtid.encode("ascii")
        origin = run.start.offset
        last: Piece | None = None
        # only once: the table maps of a relay log remain valid in the next one
        self._walker.begin_transaction(gtid, run.commit_us, run.thread_id, run.start.offset)
        pieces = run.pieces()
        if run.file.format is not None and is_pre_release(run.file.format):
            pieces = with_described_rows(pieces, self._history.declared)
        for piece in pieces:
            file = piece.window.file
            if last is None or last.window.file is not file:
                decided = None
                if run.decided[::2] != run.start[::2]:
                    if last is not None:  # positions start again, after those so far
                        origin -= _end(last)
                    decided = (run.decided.ordinal, run.decided.offset, origin)
                self._row_origins.begin(file, self._walker.rows, decided)
            if piece.outer is None:
                self._walker.leave_payload()
            elif last is None or piece.outer != last.outer:
                self._walker.enter_payload(piece.outer.offset, piece.outer.end)
            rows = partial(self._walker.run_rows, block=piece.window.block)
            yield from self._walk(piece.window, (piece,), rows)
            last = piece
        self._walker.leave_payload()

    def _walk(
        self, window: Window, pieces: Iterable[Piece], run: Callable[..., int]
    ) -> Iterator[Changes]:
        """Decode pieces of a window."""
        walker, data, base = self._walker, window.data, window.base
        walker.set_format(window.format)
        for piece in pieces:
            for first, last in self._row_origins.parts(piece, walker):
                at = first
                while at < last:
                    try:
                        at = run(data, base, first=at, last=last)
                    except BinlogError as error:
                        raise piece.locate(error) from None
                    if walker.is_full:
                        yield from self._flush()

    # -- damage --------------------------------------------------------------------------------

    def _sound(self, run: Run) -> Iterator[Run]:
        """Yield the run, or the transactions of it that can be decoded; note the others as skipped."""
        error = self._trial(run)
        if error is None:
            yield run
        elif isinstance(run, PlainRun) and run.groups > 1:
            for one in run.each():
                yield from self._sound(one)
        else:
            self._ledger.skipped.append(_skipped(run, error))

    def _trial(self, run: Run) -> BinlogError | None:
        """Decode a run and drop the result; return its error, or None."""
        options = replace(self.options, on_error="stop")
        trial = ChangeDecoder(
            options, self.target, Ledger(), history=self._history, rows=self._rows
        )
        try:
            for _ in trial.decode([run]):
                pass
        except (FormatError, MissingContextError, UnsupportedError) as error:
            return error
        return None

    # -- tables --------------------------------------------------------------------------------

    def _start_walker(self) -> None:
        # only the walker keeps sinks, so that no log can fill the memory with them
        self._sinks: WeakValueDictionary[TableDefinition, TableSink] = WeakValueDictionary()
        self._walker = RowWalker(self._resolve, self.options.batch_bytes)
        self._decoded_bytes = 0

    def _resolve(self, body: bytes, fmt: EventFormat) -> TableSink | None:
        """Return the sink of a table that the walker meets for the first time; None: it is not
        wanted.
        """
        types = self._tables.types(body, fmt)
        if types is None:
            return None
        known = self._sinks.get(types.definition)  # DDL about another table
        if known is not None:
            return known
        if self.target is Target.TEXT:
            sink: TableSink = BothImages(
                types.plan.columns, operations=self._operations, texts=types.text_bytes
            )
        else:
            # a name that collides is an error before any row
            check_names(types.definition.full_name, types.names, self.options)
            listed = None
            if self.target is Target.EXPORTED:
                listed = [PLACES_OF_NAMES.value_type.index_type.byte_width] * len(
                    types.plan.columns
                )
            before = None if self.options.before else ()
            sink = CurrentRow(types.plan.columns, before, self._operations, listed)
        sink.purpose = types
        self._sinks[types.definition] = sink
        return sink

    # -- flushing ------------------------------------------------------------------------------

    def _flush(self, at: RowCutoff | None = None) -> Iterator[Changes]:
        """Yield the held changes; after a failed walk, those before a cut.

        Raises BinlogError for an invalid value, after the changes before it.
        """
        is_full = self._walker.is_full
        walked = self._walker.finish()
        row_origins = self._row_origins.take(self._walker.rows)
        self._ledger.decoded_bytes += self._walker.decoded_bytes - self._decoded_bytes
        self._decoded_bytes = self._walker.decoded_bytes
        if at is not None:
            walked = cut(walked, at)
        failure: BinlogError | None = None
        tables: list[TableChanges] = []
        while walked.tables:
            try:
                tables = self._finished(walked, row_origins)
                break
            except _TableError as failed:
                failure = failed.error
                walked = cut(walked, transaction_of(walked, failed.table, failure.row or 0))
        if walked.tables:
            if self._chooser is not None and not self.options.whole_transaction:
                tables = self._matching.of(tables, self._walker.rows)
            self._count(walked, tables)
        if walked.tables and tables:
            yield Changes(tables, _transaction_facts(walked), row_origins, is_full and at is None)
        if failure is not None:
            raise failure

    def _finished(self, walked: WalkedRows, row_origins: list[RowOrigin]) -> list[TableChanges]:
        """Return the walked rows as arrays. Raises _TableError."""
        found = []
        for sink, buffers in walked.tables:
            types: TableTypes = sink.purpose
            facts = _row_facts(buffers, row_origins)
            before = None
            try:
                after = Image.of(types, buffers.after)
                if self.target is Target.TEXT or self.options.before:
                    before = Image.of(types, buffers.before)
            except BinlogError as error:
                raise _TableError(_located(error, facts, row_origins), buffers) from None
            found.append(TableChanges(types, buffers.count, facts, before, after))
        return found

    def _count(self, walked: WalkedRows, tables: Sequence[TableChanges]) -> None:
        for changes in tables:
            definition = changes.types.definition
            operations = bytes(changes.facts.op.buffers()[1])[: changes.count]
            for number, op in enumerate(OPERATIONS):
                if count := operations.count(number):
                    self._ledger.add_rows(definition.database, definition.table, op, count)
        for sink, buffers in walked.tables:
            types: TableTypes = sink.purpose
            definition = types.definition
            table = (definition.database, definition.table)
            self._ledger.names.setdefault(table, set()).add(definition.name_source)
            if buffers.unknown_documents:
                self._ledger.json_differences[definition.full_name] += buffers.unknown_documents
            for kind in types.columns:
                for image in (buffers.before, buffers.after):
                    column = image.columns[kind.column.ordinal]
                    if column is not None and column.zero_dates:
                        self._ledger.zero_dates[kind.name] += column.zero_dates


class _TableError(Exception):
    """A value of a table's rows cannot be finished; `error.row` is the row in the buffers."""

    def __init__(self, error: BinlogError, table: TableBuffers) -> None:
        super().__init__()
        self.error = error
        self.table = table


def _transaction_facts(walked: WalkedRows) -> TransactionFacts:
    return TransactionFacts(
        ts=fixed_width(_UTC, walked.transactions.commit_us),
        gtid=var_width(pa.string(), walked.transactions.gtid),
        thread_id=fixed_width(pa.int64(), walked.transactions.thread_id),
        start=fixed_width(pa.int64(), walked.transactions.start),
    )


def _row_facts(buffers: TableBuffers, row_origins: list[RowOrigin]) -> RowFacts:
    def column(kind: pa.DataType, data: memoryview) -> pa.Array:
        return pa.Array.from_buffers(kind, buffers.count, [None, pa.py_buffer(data)])

    sequence = column(pa.int64(), buffers.seq)
    return RowFacts(
        op=column(pa.uint8(), buffers.op),
        pos=column(pa.int64(), buffers.pos),
        end_pos=column(pa.int64(), buffers.end_pos),
        row=column(pa.int32(), buffers.row),
        server_id=column(pa.uint32(), buffers.server_id).cast(pa.int64()),
        transaction=column(pa.int32(), buffers.txn),
        row_origin=row_origin_of(sequence, row_origins),
        sequence=sequence,
        start=column(pa.uint32(), buffers.start),
    )


def _located(error: BinlogError, facts: RowFacts, row_origins: list[RowOrigin]) -> BinlogError:
    """Return the error with file and event of the row that it names (of the first row, if none)."""
    row = error.row or 0
    return error.at(
        file=row_origins[facts.row_origin[row].as_py()].file, event_pos=facts.pos[row].as_py()
    )


def _start_of_bad(run: Run, error: BinlogError) -> int:
    """Return the first byte, in its file, of the transaction of a plain run that an error names; 0
    if it names none, or if the run is one transaction.
    """
    if isinstance(run, PlainRun) and error.event_pos is not None:
        for one in run.each():
            if error.event_pos < one.end:
                return one.start
    return 0


def _end(piece: Piece) -> int:
    """Return the byte after a piece, in its file."""
    return piece.outer.end if piece.outer else int(piece.window.block.end(piece.last - 1))


def _skipped(run: Run, error: BinlogError) -> SkippedRange:
    if isinstance(run, Transaction):
        return SkippedRange(run.start.file, run.start.offset, run.end.offset, str(error))
    return SkippedRange(run.window.file.shown, run.start, run.end, str(error))
