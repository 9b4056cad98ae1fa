"""Compute the rows of a table at a moment: the one way for the Python API and the command.

    with opened_base(...) as base:
        for batch in TableState(chain, options, ledger, base, moment).batches(): ...

Rows from before the moment (a dump, a Parquet file) are brought forwards, those of a live server back.
The log is read first; then the rows pass by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from binlake.errors import OptionError, SourceError, UnsupportedError
from binlake.format.collations import COLLATIONS
from binlake.printable import truncated
from binlake.source.arrays import scalar
from binlake.source.chain import Chain
from binlake.state.base import Base
from binlake.state.created import CreatedLater, created_shape
from binlake.state.ddl import (
    Alteration,
    Numbering,
    alteration_of,
    is_inert,
    keeps_columns,
    numbered_in,
)
from binlake.state.live import LiveTable
from binlake.state.log_changes import LogChanges, Seen
from binlake.state.log_range import StateMoment, range_after, range_before, remark_on_end
from binlake.state.names import NameMovedError, TableNames, certain_renaming
from binlake.state.parquet_rows import CREATE_TABLE, POSITION
from binlake.state.shape import TableShape
from binlake.state.tracks import Conflicts, CountedRows, KeyedRows
from binlake.stream.sql.ddl import DdlStatement
from binlake.stream.sql.ddl_targets import renames_only, renaming
from binlake.table.batches import TableChanges
from binlake.table.plan import TableTypes
from binlake.table.schema.ddl_effects import (
    check_foreign_keys,
    creates,
    drops,
    new_name,
    replaces,
    truncates,
)
from binlake.table.schema.ddl_tokens import items_of
from binlake.table.schema.declared import DeclaredSchema
from binlake.table.schema.schema_file import declared_schema
from binlake.table.schema.schema_text import create_table_text
from binlake.values.ledger import Ledger
from binlake.values.option_texts import parse_table_pattern, possible_names
from binlake.values.options import ReadOptions


def table_names(table: str) -> list[tuple[str, str]]:
    """Return the databases and tables that one table's name may mean. Raises OptionError."""
    try:
        parse_table_pattern(table)
        if set("*?") & set(table):
            raise ValueError("a state covers one table")
    except ValueError as error:
        raise OptionError(f"table {table!r}: {error}", name="table", value=table) from None
    return possible_names(table)


def state_options(options: ReadOptions) -> ReadOptions:
    """Return the options that the log is read with. Raises OptionError for one that chooses changes."""
    for name in (*options.filters_given, "columns", "exclude_column"):
        if name != "source" and getattr(options, name) not in (None, ()):
            raise OptionError(
                f"option {name} cannot be combined with a state, which needs every change between two moments",
                name=name,
            )
    if options.on_error != "stop":
        raise OptionError(
            "option on_error: a state needs every change, so binlake cannot skip damage",
            name="on_error",
        )
    return replace(options, uncommitted=False, query=False, thread_id=False)


