"""The typed view of one table: its schema, and batches of any of its definitions in it.

If the user gives no schema, binlake searches the newest part of the range (at most
`schema_scan_bytes`) for the definitions of the table, and unites them (table/schema/evolution.py).
Tasks then convert rows: a row of an older definition with a value that does not fit is not in the
view but in `<table>@<n>`, as in an export. A definition outside the searched part is an error in
the task that meets it, not a guess.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa

from binlake.errors import OptionError, SchemaError, SourceError
from binlake.format.event_types import EVENT_TYPES, TABLE_MAP_EVENT
from binlake.printable import printable
from binlake.source.stores.opened_ahead import opened_ahead
from binlake.spark.options import SourceOptions
from binlake.spark.schema import Conformer, exact_schema
from binlake.stream.log_ddl import LogDdl, before_split
from binlake.stream.log_reader import LogReader
from binlake.stream.positions.splits import Split, plan_splits
from binlake.stream.runs import Piece, PlainRun, Run
from binlake.stream.sql.ddl import DdlStatement
from binlake.table.batches import typed_schema
from binlake.table.metadata import METADATA
from binlake.table.one_table import schema_of_version, split_version
from binlake.table.plan import TableTypes
from binlake.table.resolve import TableResolver, silent
from binlake.table.schema.declared import DeclaredSchema
from binlake.table.schema.evolution import Evolution, distinct_versions
from binlake.table.schema.history import SchemaHistory, position_of
from binlake.table.schema.newest_names import unnamed_renames
from binlake.table.schema.renames import noting_renames
from binlake.table.schema.schema_file import declared_schema
from binlake.table.types.base import Target
from binlake.table.where.choosing import check_where_types
from binlake.values.builds import PickledByName
from binlake.values.frame import EventFormat
from binlake.values.ledger import Ledger, RenamedColumn
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition
from binlake.values.similar_names import did_you_mean
from binlake.values.where import names_in

_RESTART = "start the query again with the same checkpoint to use the table's current columns"
# One step of the search, from the newest backwards.
_LEAST_LOOK_BYTES, _MOST_LOOK_BYTES = 64 << 10, 32 << 20
_SHOWN_TABLES = 3
# The table id and the flags of a TABLE_MAP body, which may differ within one definition.
_TABLE_ID_AND_FLAGS = EVENT_TYPES[TABLE_MAP_EVENT].post_header_length


@dataclass(frozen=True, slots=True)
class InferredView(PickledByName):
    """A typed view whose schema was found in the log.

    `number` is None, or the n of `<table>@<n>` for the rows that were set aside. `uses_ddl`: whether the
    log's DDL may have completed the schema.
    """

    table: str
    evolution: Evolution
    number: int | None = None
    uses_ddl: bool = False

    @classmethod
    def find(cls, options: SourceOptions) -> tuple[InferredView, ReadOptions]:
        """Search for the table; return the view and the options for its tasks.

        Raises SourceError if the search does not find it, OptionError for unknown columns.
        """
        look = _Look(options)
        table, number = options.table, None
        found = look.definitions(options.read)
        read = options.read
        if not found:
            table, number = split_version(table)
        if number is not None:
            read = replace(read, table=(table,))
            found = look.definitions(read)
        if not found:
            question = did_you_mean(options.table, look.other_tables)
            name = f"{question} Else" if question else "check the name,"
            raise SourceError(
                f"the newest {look.looked_bytes} bytes of the log contain no change of table"
                f" {table}",
                hint=f"{name} raise option schema_scan_bytes, or give .schema(…)",
            )
        _check_columns(table, found, read)
        check_where_types(read, found[-1].definition)
        schemas = [exact_schema(typed_schema(types, read)) for types in found]
        renames = look.renames(table)
        evolution = Evolution.of(table, distinct_versions(schemas), renames)
        view = cls(table, evolution, number, bool(look.ddl.chains))
        if number is not None:
            schema_of_version(table, evolution, number)
        else:
            # Spark shows what a source's planning writes to stderr, and nothing else
            there = [column.name for types in found for column in types.definition.columns]
            unnamed = unnamed_renames(table, read.columns, renames, there)
            for note in (*view.evolution.notes, *unnamed):
                print(f"binlake: {printable(note)}", file=sys.stderr)
        return view, read

    @property
    def schema(self) -> pa.Schema:
        """The names of the view's columns."""
        if self.number is None:
            return self.evolution.schema
        return schema_of_version(self.table, self.evolution, self.number)

    def check_without_ddl(self, options: SourceOptions) -> None:
        """Raise SchemaError if the log's DDL completes the view, for a stream: the log with a statement may
        be purged while the stream goes on.
        """
        if not self.uses_ddl:
            return
        plain, _ = self.find(replace(options, ddl_scan_bytes=0))
        if not plain.schema.equals(self.schema):
            raise SchemaError(
                f"columns of {self.table} are known from DDL in the log, which a stream does not use",
                hint="write it as a schema, which stays when logs are purged: binlake schema LOGS >"
                " history.sql, and option schema=history.sql; or ddl_scan_bytes=0 for the columns as"
                " row events describe them",
            )

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the rows of a decoded batch that are in the view, in its schema; None if there
        are none.

        Raises SchemaError for a definition outside the search that does not fit.
        """
        exact = Conformer(exact_schema(batch.schema)).exact(batch)
        fitting, misfits = self.evolution.conform(exact)
        if not any(exact.schema.equals(version) for version in self.evolution.versions):
            unseen = set(exact.schema.names) - set(self.evolution.schema.names)
            if unseen or misfits is not None:
                what = f"columns {', '.join(sorted(unseen))}" if unseen else "other types"
                raise SchemaError(
                    f"an older definition of {self.table} has {what}",
                    hint="raise the option schema_scan_bytes to include it, or give .schema(…)",
                )
        if self.number is None:
            return fitting
        if misfits is None or self.evolution.number(exact.schema) != self.number:
            return None
        return misfits


@dataclass(frozen=True, slots=True)
class PinnedView(PickledByName):
    """The typed view of a stream: its initial schema holds as long as it runs.

    Definitions from before the start are united as in a batch. A later one may lack columns (they are
    null), or have narrower types.
    """

    table: str
    evolution: Evolution

    @classmethod
    def of(cls, view: InferredView) -> PinnedView:
        """Return the view of a stream with the definitions that were found in the log.

        Raises OptionError for one of `<table>@<n>`: rows that do not fit have no stream.
        """
        if view.number is not None:
            raise OptionError(
                f"a stream cannot read {view.table}@{view.number}",
                name="table",
                hint="use spark.read.format('binlog') for the rows of older definitions",
            )
        return cls(view.table, view.evolution)

    @property
    def wanted(self) -> pa.Schema:
        """The schema of all rows of the stream."""
        return self.evolution.schema

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a decoded batch in the view's schema. Raises SchemaError if it does not fit."""
        exact = Conformer(exact_schema(batch.schema)).exact(batch)
        if any(exact.schema.equals(version) for version in self.evolution.versions):
            fitting, misfits = self.evolution.conform(exact)
            if misfits is None:
                return fitting
        known = {name.lower() for name in self.wanted.names}
        unknown = [name for name in batch.schema.names if name.lower() not in known]
        if unknown:
            raise SchemaError(
                f"table {self.table} has columns that are new to the stream: {', '.join(unknown)}",
                hint=_RESTART,
            )
        try:
            return Conformer(self.wanted).exact(batch)
        except SchemaError as error:
            error.message = f"table {self.table} has changed: {error.message}"
            error.hint = _RESTART
            raise


