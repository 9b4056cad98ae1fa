"""The views `events`, `transactions` and `statements`: schemas, and record batches of them.

A view is a table of columns, each with its Arrow type and the function that returns its value, so
the schema and the values cannot differ. A column that is not requested costs nothing: an event is
decoded only if a requested column needs it.

    VIEWS["events"].schema(columns)
    VIEWS["events"].batches(reader.events(), columns)
    VIEWS["transactions"].batches(reader.transactions(), columns)   # see TransactionRow
    VIEWS["statements"].batches(statements(reader.groups()), columns)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from binlake.errors import OptionError
from binlake.events.base import Event
from binlake.events.common.query import QueryEvent
from binlake.events.mariadb.annotate_rows import AnnotateRowsEvent
from binlake.events.mariadb.gtid import MariadbGtidEvent
from binlake.events.mysql.gtid import GtidEvent
from binlake.events.mysql.rows_query import RowsQueryEvent
from binlake.format import event_types as types
from binlake.source.arrays import array
from binlake.stream.groups.grouper import Ended
from binlake.stream.log_events import LogEvent, coded_events
from binlake.stream.runs import Transaction
from binlake.stream.sql.statements import ROWS_TEXT, statement_kind
from binlake.values.options import ReadOptions
from binlake.values.times import IN_MICROSECONDS, time_text

#: Rows of a batch: Spark likes tens of thousands.
BATCH_ROWS = 16_384

_TS = pa.timestamp("us", "UTC")
_NAMES = pa.list_(pa.string())


class Column(NamedTuple):
    """A column of a view: its name, its type, its value of a row, and metadata of its field."""

    name: str
    type: pa.DataType
    value: Callable[[Any], Any]
    metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class View:
    """One view: its name and its columns."""

    name: str
    columns: tuple[Column, ...]

    def schema(self, columns: Sequence[str] = ()) -> pa.Schema:
        """The Arrow schema of the named columns, in the given order (default: all).

        Raises OptionError for a column that the view does not have.
        """
        return pa.schema(
            [pa.field(c.name, c.type, metadata=c.metadata) for c in self._chosen(columns)]
        )

    def batches(self, rows: Iterable[Any], columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield record batches of at most BATCH_ROWS rows. Raises OptionError, and the errors of
        `rows`.
        """
        chosen = self._chosen(columns)
        schema = self.schema(columns)
        values: list[list[Any]] = [[] for _ in chosen]
        count = 0
        for row in rows:
            for column, into in zip(chosen, values, strict=True):
                into.append(column.value(row))
            count += 1
            if count == BATCH_ROWS:
                yield _batch(schema, values, count)
                values, count = [[] for _ in chosen], 0
        if count:
            yield _batch(schema, values, count)

    def _chosen(self, columns: Sequence[str]) -> tuple[Column, ...]:
        if not columns:
            return self.columns
        known = {column.name: column for column in self.columns}
        for name in columns:
            if name not in known:
                raise OptionError(
                    f"the view {self.name} has no column {name!r}",
                    name="columns",
                    value=name,
                    hint=f"it has {', '.join(known)}",
                )
        return tuple(known[name] for name in columns)