class TableState:
    """The rows of a table at a moment. `options` are those of `state_options`; with `force`, conflicts
    are counted (`conflicts`), and the rows of the log are right.

    `names` are those of the table between its rows and the moment; by default, that of the rows. After the
    construction, `options` are those of the read of the log.
    """

    def __init__(
        self,
        chain: Chain,
        options: ReadOptions,
        ledger: Ledger,
        base: Base,
        moment: StateMoment,
        *,
        names: TableNames | None = None,
        force: bool = False,
    ) -> None:
        self._base = base
        self._ledger = ledger
        self._is_back = isinstance(base, LiveTable)
        if not base.origin.is_known:
            raise SourceError(
                f"{base.name} does not contain its position in the log",
                hint="make the dump with --source-data=2 (MariaDB: --master-data=2), or give"
                " --from-position FILE:POS or --from-gtid",
            )
        limits = range_before if self._is_back else range_after
        options = limits(chain, base.origin, base.name, moment, options)
        if not self._is_back and (remark := remark_on_end(chain, moment, options)):
            ledger.warn(remark)
        self.options = options
        definition = base.shape.definition
        self._may_move = names is None
        self.names = names or TableNames((definition.database, definition.table))
        self.shape = base.shape.under(*self.names.first)
        schema = DeclaredSchema([self.shape.declared])
        if options.schema is not None:
            schema = declared_schema(options)
        self._log = LogChanges(chain, options, schema, ledger, self.shape, self.names)
        self._conflicts = Conflicts(self.shape.full_name, base.name, counts=force)
        self._rows: KeyedRows | CountedRows = self._tracks(self.shape)
        self._alterations: list[Alteration | Numbering] = []
        self._is_cleared = False
        self._is_there = not isinstance(base, CreatedLater)
        self._missing = ""
        if isinstance(base, CreatedLater):
            self._missing = f"{base.created_at} creates it later"
        self._known: dict[int, TableTypes] = {}
        self._created = base.create_table

    @property
    def conflicts(self) -> int:
        """How many rows did not fit the log."""
        return self._conflicts.count

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """The metadata of a Parquet file with these rows, from which another state can begin."""
        place = self.options.start if self._is_back else self.options.stop
        is_altered = any(isinstance(one, Alteration) for one in self._alterations)
        is_other = bool(is_altered or self.names.later)
        sql = create_table_text(self.shape.declared) if is_other else self._created
        found = {} if place is None else {POSITION: f"{place.file}:{place.offset}".encode()}
        return found | ({CREATE_TABLE: sql.encode()} if sql else {})

    def read_log(self, seen: Seen = lambda batches: batches) -> None:
        """Read the log; `shape` is then the shape of the result. Raises BinlogError, and NameMovedError if the names are
        others.
        """
        if self.options.start is None or self.options.start != self.options.stop:
            self._follow(seen)  # otherwise the rows are those of the moment
        if self._is_back:
            self._take_name(self.names.first)
        if not self._is_there:
            raise SourceError(
                f"{self.shape.full_name} does not exist at this moment: {self._missing}"
            )

    def _follow(self, seen: Seen) -> None:
        for item in self._log.read(seen):
            if item.change is not None:
                assert item.table is not None
                self._check_types(item.table)
                change = item.change
                self._rows.take(
                    change._replace(
                        before=self._stored(change.before), after=self._stored(change.after)
                    )
                )
            elif item.statement is not None:
                self._apply(item.statement)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, after `read_log`. Raises BinlogError."""
        rows = self._base_rows()
        yield from self._rows.backwards(rows) if self._is_back else self._rows.forwards(rows)

    # -- rows ----------------------------------------------------------------------------------

    def _tracks(self, shape: TableShape) -> KeyedRows | CountedRows:
        kind = KeyedRows if shape.key else CountedRows
        return kind(shape, self._conflicts, self.options.max_memory)

    def _base_rows(self) -> Iterator[pa.RecordBatch]:
        if self._is_cleared:
            return
        for batch in self._base.batches():
            for alteration in self._alterations:
                if isinstance(alteration, Numbering):
                    alteration.check(batch)
                else:
                    batch = _altered(batch, alteration)
            yield batch

    def _stored(self, row: dict[str, Any] | None) -> dict[str, Any] | None:
        """A row without the columns that the server computes."""
        left_out = self.shape.generated
        if row is None or not left_out:
            return row
        return {name: value for name, value in row.items() if name not in left_out}

    def _check_types(self, table: TableChanges) -> None:
        """Raise UnsupportedError if the log and the rows have different columns."""
        types = table.types
        if self._known.get(id(types)) is types:
            return
        kinds = self.shape.kinds
        for kind in types.columns:
            name = kind.column.name
            if name in self.shape.generated:
                continue
            if name in self.shape.unnamed and kind.column.collation_id is None:
                raise UnsupportedError(
                    f"{self.shape.full_name}: neither CREATE TABLE nor the rows events of the log name the"
                    f" character set of column {name}",
                    hint="make a dump after the statement, or set binlog_row_metadata=MINIMAL on the server",
                )
            mine = kinds.get(name)
            if mine is None:
                raise UnsupportedError(
                    f"{self.shape.full_name}: the log has column {name}, and {self._base.name} does not",
                    hint="they may be of different servers or times",
                )
            if mine.arrow_type != kind.arrow_type:
                raise UnsupportedError(
                    f"{self.shape.full_name}: column {name} is {mine.arrow_type} in {self._base.name}, and"
                    f" {kind.arrow_type} in the log",
                    hint="they may be of different servers or times",
                )
        self._known = {id(types): types}
        if self.shape.unnamed:
            self.shape = self.shape.named(
                {
                    kind.column.name: COLLATIONS[kind.column.collation_id].charset
                    for kind in types.columns
                    if kind.column.name in self.shape.unnamed
                    and kind.column.collation_id is not None
                }
            )

    # -- statements ----------------------------------------------------------------------------

    def _apply(self, ddl: DdlStatement) -> None:
        """Apply a statement on the table. Raises UnsupportedError naming its place."""
        try:
            self._check_name(ddl)
            if (name := self.names.given_at(ddl.position)) is not None:
                self._rename(ddl, name)
            elif self._is_back:
                self._pass_back(ddl)
            else:
                self._pass(ddl)
        except UnsupportedError as error:
            raise self._refusal(ddl, error.message) from None

    def _refusal(self, ddl: DdlStatement, why: str) -> UnsupportedError:
        """The error for a statement, with its place."""
        shown = truncated(" ".join(ddl.sql.split()), 80)
        what = "go back over" if self._is_back else "follow"
        return UnsupportedError(
            f"{self.shape.full_name}, {ddl.position}: binlake cannot {what} {shown!r}: {why}",
            hint="use a dump made after this statement, or an earlier moment"
            if not self._is_back
            else "give --from a dump that was made before the moment, instead of the live table",
        )

    def _check_name(self, ddl: DdlStatement) -> None:
        """Raise NameMovedError if the rows may belong to another table than the one that has the name at the moment."""
        definition = self.shape.definition
        moved = certain_renaming(ddl, (definition.database, definition.table))
        if moved is None or self.names.given_at(ddl.position) is not None:
            return
        came, _ = moved
        if self._may_move and (self._is_back or came is not None):
            raise NameMovedError
        if came is not None:
            raise UnsupportedError(f"another table gets the name: {'.'.join(came)}")

    def _rename(self, ddl: DdlStatement, name: tuple[str, str]) -> None:
        """Follow a statement that gives the table another name."""
        if not self._is_there:
            raise UnsupportedError("binlake did not find the table before this statement")
        if ddl.sql.lstrip()[:5].upper() == "ALTER" and len(items_of(ddl)) > 1:
            raise UnsupportedError("the statement renames the table and also changes it")
        self._take_name(name)

    def _take_name(self, name: tuple[str, str]) -> None:
        self.shape = self._rows.shape = self.shape.under(*name)
        self._known = {}

    def _changes_nothing(self, ddl: DdlStatement) -> bool:
        """Whether a statement on a table that exists leaves its rows, its columns and its name unchanged."""
        definition = self.shape.definition
        keeps_name = renaming(ddl, (definition.database, definition.table)) is None
        return is_inert(ddl.sql) or (keeps_name and renames_only(ddl))

    def _pass_back(self, ddl: DdlStatement) -> None:
        if self._changes_nothing(ddl):
            return
        if truncates(ddl.sql):
            raise UnsupportedError("the log does not contain the rows that the statement removed")
        if creates(ddl.sql) or drops(ddl.sql):
            raise UnsupportedError(
                "before this statement, the table was a different one, or did not exist"
            )
        if not keeps_columns(ddl):
            raise UnsupportedError(
                "the columns or the key may have been different before this statement"
            )

    def _pass(self, ddl: DdlStatement) -> None:
        if self._is_there and self._changes_nothing(ddl):
            return
        if truncates(ddl.sql):
            self._clear()
        elif drops(ddl.sql):
            self._leave(f"{ddl.position} dropped it")
        elif creates(ddl.sql):
            self._create(ddl)
        elif (new := self._new_name(ddl)) is not None:
            self._leave(f"{ddl.position} renamed it to {'.'.join(new)}")
        else:
            alteration = alteration_of(ddl, self.shape, self.options)
            if alteration is not None:
                if not self.shape.key:
                    raise UnsupportedError(
                        "the columns change, and the table has no key that identifies rows"
                    )
                self._alterations.append(alteration)
                self.shape = alteration.shape
                self._rows.alter(alteration.shape, alteration.row)
                self._known = {}
            if numbered := numbered_in(ddl, self.shape):
                self._number(ddl, numbered)

    def _number(self, ddl: DdlStatement, columns: tuple[str, ...]) -> None:
        """Follow a statement after which columns are AUTO_INCREMENT, if no row has 0 in them."""
        why = (
            f"column {columns[0]} is AUTO_INCREMENT afterwards, and the server may replace 0 by another number, which the"
            " log does not contain"
        )
        if any(row.get(name) in (0, "0") for row in self._rows.now() for name in columns):
            raise UnsupportedError(why)
        settled = frozenset(self._rows.settled(columns))
        refusal = self._refusal(ddl, why)
        self._alterations.append(Numbering(self.shape, columns, settled, refusal))

    def _new_name(self, ddl: DdlStatement) -> tuple[str, str] | None:
        """The new name of the table, if a statement renames it."""
        definition = self.shape.definition
        return new_name(ddl, definition.database, definition.table) if self._is_there else None

    def _leave(self, why: str) -> None:
        self._clear()
        self._is_there = False
        self._missing = why

    def _create(self, ddl: DdlStatement) -> None:
        """Begin with the empty table that a statement creates."""
        if self._is_there and not replaces(ddl.sql):
            raise UnsupportedError("from this statement on, the name belongs to a different table")
        definition = self.shape.definition
        name = (definition.database, definition.table)
        self.shape = created_shape(ddl, name, definition.flavour, self.options)
        check_foreign_keys(self.shape.declared, self._base.shape.declared)
        self._rows = self._tracks(self.shape)
        self._alterations.clear()
        self._created = ddl.sql
        self._known = {}
        self._is_cleared = self._is_there = True

    def _clear(self) -> None:
        self._rows.clear()
        self._is_cleared = True


def _altered(batch: pa.RecordBatch, alteration: Alteration) -> pa.RecordBatch:
    columns = []
    for name, kind in alteration.shape.kinds.items():
        if name in alteration.sources:
            columns.append(batch.column(alteration.sources[name]).cast(kind.arrow_type))
        else:
            value = scalar(alteration.added[name], kind.arrow_type)
            columns.append(pa.repeat(value, batch.num_rows))
    return pa.RecordBatch.from_arrays(columns, schema=alteration.shape.schema)