class _Look:
    """Reads splits from the newest backwards, at most `schema_scan_bytes` of them."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self.ddl = LogDdl.of(options.paths, options.read, options.ddl_scan_bytes)
        self.looked_bytes = 0
        self.is_complete = False  # the last search went through all splits
        self.other_tables: set[str] = set()
        self._renamed: list[RenamedColumn] = []  # of the splits so far, which go backwards

    def renames(self, table: str) -> list[list[tuple[str, str]]]:
        """The columns of a table that each DDL statement in the splits renames."""
        return Ledger(renamed=self._renamed).renames(*table.split(".", 1))

    def definitions(self, read: ReadOptions) -> list[TableTypes]:
        """Return the table's definitions, in the order of their last use."""
        return list(self.newest_first(read))[::-1]

    def newest_first(self, read: ReadOptions) -> Iterator[TableTypes]:
        """Yield the definitions of the wanted tables as the search finds them."""
        step = min(max(self._options.schema_scan_bytes, _LEAST_LOOK_BYTES), _MOST_LOOK_BYTES)
        splits = plan_splits(self._options.paths, read, step)
        self.is_complete = False
        with closing(declared_schema(read, [split.log.path for split in splits])) as schema:
            yield from self._definitions(splits, read, schema)

    def _definitions(
        self, splits: list[Split], read: ReadOptions, schema: DeclaredSchema
    ) -> Iterator[TableTypes]:
        met: set[tuple[tuple[str, str], _Map]] = set()
        of_chain: dict[tuple[str, str], DeclaredSchema] = {}
        self.looked_bytes = 0
        inside = False  # a transaction, which starts before the bytes that were read
        newest_first = splits[::-1]
        opened = self._opened(newest_first, read)
        for split in newest_first:
            if self.looked_bytes >= self._options.schema_scan_bytes and not inside:
                return
            chain = split.log.chain
            if chain not in of_chain:
                of_chain[chain] = schema.of_logs([split.log.path])
            history = SchemaHistory(of_chain[chain])
            tables = TableResolver(read, Target.TYPED, silent, history)
            look = _SplitLook(split, next(opened), history, self.ddl)
            inside = look.inside_transaction
            self._renamed = look.renamed + self._renamed
            types = look.resolved(tables, {one for of, one in met if of == chain})
            self.looked_bytes += split.bytes
            self.other_tables |= tables.unwanted
            for one in reversed(look.found):
                if (found := types.get(one)) is not None:
                    met.add((chain, one))
                    yield found
        self.is_complete = True

    def _opened(self, newest_first: Sequence[Split], read: ReadOptions) -> Iterator[_OpenSplit]:
        """Yield the opened splits: ahead only those that the search reads in any case."""
        unchecked = replace(read, verify_checksum=False, on_unshown="count")
        bytes_before = accumulate((split.bytes for split in newest_first), initial=0)
        sure = sum(before < self._options.schema_scan_bytes for before in bytes_before)
        open_split = partial(_OpenSplit.of, read=unchecked)
        yield from opened_ahead(newest_first[:sure], open_split, lambda split: split.log.version)
        yield from map(open_split, newest_first[sure:])


