"""Logs as a database: the tables that SQL can name, and the reads that a statement causes.

database = LogDatabase(chains, options, inputs)
for result in database.run("SELECT count(*) FROM changes"):
    result.batches()
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from threading import Lock, current_thread, main_thread
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from binlake.errors import QueryError
from binlake.query.assumed import AssumedTable, OtherDefinitionError, assumed_tables
from binlake.query.connection import Workspace, connect
from binlake.query.dataset import LogDataset
from binlake.query.definitions import ChangedTable, ChangedTables, find_tables
from binlake.query.scans import ChangesTable, Input, QueryTable, Scan, TypedTable, ViewTable
from binlake.query.sql_errors import query_error
from binlake.source.bytes import refuse_pipes
from binlake.source.chain import Chain
from binlake.stream.views import VIEWS
from binlake.table.schema.schema_file import declared_schema
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")

_BATCH_ROWS = 16_384
# How often a wait for DuckDB ends, so that Python can handle a signal.
_SIGNALS_SECONDS = 0.1
#: Kinds of statements whose rows are a result; of others DuckDB returns a count.
_WITH_RESULT = frozenset(("SELECT", "EXPLAIN", "PRAGMA", "CALL", "EXECUTE", "RELATION"))
#: Statements that show tables without naming them.
_ABOUT_TABLES = re.compile(
    r"\b(?:show|describe|desc|summarize|pragma|information_schema|(?:duckdb|pg|sqlite)_\w+)\b",
    re.IGNORECASE,
)


class QueryResult:
    """The result of one statement: `names` and `types` of its columns as DuckDB writes them, and rows.

    They are final once `batches` has returned.
    """

    def __init__(self, database: LogDatabase, statement: str) -> None:
        self._database = database
        self._statement = statement
        try:
            self._bind()
        except QueryError:
            self._settle_or_raise()
            self._bind()

    def _bind(self) -> None:
        self._relation = self._database.relation(self._statement)
        self.names = tuple(self._relation.columns)
        self.types = tuple(map(str, self._relation.types))

    def batches(
        self, expressions: Callable[[QueryResult], Sequence[str]] = lambda _result: ()
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the schema and the batches of the rows. Both may raise BinlogError.

        `expressions` returns SQL over the columns #1, #2 … instead of the columns as they are.
        """
        if self._database.is_assuming:
            started = self._assuming(expressions)
            if started is not None:
                return started
            self._database.scans.clear()
            self._bind()
        reader = self._start(expressions(self))
        return reader.schema, self._read(reader)

    def _assuming(
        self, expressions: Callable[[QueryResult], Sequence[str]]
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]] | None:
        """Return the same if the tables are what is assumed, which is certain before a row leaves; else None."""
        try:
            reader = self._start(expressions(self))
            first = self._next(reader)
        except OtherDefinitionError:
            self._database.settle(self._database.other_tables())
            return None
        except QueryError:
            self._settle_or_raise()
            return None
        others = self._database.other_tables()
        if others:
            reader.close()
            self._database.settle(others)
            return None
        return reader.schema, self._read(reader, first)

    def _settle_or_raise(self) -> None:
        """Handle an error of a statement: raise it again, unless an assumed table may be the cause."""
        others = self._database.other_tables()
        if not others:
            raise
        self._database.settle(others)

    def _start(self, expressions: Sequence[str]) -> pa.RecordBatchReader:
        with self._database.failing():
            relation = self._relation
            if expressions:
                relation = relation.project(", ".join(expressions))
            return self._database.computed(lambda: relation.to_arrow_reader(_BATCH_ROWS))

    def _next(self, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
        with self._database.failing():
            return self._database.computed(lambda: next(reader, None))

    def _read(
        self, reader: pa.RecordBatchReader, *firsts: pa.RecordBatch | None
    ) -> Iterator[pa.RecordBatch]:
        with reader:
            for batch in itertools.chain(firsts, iter(partial(self._next, reader), None)):
                if batch is None:
                    return
                yield batch


class LogDatabase:
    """Tables over logs, in a DuckDB database in memory.

    `inputs` are the paths as the user gave them. `external_access` as in `connect`. `scans` are the
    reads of the last statement, unless `begun` takes them. The constructor raises SourceError for a pipe, which can be read once
    only; SchemaError, OptionError.
    """

    def __init__(
        self,
        chains: Sequence[Chain],
        options: ReadOptions,
        inputs: Sequence[str] = (),
        *,
        external_access: bool = False,
        begun: Callable[[Scan], object] | None = None,
    ) -> None:
        refuse_pipes(
            (path for chain in chains for path in chain.paths),
            "a query may read a log several times",
        )
        self._input = Input(chains, options, declared_schema(options, inputs))
        self._workspace = Workspace()
        self.connection = connect(
            self._workspace, options.max_memory, options.threads, external_access=external_access
        )
        self.scans: list[Scan] = []
        self._begun = begun or self.scans.append
        self._errors: list[BaseException] = []
        self._changed: ChangedTables | None = None
        self._finding = Lock()
        self._registered: set[str] = set()
        self._assumed: list[AssumedTable] = []
        self._worker: ThreadPoolExecutor | None = None
        views = (ViewTable(name, self._input) for name in VIEWS)
        self._fixed = {table.name: table for table in (ChangesTable(self._input), *views)}
        for table in self._fixed.values():
            self._register(table)

    # -- statements ----------------------------------------------------------------------------

    def run(self, sql: str) -> Iterator[QueryResult]:
        """Run the statements of a text, and yield the result of each. Take it before the next.

        Raises QueryError for SQL that cannot be run, and every error of reading logs.
        """
        self.connection.execute("SET errors_as_json = true")
        with self.failing(sql):
            statements = self.connection.extract_statements(sql)
        for one in statements:
            statement = one.query.strip()
            self.scans.clear()
            kind = one.type.name
            # the last statement may have been interrupted, or have failed
            if self.is_assuming and kind not in _WITH_RESULT:
                self.settle(self.other_tables())
            self._expect_tables(statement, may_assume=kind == "SELECT")
            if kind in _WITH_RESULT:
                yield QueryResult(self, statement)
                continue
            with self.failing(statement):
                self.computed(partial(self.connection.execute, statement))

    def relation(self, statement: str) -> duckdb.DuckDBPyRelation:
        """Return a statement with a result, bound to the tables. Raises QueryError."""
        with self.failing(statement):
            [one] = self.connection.extract_statements(statement)
        if one.type.name == "SELECT":
            self._check(statement)
        with self.failing(statement):
            return self.computed(partial(self.connection.sql, statement))

    def _check(self, statement: str) -> None:
        """Raise QueryError with the place of a mistake, which the errors of relations lack."""
        before = "EXPLAIN "
        with self.failing(before + statement, len(before)):
            self.connection.execute(before + statement)

    def count(self, sql: str) -> int:
        """Return the number of results that `run` yields for a text. Raises QueryError."""
        self.connection.execute("SET errors_as_json = true")
        with self.failing(sql):
            statements = self.connection.extract_statements(sql)
        return sum(one.type.name in _WITH_RESULT for one in statements)

    def computed(self, call: Callable[[], T]) -> T:
        """Return the result of a call of DuckDB, which Ctrl-C interrupts.

        Python handles signals on its main thread only, and not while that thread computes. So DuckDB
        computes on another one.
        """
        if current_thread() is not main_thread():
            return call()
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, "binlake-query")
        waiting = self._worker.submit(call)
        try:
            # a signal that the system gives to another thread does not wake a wait without an end
            while not wait([waiting], _SIGNALS_SECONDS).done:
                pass
        except KeyboardInterrupt:
            while not waiting.done():  # DuckDB forgets an interrupt that comes before the statement
                self.connection.interrupt()
                wait([waiting], _SIGNALS_SECONDS)
            raise
        return waiting.result()

    @contextmanager
    def failing(self, sql: str = "", skipped: int = 0) -> Iterator[None]:
        """Convert an exception of DuckDB to the error of the log that caused it, or to a QueryError.

        `sql` is the statement that positions in errors count from, "" if it is not the user's;
        `skipped`: characters of it that the user did not write.
        """
        import duckdb

        self._errors.clear()
        try:
            yield
        except (duckdb.Error, OSError) as error:
            if self._errors:
                raise self._errors[0] from None
            raise query_error(
                error, sql, skipped, self.table_names(), self._columns_of(sql[skipped:])
            ) from None
        finally:
            self._errors.clear()

    @property
    def ledger(self) -> Ledger:
        """The counts of the reads of the last statement. A log that was read several times counts
        once: of each count, the largest.
        """
        united = Ledger()
        for scan in self.scans:
            read = scan.ledger
            for mine, its in (
                (united.unshown, read.unshown),
                (united.transactions, read.transactions),
                (united.zero_dates, read.zero_dates),
                (united.json_differences, read.json_differences),
            ):
                mine |= its
            united.skipped += [lost for lost in read.skipped if lost not in united.skipped]
            for table, sources in read.names.items():
                united.names.setdefault(table, set()).update(sources)
            for sentence in read.warnings:
                united.warn(sentence)
        return united

    # -- tables --------------------------------------------------------------------------------

    @property
    def is_assuming(self) -> bool:
        """Whether the columns of a table are assumed, and no read has proven them yet."""
        return any(not table.is_proven for table in self._assumed)

    def other_tables(self) -> list[ChangedTable]:
        """Find the tables whose columns are assumed; return those that are others than assumed.

        Raises BinlogError for one that SQL cannot read.
        """
        others = []
        for table in self._assumed:
            if table.is_proven:
                continue
            tables = self._tables()
            if table.name in tables.unreadable:
                raise tables.unreadable[table.name]
            found = tables.readable[table.name]
            if found.schemas == table.found.schemas and found.evolution == table.found.evolution:
                table.is_proven = True
            else:
                others.append(found)
        return others

    def settle(self, others: Sequence[ChangedTable]) -> None:
        """Replace assumed tables by those that `other_tables` returned. No result may be open."""
        for found in others:
            self._register(TypedTable(self._input, found))
        self._assumed.clear()

    def table_names(self) -> list[str]:
        """Return the names of all tables: the fixed tables, and the tables of the log. Raises BinlogError."""
        return [*sorted(self._fixed), *self._tables().readable]

    def columns(self, table: str) -> list[str]:
        """Return the columns of a table of `table_names`."""
        fixed = self._fixed.get(table)
        schema = self._tables().readable[table].evolution.schema if fixed is None else fixed.schema
        return list(schema.names)

    def _columns_of(self, sql: str) -> Iterator[str]:
        """Yield the columns of the tables that the text of a statement contains the names of."""
        text = sql.replace('"', "").casefold()
        for table in self.table_names() if text else ():
            if any(True for _ in _mentions(table, text)):
                yield from self.columns(table)

    def add_all_tables(self) -> None:
        """Make every table known to DuckDB; otherwise only those that a statement names are."""
        for name in self._tables().readable:
            self._add(name)

    def _tables(self) -> ChangedTables:
        with self._finding:  # the prompt completes names on a thread
            if self._changed is None:
                source = self._input
                self._changed = find_tables(source.chains, self._all_columns, source.schema)
            return self._changed

    @property
    def _all_columns(self) -> ReadOptions:
        return replace(self._input.options, before=True, query=True, thread_id=True)

    def _expect_tables(self, statement: str, *, may_assume: bool) -> None:
        """Find the tables of the log that a statement names: the log is searched only then. Their columns are
        assumed if they may be.
        """
        import duckdb

        if _ABOUT_TABLES.search(statement):
            self.add_all_tables()
        try:
            named = self.connection.get_table_names(statement, qualified=True)
        except duckdb.Error:  # it binds columns, too, and those of unknown tables are not there
            self.add_all_tables()
            return
        names = {name.partition(" AS ")[0].replace('"', "") for name in named} - self._registered
        if not names:
            return
        if may_assume and self._changed is None:
            for table in assumed_tables(self._input, self._all_columns, names):
                self._assumed.append(table)
                self._register(table)
                self._qualify(table.name, table.found.database, table.found.table)
            if names <= self._registered:
                return
        text = statement.replace('"', "").casefold()
        tables = self._tables()
        for name in tables.readable:
            for number in _mentions(name, text):
                self._add(name)
                if number:
                    self._add_version(name, int(number))
        for name, error in tables.unreadable.items():
            if any(True for _ in _mentions(name, text)):
                raise error

    def _add(self, name: str) -> None:
        if name not in self._registered:
            found = self._tables().readable[name]
            self._register(TypedTable(self._input, found))
            self._qualify(name, found.database, found.table)

    def _add_version(self, name: str, number: int) -> None:
        found = self._tables().readable[name]
        shown = f"{name}@{number}"
        if 1 <= number <= len(found.evolution.versions) and shown not in self._registered:
            self._register(TypedTable(self._input, found, number))

    def _register(self, table: QueryTable) -> None:
        dataset = LogDataset(table, self._begun, self._errors.append, self._workspace)
        self.connection.register(table.name, dataset)
        self._registered.add(table.name)

    def _qualify(self, name: str, database: str, table: str) -> None:
        """Let `shop.orders` mean the table "shop.orders", too, where DuckDB has no such schema."""
        import duckdb

        schema, view = _quoted(database), _quoted(table)
        with suppress(duckdb.Error):
            self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            self.connection.execute(f"CREATE VIEW {schema}.{view} AS FROM {_quoted(name)}")


def _mentions(table: str, text: str) -> Iterator[str]:
    """Yield, for each place where a text without quotes names a table, the n of `<table>@<n>` or ""."""
    name = re.escape(table.replace('"', "").casefold())
    pattern = rf"(?<![\w$.]){name}(?![\w$])(?:@(\d{{1,9}}))?"
    for found in re.finditer(pattern, text):
        yield found[1] or ""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
