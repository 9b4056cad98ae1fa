"""The read of a log for a scan of a table: options narrowed to columns and tests, and batches.

Each table is a `QueryTable`: its schema, and `scan`, which starts a new read of the log every time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from binlake.errors import SchemaError
from binlake.query.conditions import Asked
from binlake.query.definitions import ChangedTable, check_names
from binlake.query.pushdown import narrowed, with_numbers
from binlake.source.chain import Chain
from binlake.stream.log_reader import LogReader
from binlake.stream.views import VIEWS, check_statement_options, view_of
from binlake.table.batches import Changes
from binlake.table.counting.row_counts import view_batches
from binlake.table.definitions import NO_COLUMN
from binlake.table.metadata import METADATA
from binlake.table.reading import read_changes
from binlake.table.resolve import ResolvesTables, TableResolver
from binlake.table.row_json import change_batch, change_schema
from binlake.table.schema.declared import DeclaredSchema
from binlake.table.schema.evolution import Evolution
from binlake.table.types.base import Target
from binlake.table.where.choosing import check_where_columns
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

#: Metadata columns that show all columns of the table.
_SHOW_ALL_COLUMNS = frozenset(("before", "absent"))
#: Columns of exact numbers, which servers and DuckDB compare alike.
_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal")


@dataclass(frozen=True, slots=True)
class Input:
    """The chains of logs to read, the options of the read, and the schema."""

    chains: Sequence[Chain]
    options: ReadOptions
    schema: DeclaredSchema


@dataclass(frozen=True, slots=True)
class Scan:
    """One read of the log for one place in a statement where a table is named.

    `options` are those of the read, narrowed; `ledger` is complete when the read is.
    """

    table: str
    columns: tuple[str, ...]
    options: ReadOptions
    ledger: Ledger = field(default_factory=Ledger)


class QueryTable(ABC):
    """A table that SQL can name."""

    def __init__(self, name: str, source: Input, schema: pa.Schema) -> None:
        self.name = name
        self.source = source
        self.schema = schema

    @abstractmethod
    def plan(self, columns: Sequence[str], asked: Asked) -> Scan:
        """Return a read that has at least these columns, of at least the rows that pass a filter."""

    @abstractmethod
    def batches(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        """Read: yield batches with at least the columns of the scan. Raises BinlogError."""


class ChangesTable(QueryTable):
    """The row changes of all tables, with both images as JSON text."""

    def __init__(self, source: Input) -> None:
        shown = replace(source.options, query=True, thread_id=True)
        super().__init__("changes", source, change_schema(shown))

    def plan(self, columns: Sequence[str], asked: Asked) -> Scan:
        meanings = {name: name for name in self.schema.names}
        options = narrowed(self.source.options, asked.tests, meanings)
        images = {"before", "after"} & set(columns)
        options = replace(
            options,
            columns=() if images else NO_COLUMN,
            query="query" in columns,
            thread_id="thread_id" in columns,
        )
        return Scan(self.name, tuple(columns), options)

    def batches(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        options, ledger = scan.options, scan.ledger

        def shape(changes: Changes) -> pa.RecordBatch:
            return change_batch(changes, options, scan.columns)

        chains, schema = self.source.chains, self.source.schema
        yield from read_changes(chains, options, ledger, Target.TEXT, schema, shape)
        check_where_columns(options.where, ledger)


class TypedTable(QueryTable):
    """The row changes of one table, with typed columns: `Log.to_arrow` as a table.

    `number` is None, or the n of `<table>@<n>` for rows of an older definition that do not fit.
    """

    def __init__(self, source: Input, found: ChangedTable, number: int | None = None) -> None:
        evolution = found.evolution
        schema = evolution.schema if number is None else evolution.versions[number - 1]
        name = found.name if number is None else f"{found.name}@{number}"
        super().__init__(name, source, schema)
        self._found = found
        self._number = number
        # each scan decodes them, so that the rows of a table do not depend on the columns of a statement
        self._deciding = evolution.deciding()
        self._metadata = {column.full_name(source.options): column for column in METADATA}
        self._numbers = _numbers(found)

    def plan(self, columns: Sequence[str], asked: Asked) -> Scan:
        meanings = {name: column.name for name, column in self._metadata.items()}
        options = narrowed(self.source.options, asked.tests, meanings)
        options = with_numbers(options, [t for t in asked.tests if t.column in self._numbers])
        made = {self._metadata[name].name for name in self._made(columns)}
        options = replace(
            options,
            table=(self._found.name,),
            columns=self._decoded(columns),
            before="before" in made,
            query="query" in made,
            thread_id="thread_id" in made,
        )
        return Scan(self.name, tuple(columns), options)

    def batches(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        yield from self._read(scan, lambda tables: tables)

    def _read(
        self, scan: Scan, resolved: Callable[[TableResolver], ResolvesTables]
    ) -> Iterator[pa.RecordBatch]:
        """Read; `resolved` as in `read_changes`."""
        options, ledger = scan.options, scan.ledger
        evolution = self._projected(scan)
        made = {self._metadata[name].name for name in self._made(scan.columns)}

        def shape(changes: Changes) -> list[pa.RecordBatch]:
            found = self._found
            batches = changes.table_batches(options, made)
            mine = [b for b in batches if b.definition.full_name == found.name]
            names = {(b.definition.database, b.definition.table) for b in mine}
            check_names(names | {(found.database, found.table)})
            return [b.batch for b in mine]

        chains, schema = self.source.chains, self.source.schema
        for several in read_changes(
            chains, options, ledger, Target.TYPED, schema, shape, resolved=resolved
        ):
            for batch in several:
                rows = self._rows(batch, evolution)
                if rows is not None and rows.num_rows:
                    yield rows
        check_where_columns(options.where, ledger)
        if self._number is None:
            for note in self._found.evolution.notes:
                ledger.warn(note)

    def _rows(self, batch: pa.RecordBatch, evolution: Evolution) -> pa.RecordBatch | None:
        """Return the rows of a decoded batch that are in this table."""
        if not any(version.equals(batch.schema) for version in evolution.versions):
            raise SchemaError(
                f"the columns of table {self._found.name} changed after the statement began",
                hint="run it again",
            )
        fitting, misfits = evolution.conform(batch)
        if self._number is None:
            return fitting
        return misfits if evolution.number(batch.schema) == self._number else None

    def _made(self, columns: Sequence[str]) -> list[str]:
        """Return the metadata columns that a scan makes; of `<table>@<n>` all, as the definition is
        recognized by its columns. The cheapest is always made: a batch without columns has no rows.
        """
        if self._number is not None:
            return list(self._metadata)
        needed = {*columns, *self._deciding}
        return [name for name, one in self._metadata.items() if name in needed or one.name == "row"]

    def _decoded(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the option columns of a scan: the names that its columns have in any definition, ()
        for all.
        """
        shown = {self._metadata[name].name for name in columns if name in self._metadata}
        if self._number is not None or shown & _SHOW_ALL_COLUMNS:
            return ()
        needed = {*columns, *self._deciding}
        names: dict[str, None] = {}
        full = self._found.evolution
        for version, newest in zip(full.versions, full.newest_names, strict=True):
            for name in version.names:
                if name not in self._metadata and newest.get(name.lower(), name) in needed:
                    names[name] = None
        projected = [_only(version, (), tuple(names)) for version in full.versions]
        for one, its in zip(projected, full.newest_names, strict=True):
            for other, others in zip(projected, full.newest_names, strict=True):
                if one.equals(other) and its != others:
                    return ()  # only the other columns distinguish the definitions
        return tuple(names) or NO_COLUMN

    def _projected(self, scan: Scan) -> Evolution:
        """Return the rule that unites the definitions, with the columns that a scan decodes."""
        full = self._found.evolution
        made, columns = self._made(scan.columns), scan.options.columns
        needed = {*scan.columns, *self._deciding}
        if self._number is not None:
            needed = set(full.schema.names)
        fields = [
            _with_members(one, needed) if columns else one
            for one in full.schema
            if one.name in needed
        ]
        versions = tuple(_only(version, made, columns) for version in full.versions)
        schema = pa.schema(fields, metadata=full.schema.metadata)
        return replace(full, schema=schema, versions=versions)