class _Map(NamedTuple):
    """A TABLE_MAP body (table id and flags zeroed), and how many versions of the schema and how many DDL
    statements of the chain were before it.
    """

    body: bytes
    epoch: int
    statements: int


@dataclass(frozen=True, slots=True)
class _OpenSplit:
    """The reader of a split whose log is open, and its ledger."""

    reader: LogReader
    ledger: Ledger

    @classmethod
    def of(cls, split: Split, read: ReadOptions) -> _OpenSplit:
        """Open the log of a split. Raises BinlogError."""
        ledger = Ledger()
        return cls(LogReader.of_split(split, read, ledger), ledger)


class _SplitLook:
    """The distinct TABLE_MAP events of a split. `found` has the format and the place of each, in the order of
    their last use. `renamed` are the columns that DDL in the split renames. `inside_transaction`: no
    transaction starts in the split.
    """

    def __init__(
        self, split: Split, opened: _OpenSplit, history: SchemaHistory, ddl: LogDdl
    ) -> None:
        self._history = history
        self.renamed: list[RenamedColumn] = []
        self._uses_ddl = split.log.chain in ddl.chains
        self._ddl = list(before_split(ddl.up_to(split.log), opened.reader.first))
        self.found = self._table_maps(opened.reader)
        self.inside_transaction = not opened.ledger.covered

    def resolved(self, tables: TableResolver, known: Container[_Map]) -> dict[_Map, TableTypes]:
        """Return the types of those that are not known; wanted tables only."""
        noted = 0
        types: dict[_Map, TableTypes] = {}
        for one in sorted(self.found, key=lambda one: one.statements):
            for ddl in self._ddl[noted : one.statements]:
                self._history.note(ddl)
            noted = one.statements
            if one not in known:
                fmt, position = self.found[one]
                self._history.at(position)
                if (found := tables.types(one.body, fmt)) is not None:
                    types[one] = found
        return types

    def _note(self, ddl: DdlStatement) -> None:
        if self._uses_ddl:
            self._ddl.append(ddl)

    def _table_maps(self, reader: LogReader) -> dict[_Map, tuple[EventFormat, ChainPosition]]:
        found: dict[_Map, tuple[EventFormat, ChainPosition]] = {}
        blank = bytes(_TABLE_ID_AND_FLAGS)
        latest: _Map | None = None
        for run in reader.runs(noting_renames(self.renamed, self._note)):
            position = position_of(run)
            epoch = self._history.epoch(position)
            for piece in _pieces(run):
                for body in _bodies(piece):
                    one = _Map(body, epoch, len(self._ddl))
                    if (
                        one != latest
                    ):  # most often a statement changes the same table as the last one
                        latest = one
                        found.pop(one, None)
                        found[one] = (piece.window.format, position)
        return {one._replace(body=blank + one.body): where for one, where in found.items()}


