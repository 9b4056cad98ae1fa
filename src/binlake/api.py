"""The Python API: open a log once and read it as often as you want.

    import binlake

    log = binlake.open("/var/lib/mysql/")                  # file, glob, directory, .index, URI
    for event in log.events():                             # LogEvent: file, pos, type, .event
        ...
    for transaction in log.transactions():                 # committed, in commit order
        ...
    for batch in log.changes("shop.orders"):               # pyarrow.RecordBatch, typed columns
        ...
    orders = log.to_arrow("shop.orders")                   # one pyarrow.Table
    log.ledger                                             # counts of the last read, and what it left out

Options are keywords of `open`, with the same names as everywhere: see
`values.options.READ_OPTIONS`.

A method imports what it needs: opening a log needs no pyarrow, whose import takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from binlake.errors import OptionError, needing
from binlake.source.chain import Chain, LogPath
from binlake.source.reader import without_secrets
from binlake.source.replica.url import is_server_url, without_password
from binlake.source.resolve import Paths, path_texts
from binlake.table.log_input import LogInput
from binlake.values.ledger import Ledger
from binlake.values.option_texts import parse_table_pattern
from binlake.values.options import ReadOptions
from binlake.values.quantities import counted, first_to_last

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from binlake.query.scans import Scan
    from binlake.stream.log_events import LogEvent
    from binlake.stream.log_reader import LogReader
    from binlake.stream.runs import Transaction
    from binlake.table.batches import Changes, TableBatch
    from binlake.table.definitions import TableDefinitions
    from binlake.table.row_history.entries import RowHistory
    from binlake.table.types.base import Target

__all__ = ["Log", "open"]

T = TypeVar("T")


def open(paths: Paths, **options: Any) -> Log:
    """Open logs: a file, several, a glob, a directory, an index file, a URI, or `-` for standard input.

    Options are keywords, as text or as values (`since="2026-11-21 14:00"`, `table=["shop.*"]`).
    This only resolves the names of files. Raises SourceError if there are no logs, and OptionError if
    an option is wrong.
    """
    return Log(path_texts(paths), ReadOptions.parse(options))


class Log:
    """Opened logs: one chain of files, or several that are read one after the other.

    Every method that reads starts from the beginning and fills a new `ledger`, which is complete
    when the read is. All of them raise BinlogError.
    """

    def __init__(self, paths: Sequence[str], options: ReadOptions) -> None:
        self._logs = LogInput(paths, options)
        _ = self._logs.found  # a path without logs is reported when it is opened
        self.options = options
        self.ledger = Ledger()

    def __repr__(self) -> str:
        """The opened logs as text: `<Log /var/lib/mysql: binlog.000001 to binlog.000012, 12 files>`."""
        inputs = ", ".join(
            without_password(path) if is_server_url(path) else without_secrets(path)
            for path in self._logs.paths
        )
        files = [file.shown for file in self.files]
        span = first_to_last(files)
        given = self.options.filters_given
        chosen = f"; filters: {', '.join(given)}" if given else ""
        return f"<Log {inputs}: {span}, {counted(len(files), 'file')}{chosen}>"

    @property
    def chains(self) -> tuple[Chain, ...]:
        """The chains of files that the paths mean."""
        return self._logs.found

    @property
    def files(self) -> tuple[LogPath, ...]:
        """All files, in the order in which they are read."""
        return tuple(file for chain in self.chains for file in chain.files)

    def events(self) -> Iterator[LogEvent]:
        """Yield every event with its position; `.event` is the typed event, decoded on demand.

        Events inside a compressed transaction follow it. With options that choose transactions,
        this yields only their events. With table, exclude_table or op, it yields the control
        events of transactions that change such rows, and the TABLE_MAP and rows events of those
        tables. Raises OptionError for the option where.
        """
        self.options.refuse_row_filters("an event")
        for reader in self._readers():
            yield from reader.events()

    def transactions(self) -> Iterator[Transaction]:
        """Yield every committed transaction, in commit order (with `uncommitted=True`: every one).

        A transaction's `pieces()` can be read until you request the next transaction. With table,
        exclude_table or op, this yields only transactions that change such rows. Raises
        OptionError for the option where.
        """
        self.options.refuse_row_filters("a transaction")
        for reader in self._readers():
            if not self.options.chooses_rows:
                yield from reader.transactions()
                continue
            from binlake.table.counting.row_counts import RowCounter

            counter = RowCounter(self.options, self.ledger)
            yield from (t for t in reader.transactions(counter.on_ddl) if counter(t).any)

    def changes(self, table: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield row changes, in commit order.

        For one table (`database.table`): typed columns and metadata columns. A batch has the
        schema of the definition under which its rows were written, and the order holds within a
        definition. If filters exclude every change of it, this yields one empty batch with its newest
        definition, and `ledger.warnings` reports that. A table without any change in the logs raises
        SourceError, and so does such a read of standard input or a pipe, which cannot be read again to find the columns.
        Without a table: the generic view of all tables, images as JSON text.
        """
        if table is None:
            from binlake.table.row_json import change_batch
            from binlake.table.types.base import Target

            options = self.options
            yield from self._changes(options, Target.TEXT, lambda c: change_batch(c, options))
            return
        nothing = True
        for found in self._typed(table):
            nothing = False
            yield found.batch
        if nothing:
            for excluded in self._excluded(table):
                yield excluded.empty_batches()[-1]

    def history(self, table: str, /, *key: object, **columns: object) -> RowHistory:
        """Return the history of a row of a table (`database.table`): every change, including those
        under other keys that it had, and the statements on its table.

        `key` are the values of the primary key, in its order; `columns` name the columns instead:
        `log.history("shop.orders", 4711)`, `log.history("shop.lines", order_id=4711, line=1)`.
        Values are compared as the server compares them. Raises OptionError for a key that the table
        does not have, and for logs of several sources; MissingContextError if the log does not
        contain the primary key.
        """
        from binlake.table.row_history.history import HistoryReader, history_options
        from binlake.table.row_history.keys import RowKey

        if bool(key) == bool(columns):
            raise OptionError(
                "expected the values of the primary key, or columns with their values", name="key"
            )
        logs = self._logs.with_options(history_options(self.options, table))
        asked = RowKey(key) if key else RowKey.of_columns(columns)
        ledger = self._new_ledger()
        chain = logs.only("a history covers a row of one server")
        return HistoryReader(chain, logs.options, logs.schema(), ledger, asked).read()

    def state(
        self,
        table: str,
        as_of: str | datetime,
        source: str,
        *,
        from_position: str | None = None,
        from_gtid: str | None = None,
        where: str | None = None,
        force: bool = False,
    ) -> pa.Table:
        """Return the rows of a table (`database.table`) as they were at a moment: a time, a GTID or
        `FILE:POS`.

        `source` has the rows to begin with: the path of a dump or Parquet file from before the moment, or the URL
        of the live server, whose changes since the moment are undone in memory. `from_position` or `from_gtid`
        is the position of a dump that does not contain it. `where` chooses rows. A value is text if
        `binlake rows` prints it as text. With `force`, a warning counts the rows that do not fit the log.
        Raises SourceError if the logs do not reach from one to the other, IncompleteError for a row that
        does not fit, UnsupportedError for a statement that binlake cannot follow.
        """
        import pyarrow as pa

        from binlake.state.filtering import check_where, row_filter
        from binlake.state.log_range import StateMoment
        from binlake.state.origin import given_origin
        from binlake.state.reading import StateRequest, read_state
        from binlake.state.table_state import state_options, table_names

        names, given = table_names(table), given_origin(from_position, from_gtid)
        # the logs as they are now, not when they were opened
        logs = LogInput(self._logs.paths, state_options(self.options))
        moment = StateMoment.of(as_of)
        check_where(where)
        ledger = self.ledger = Ledger()
        request = StateRequest(names, moment, source, given, force)
        with read_state(request, logs, ledger) as (found, _):
            keep = row_filter(where, found.shape, logs.options, ledger)
            rows = pa.Table.from_batches(map(keep, found.batches()), found.shape.schema)
        if found.conflicts:
            ledger.warn(f"{table}: {counted(found.conflicts, 'row')} did not fit the log")
        return rows

    def tables(self) -> dict[str, Mapping[str, int]]:
        """Return the tables with changes, by `database.table`, and the number of rows by
        operation.
        """
        from binlake.table.types.base import Target

        for _ in self._changes(self.options, Target.TEXT, lambda _changes: None):
            pass
        return {f"{name[0]}.{name[1]}": dict(counts) for name, counts in self.ledger.rows.items()}

    def to_arrow(self, table: str | None = None) -> pa.Table:
        """Return all row changes of one table as one Arrow table; without a table, the generic
        view.

        If the table's definition changed, columns are merged by name: types are promoted, or the
        newest definition determines the type. Then older rows with a value that does not fit are
        in `<table>@<n>`, which you can request; `ledger.warnings` reports it. If filters exclude
        every change of the table, the result has no rows, and `ledger.warnings` reports that.
        Raises SourceError for a table without any change in the logs, or if filters exclude every change and the
        log is standard input or a pipe; OptionError for a pattern that matches several.
        """
        import pyarrow as pa

        if table is None:
            from binlake.stream.overview import nothing_found
            from binlake.table.row_json import change_schema

            generic = pa.Table.from_batches(self.changes(), change_schema(self.options))
            if self.options.filters and not self.ledger.matched(self.options):
                self.ledger.warn(nothing_found(self.chains, self.options))
            return generic
        from binlake.table.one_table import split_version, unfitting, united

        name, number = split_version(table)
        batches, found = self._of_one_table(name)
        if number is not None:
            return unfitting(batches, found, number)
        rows, notes = united(batches, found, self.options.columns)
        for note in notes:
            self.ledger.warn(note)
        return rows

    def to_pandas(self, table: str | None = None) -> pd.DataFrame:
        """`to_arrow` as a pandas DataFrame with Arrow-backed columns. pandas must be installed."""
        import pandas as pd

        return self.to_arrow(table).to_pandas(types_mapper=pd.ArrowDtype)

    def to_polars(self, table: str | None = None) -> pl.DataFrame:
        """`to_arrow` as a Polars DataFrame. Raises BinlogError if Polars is not installed."""
        with needing("to_polars needs the library polars", "polars"):
            import polars as pl
        frame = pl.from_arrow(self.to_arrow(table))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def duckdb(self, *, external_access: bool = False) -> DuckDBPyConnection:
        """Return a DuckDB connection with the tables changes, transactions, events, statements, and
        one of typed columns for each table of the logs, such as "shop.orders".

        This finds the tables; each statement reads the logs, and only the columns that it names.
        `ledger` is then that of the last read. Without `external_access`, SQL can use no file and no
        network. An error of a log is a `duckdb.Error` with its text. Raises BinlogError, for example
        if DuckDB is not installed.
        """
        from binlake.query.database import LogDatabase

        def begun(scan: Scan) -> None:
            self.ledger = scan.ledger

        options = replace(self.options, columns=(), metadata=True)
        logs = self._logs
        database = LogDatabase(
            logs.chains, options, logs.paths, external_access=external_access, begun=begun
        )
        database.add_all_tables()
        return database.connection

    def to_pylist(self, table: str | None = None) -> list[dict[str, Any]]:
        """`to_arrow` as a list of dicts, one per row."""
        rows: list[dict[str, Any]] = self.to_arrow(table).to_pylist()
        return rows

    def stats(self, top: int = 10, by: str | None = None) -> dict[str, Any]:
        """Return write volume by table, operation, time, server and thread: the output of `binlake
        stats --json` as a dict.

        `top`: the length of lists; `by`: the unit of time, from "10ms" and "100ms" to "second", "minute", "hour" and "day" (default:
        depends on the time span of the logs). Raises OptionError.
        """
        self.options.refuse_row_filters("a count of rows")
        if top < 1:
            raise OptionError(f"top {top}: expected at least 1", name="top", value=top)
        from binlake.stream.statistics import UNITS, Statistics
        from binlake.table.counting.gather import gather

        if by is not None and by not in UNITS:
            raise OptionError(f"by {by!r}: expected one of {', '.join(UNITS)}", name="by", value=by)
        ledger = self._new_ledger()
        found = gather(self._logs.chains, self.options, ledger, Statistics(top=top, unit=by))
        return found.to_json(ledger)

    def view(self, name: str, columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield batches of the view `events`, `transactions` or `statements` (stream/views.py).

        `columns`: only these, in this order; default all. Raises OptionError.
        """
        from binlake.stream.views import VIEWS, check_statement_options, view_of
        from binlake.table.counting.row_counts import view_batches

        if name not in VIEWS:
            raise OptionError(
                f"unknown view {name!r}",
                name="view",
                value=name,
                hint=f"views: {', '.join(VIEWS)}",
            )
        self.options.refuse_row_filters(f"the view {name}")
        view = view_of(name, self.options)
        if name == "statements":
            check_statement_options(self.options)
        shown = columns or view.schema().names
        for reader in self._readers():
            yield from view_batches(view, [reader], shown, self.options, self.ledger)

    def _readers(self) -> Iterator[LogReader]:
        yield from self._logs.readers(self._new_ledger())

    def _new_ledger(self) -> Ledger:
        """Return an empty ledger, except for messages about the choice of chains."""
        remarks = self._logs.remarks
        ledger = self.ledger = Ledger()
        for remark in remarks:
            ledger.warn(remark)
        return ledger

    def _changes(
        self, options: ReadOptions, target: Target, shape: Callable[[Changes], T]
    ) -> Iterator[T]:
        """Yield the row changes in the form of `shape`, on the threads that decode."""
        from binlake.table.checks.column_check import ColumnCheck

        columns = ColumnCheck(options)
        logs = self._logs.with_options(options)
        schema = logs.schema()
        ledger = self._new_ledger()

        def shaped(changes: Changes) -> tuple[Changes, T]:
            return changes, shape(changes)

        for changes, made in logs.changes(ledger, target, schema, shaped):
            columns.see(changes)
            yield made
        columns.finish(ledger)

    def _excluded(self, table: str) -> list[TableDefinitions]:
        """Return the definitions of the tables that match a pattern if the filters exclude all their changes,
        and warn. Raises SourceError if there are no changes, or if the logs cannot be read again.
        """
        from binlake.stream.overview import nothing_found
        from binlake.table.definitions import excluded_definitions

        logs = self._logs.with_options(replace(self.options, table=(table,)))
        hint = nothing_found(logs.found, logs.options)
        found = excluded_definitions(logs.chains, logs.options, logs.schema(), hint)
        self.ledger.warn(hint)
        return found

    def _of_one_table(self, table: str) -> tuple[list[pa.RecordBatch], TableDefinitions]:
        """Return the batches of a table, and its definitions. Raises OptionError for a pattern that matches
        several.
        """
        from binlake.table.checks.ambiguous_name import ambiguous_name
        from binlake.table.definitions import TableDefinitions
        from binlake.table.schema.evolution import distinct_versions

        batches: list[pa.RecordBatch] = []
        tables: dict[tuple[str, str], None] = {}
        columns: set[str] = set()
        for found in self._typed(table):
            columns |= {column.name for column in found.definition.columns}
            tables[found.definition.database, found.definition.table] = None
            if len(tables) == 1:
                batches.append(found.batch)
            else:  # the others are read only for their names
                batches.clear()
        excluded = [] if tables else self._excluded(table)
        names = dict.fromkeys([*map(".".join, tables), *(one.name for one in excluded)])
        all_changes = "to_arrow() without a table returns the changes of all, as JSON text"
        if len(names) > 1:
            raise OptionError(
                f"{table!r} matches several tables: {', '.join(names)}",
                name="table",
                value=table,
                hint=f"choose one; {all_changes}",
            )
        if excluded:
            return excluded[0].empty_batches(), excluded[0]
        if len(tables) > 1:
            raise ambiguous_name("the logs contain changes of", sorted(tables), all_changes)
        [(database, name)] = tables
        schemas = tuple(distinct_versions([batch.schema for batch in batches]))
        renames = self.ledger.renames(database, name)
        return batches, TableDefinitions(f"{database}.{name}", schemas, frozenset(columns), renames)

    def _typed(self, table: str) -> Iterator[TableBatch]:
        """Yield the batches of the tables that match a pattern."""
        try:
            parse_table_pattern(table)
        except ValueError as error:
            raise OptionError(f"table {table!r}: {error}", name="table", value=table) from None
        from binlake.table.types.base import Target

        options = replace(self.options, table=(table,))
        for batches in self._changes(options, Target.TYPED, lambda c: c.table_batches(options)):
            yield from batches