def _batch(schema: pa.Schema, values: list[list[Any]], count: int) -> pa.RecordBatch:
    arrays = [array(v, f.type) for v, f in zip(values, schema, strict=True)]
    if not arrays:
        return pa.RecordBatch.from_struct_array(array([{}] * count, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# -- events ---------------------------------------------------------------------------------------


EVENTS = View(
    "events",
    (
        Column("file", pa.string(), lambda e: e.file),
        Column("pos", pa.int64(), lambda e: e.pos),
        Column("end_pos", pa.int64(), lambda e: e.end_pos),
        Column("log_pos", pa.int64(), lambda e: e.frame.log_pos),
        Column("type", pa.string(), lambda e: e.type),
        Column("code", pa.int32(), lambda e: e.frame.type_code),
        Column("ts", _TS, lambda e: e.frame.timestamp * 1_000_000 or None),
        Column("server_id", pa.int64(), lambda e: e.frame.server_id),
        Column("flags", _NAMES, lambda e: e.flags),
        Column("size", pa.int64(), lambda e: e.frame.length),
        Column("checksum", pa.string(), lambda e: e.checksum),
        Column("inner", pa.int32(), lambda e: e.inner),
        Column(
            "event",
            pa.string(),
            lambda row: json.dumps(
                row.event.to_fields(), ensure_ascii=False, separators=(",", ":")
            ),
        ),
    ),
)


# -- transactions ---------------------------------------------------------------------------------


class RowCounts(NamedTuple):
    """The number of rows that a transaction changed, and their tables (`database.table`)."""

    tables: tuple[str, ...]
    inserts: int | None
    updates: int | None
    deletes: int | None

    @property
    def any(self) -> bool:
        """Whether a row was changed; true where that is not known."""
        return self.inserts is None or bool(self.inserts or self.updates or self.deletes)


class TransactionRow(NamedTuple):
    """A row of the view transactions."""

    transaction: Transaction
    counts: RowCounts


def transaction_rows(
    transactions: Iterable[Transaction],
    count: Callable[[Transaction], RowCounts],
    options: ReadOptions,
) -> Iterator[TransactionRow]:
    """Yield the rows of the view; `count` counts a transaction's rows (they are not decoded here).

    If only some tables or operations are wanted, these are the transactions that change such rows,
    and those for which this is unknown.
    """
    for transaction in transactions:
        counts = count(transaction)
        if not options.chooses_rows or counts.any:
            yield TransactionRow(transaction, counts)


def _gtid_field(name: str) -> Callable[[TransactionRow], Any]:
    """Return a field of the GTID event; null for flavours and versions that do not log it."""
    return lambda row: getattr(row.transaction.gtid_event, name, None)


def _gtid_flags(row: TransactionRow) -> list[str] | None:
    event = row.transaction.gtid_event
    if not isinstance(event, GtidEvent | MariadbGtidEvent):
        return None
    fields = event.to_fields()
    return [*fields["flags"], *(fields.get("flags_extra") or ())]


def _duration_us(row: TransactionRow) -> int:
    return row.transaction.duration_us


# by the option time
_DURATIONS = {
    "interval": Column("duration", pa.duration("us"), _duration_us, IN_MICROSECONDS),
    "text": Column("duration", pa.string(), lambda r: time_text(_duration_us(r))),
    "micros": Column("duration", pa.int64(), _duration_us, IN_MICROSECONDS),
}

TRANSACTIONS = View(
    "transactions",
    (
        Column("gtid", pa.string(), lambda r: r.transaction.gtid),
        Column("outcome", pa.string(), lambda r: r.transaction.outcome.value),
        Column("commit_ts", _TS, lambda r: r.transaction.commit_us),
        Column("original_commit_ts", _TS, _gtid_field("original_commit_us")),
        _DURATIONS["interval"],
        Column("file", pa.string(), lambda r: r.transaction.start.file),
        Column("pos", pa.int64(), lambda r: r.transaction.start.offset),
        Column("end_pos", pa.int64(), lambda r: r.transaction.end.offset),
        Column("bytes", pa.int64(), lambda r: r.transaction.bytes),
        Column("server_id", pa.int64(), lambda r: r.transaction.server_id),
        Column("thread_id", pa.int64(), lambda r: r.transaction.thread_id),
        Column("last_committed", pa.int64(), _gtid_field("last_committed")),
        Column("sequence_number", pa.int64(), _gtid_field("sequence_number")),
        Column("commit_id", pa.uint64(), _gtid_field("commit_id")),
        Column("flags", _NAMES, _gtid_flags),
        Column("xid", pa.uint64(), lambda r: r.transaction.xid),
        Column("xa_xid", pa.string(), lambda r: r.transaction.xa_xid),
        Column("tables", _NAMES, lambda r: r.counts.tables),
        Column("inserts", pa.int64(), lambda r: r.counts.inserts),
        Column("updates", pa.int64(), lambda r: r.counts.updates),
        Column("deletes", pa.int64(), lambda r: r.counts.deletes),
        Column("statements", pa.int32(), lambda r: len(r.transaction.statements)),
    ),
)


# -- statements -----------------------------------------------------------------------------------


class StatementRow(NamedTuple):
    """A row of the view statements: the event with the text, and its transaction."""

    event: LogEvent
    decoded: Event
    ended: Ended


#: Matches the codes of events that hold the text of a statement.
STATEMENT_CODES = types.any_code(
    (
        types.QUERY_EVENT,
        types.QUERY_COMPRESSED_EVENT,
        types.EXECUTE_LOAD_QUERY_EVENT,
        types.ROWS_QUERY_LOG_EVENT,
        types.ANNOTATE_ROWS_EVENT,
    )
)


def check_statement_options(options: ReadOptions) -> None:
    """Raise OptionError for options that the view statements cannot apply: it parses no SQL."""
    for name in ("table", "exclude_table", "op"):
        if getattr(options, name):
            raise OptionError(
                f"option {name}: binlake does not know which tables a statement changes",
                name=name,
                hint="use it with the views changes, transactions or events",
            )


def statements(groups: Iterable[Ended]) -> Iterator[StatementRow]:
    """Yield every statement that groups hold as text, in the order of the log.

    These are statements that ran as text (QUERY, LOAD DATA) and those behind row events
    (ROWS_QUERY, ANNOTATE_ROWS), including BEGIN and COMMIT. Raises FormatError.
    """
    for ended in groups:
        for piece in ended.group.frames.events():
            for event in coded_events(piece, STATEMENT_CODES):
                yield StatementRow(event, event.event, ended)


def _query_field(name: str) -> Callable[[StatementRow], Any]:
    return lambda row: getattr(row.decoded, name, None)


def _sql(row: StatementRow) -> str | None:
    event = row.decoded
    if isinstance(event, QueryEvent):
        return event.sql
    if isinstance(event, RowsQueryEvent | AnnotateRowsEvent):
        return event.query
    return None


def _kind(row: StatementRow) -> str:
    event = row.decoded
    return statement_kind(event.sql_raw) if isinstance(event, QueryEvent) else ROWS_TEXT


def _statement_us(row: StatementRow) -> int:
    event = row.decoded
    fraction = event.microseconds if isinstance(event, QueryEvent) else None
    return row.event.frame.timestamp * 1_000_000 + (fraction or 0)


def _statement_thread(row: StatementRow) -> int | None:
    own = getattr(row.decoded, "thread_id", None)
    return own if own is not None else row.ended.group.thread_id


STATEMENTS = View(
    "statements",
    (
        Column("ts", _TS, _statement_us),
        Column("thread_id", pa.int64(), _statement_thread),
        Column("user", pa.string(), _query_field("user")),
        Column("database", pa.string(), _query_field("database")),
        Column("sql", pa.string(), _sql),
        Column("kind", pa.string(), _kind),
        Column("error_code", pa.int32(), _query_field("error_code")),
        Column("exec_time", pa.int64(), _query_field("exec_time")),
        Column("gtid", pa.string(), lambda r: r.ended.group.gtid),
        Column("outcome", pa.string(), lambda r: r.ended.outcome.value),
        Column("type", pa.string(), lambda r: r.event.type),
        Column("server_id", pa.int64(), lambda r: r.event.frame.server_id),
        Column("file", pa.string(), lambda r: r.event.file),
        Column("pos", pa.int64(), lambda r: r.event.pos),
        Column("end_pos", pa.int64(), lambda r: r.event.end_pos),
        Column("inner", pa.int32(), lambda r: r.event.inner),
    ),
)

#: The views by name. Times are UTC; `exec_time` is in seconds; null: the log does not record it.
VIEWS = {view.name: view for view in (EVENTS, TRANSACTIONS, STATEMENTS)}


def view_of(name: str, options: ReadOptions) -> View:
    """Return the view of a name, with durations in the form that the option time names."""
    view = VIEWS[name]
    duration = _DURATIONS[options.time]
    return View(name, tuple(duration if c.name == "duration" else c for c in view.columns))