class ViewTable(QueryTable):
    """A view of the log: events, transactions, statements."""

    _MEANINGS = {
        "transactions": {"commit_ts": "ts", "gtid": "gtid", "thread_id": "thread_id"},
        "statements": {"gtid": "gtid"},
        "events": dict[str, str](),
    }

    def __init__(self, name: str, source: Input) -> None:
        assert name in VIEWS
        self._view = view_of(name, source.options)
        super().__init__(name, source, self._view.schema())

    def plan(self, columns: Sequence[str], asked: Asked) -> Scan:
        options = narrowed(self.source.options, asked.tests, self._MEANINGS[self.name])
        return Scan(self.name, tuple(columns), options)

    def batches(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        options, ledger, columns = scan.options, scan.ledger, scan.columns
        options.refuse_row_filters(f"the table {self.name}")
        if self.name == "statements":
            check_statement_options(options)
        for reader in LogReader.of_chains(self.source.chains, options, ledger):
            yield from view_batches(self._view, [reader], columns, options, ledger)


def _numbers(found: ChangedTable) -> frozenset[str]:
    """The columns that are exact numbers in every definition, under one name."""
    if any(found.evolution.newest_names):
        return frozenset()
    first, *others = found.schemas
    return frozenset(
        one.name
        for one in first
        if _is_number(one)
        and all(one.name in other.names and _is_number(other.field(one.name)) for other in others)
    )


def _is_number(column: pa.Field) -> bool:
    declared = (column.metadata or {}).get(b"mysql.type", b"").decode()
    exact = pa.types.is_integer(column.type) or pa.types.is_decimal(column.type)
    return exact and declared.partition("(")[0].partition(" ")[0] in _NUMBERS


def _only(schema: pa.Schema, metadata: Collection[str], columns: Sequence[str]) -> pa.Schema:
    """The schema of a definition with these metadata columns, and what the option columns leaves."""
    wanted = {name.casefold() for name in columns}
    kept = {one.name for one in schema if not wanted or one.name.casefold() in wanted}
    fields = []
    for one in schema:
        if is_logged(one):
            if one.name in kept:
                fields.append(one)
        elif one.name in metadata:
            fields.append(_with_members(one, kept))
    return pa.schema(fields, metadata=schema.metadata)


def _with_members(column: pa.Field, names: Collection[str]) -> pa.Field:
    """The before-image with only these columns; any other column as it is."""
    if is_logged(column) or not column.name.endswith("before"):
        return column
    return column.with_type(pa.struct([one for one in column.type if one.name in names]))


def is_logged(column: pa.Field) -> bool:
    """Whether it is a column of the server's table, not a metadata column."""
    return column.metadata is not None and b"mysql.type" in column.metadata