def _pieces(run: Run) -> Iterable[Piece]:
    return (Piece(run.window, run.first, run.last),) if isinstance(run, PlainRun) else run.pieces()


def _bodies(piece: Piece) -> Iterator[bytes]:
    """Yield the TABLE_MAP bodies of a piece, without table id and flags.

    There are hundreds of thousands in a log, so they are cut out of the window directly.
    """
    window = piece.window
    block, fmt = window.block, window.format
    before = fmt.header_length + _TABLE_ID_AND_FLAGS - window.base
    after = fmt.checksum_bytes + window.base
    at = (codes := bytes(block.type_code[: piece.last])).find(TABLE_MAP_EVENT, piece.first)
    while at >= 0:
        offset = block.offset[at]
        yield bytes(window.data[offset + before : offset + block.length[at] - after])
        at = codes.find(TABLE_MAP_EVENT, at + 1)


def _check_columns(table: str, found: list[TableTypes], read: ReadOptions) -> None:
    names = [column.name for types in found for column in types.definition.columns]
    known = {name.casefold() for name in names}
    in_where = () if read.where is None else names_in(read.where)
    asked = [("columns", name) for name in read.columns] + [("where", name) for name in in_where]
    for option, column in asked:
        if column.casefold() not in known:
            raise OptionError(
                f"option {option}: table {table} has no column {column!r}",
                name=option,
                hint=did_you_mean(column, names) or f"it has {', '.join(dict.fromkeys(names))}",
            )


def check_where(options: SourceOptions) -> None:
    """Raise OptionError for a column of the option where that no table has, for a view of all tables.

    The search ends where all columns are known. After `schema_scan_bytes` there is no check: the column may be in a
    table that has not been seen.
    """
    read = options.read
    if read.where is None:
        return
    missing = {name.casefold(): name for name in names_in(read.where)}
    tables: dict[str, list[str]] = {}
    look = _Look(options)
    for types in look.newest_first(replace(read, where=None, whole_transaction=False)):
        names = [column.name for column in types.definition.columns]
        tables.setdefault(types.definition.full_name, []).extend(names)
        for name in names:
            missing.pop(name.casefold(), None)
        if not missing:
            return
    if not tables or not look.is_complete:
        return
    name = next(iter(missing.values()))
    every = [each for names in tables.values() for each in names]
    listed = [
        f"{table} has {', '.join(dict.fromkeys(names))}" for table, names in sorted(tables.items())
    ]
    raise OptionError(
        f"option where: no table in the range has a column {name!r}",
        name="where",
        value=name,
        hint=f"{did_you_mean(name, every)} {'; '.join(listed[:_SHOWN_TABLES])}".lstrip(),
    )


def options_for_schema(read: ReadOptions, names: list[str]) -> ReadOptions:
    """Return options that decode only the columns of a schema given by the user."""
    # Spark's names ignore case
    metadata = {column.full_name(read).lower(): column.option for column in METADATA}
    asked: dict[str, Any] = {
        option: True for name in names if (option := metadata.get(name.lower()))
    }
    asked["metadata"] = any(name.lower() in metadata for name in names)
    if not read.columns:
        asked["columns"] = tuple(name for name in names if name.lower() not in metadata)
    return replace(read, **asked)
