"""The changes of one table in a range of log, as objects: row changes, and statements on the table."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from binlake.errors import IncompleteError, UnsupportedError
from binlake.format.sql_names import TableName, lower_name
from binlake.source.chain import Chain
from binlake.state.log_range import refuse_hole
from binlake.state.names import TableNames
from binlake.state.shape import Row, TableShape
from binlake.state.tracks import LoggedChange
from binlake.stream.groups.transactions import COUNT_UNSHOWN
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import PlainRun, Run
from binlake.stream.sql.comments import without_comments
from binlake.stream.sql.ddl import DdlStatement, TakesDdl
from binlake.stream.sql.ddl_targets import renaming, spelling_decides
from binlake.stream.sql.statements import ACCOUNT
from binlake.stream.watched_statements import WATCHED_KINDS, watched_statements
from binlake.table.batches import Changes, TableChanges
from binlake.table.images import Image, has_column
from binlake.table.reading import as_they_are, read_changes
from binlake.table.schema.ddl_effects import concerns
from binlake.table.schema.declared import PASSIVE, DeclaredSchema, ForeignKey
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions

_ROW_FORMAT = "binlog_format=ROW logs every change as rows"
_ACCOUNTS_DATABASE = "mysql"  # CREATE USER, GRANT and the like change tables of this one only
#: Receives the progress of a read.
Seen = Callable[[Iterable[Changes]], Iterable[Changes]]
_Order = tuple[int, int, int]


class OfTable(NamedTuple):
    """The next item of the log: a row change with the `table` that it is of, or a statement."""

    change: LoggedChange | None
    statement: DdlStatement | None
    table: TableChanges | None = None


class CascadeCheck:
    """Refuses ranges in which foreign keys changed rows of the table that the log does not have."""

    def __init__(self, keys: Sequence[ForeignKey]) -> None:
        self._keys = [key for key in keys if key.actions]
        self.are_logged = True

    @property
    def parents(self) -> tuple[str, ...]:
        """The tables whose changes matter, as `database.table`."""
        return tuple(dict.fromkeys(f"{k.parent[0]}.{k.parent[1]}" for k in self._keys))

    def see(self, run: Run) -> None:
        """Take a run of the log: MySQL logs the effects since 9.6."""
        file = run.window.file if isinstance(run, PlainRun) else run.file
        if file.format is not None:
            self.are_logged = self.are_logged and file.format.logs_cascades

    def check_names(self, ddl: DdlStatement, child: str) -> None:
        """Take a statement. Raises UnsupportedError for one that gives a parent another name."""
        if self.are_logged:
            return
        for key in self._keys:
            parent = (key.parent[0], key.parent[1])
            if renaming(ddl, parent) is not None or spelling_decides(ddl, parent):
                raise UnsupportedError(
                    f"{child}, {ddl.position}: {'.'.join(key.parent)}, to which foreign key {key.name} refers, is"
                    " renamed, and the server does not log the rows that the key changes",
                    hint="MySQL logs them since 9.6; use a dump made after this statement",
                )

    def check(self, table: TableChanges, place: Callable[[int], str], child: str) -> None:
        """Take row changes of a parent. Raises UnsupportedError."""
        if self.are_logged:
            return
        name = table.types.definition.full_name
        lowered = _lowered(table)
        befores, afters = _rows(table.before), _rows(table.after)
        for key in self._keys:
            if lower_name(key.parent) != lowered:
                continue
            for row, (before, after) in enumerate(zip(befores, afters, strict=True)):
                if before is not None and _acts(key, before, after):
                    raise UnsupportedError(
                        f"{child}, {place(row)}: foreign key {key.name} may have changed rows when a row of"
                        f" {name} was {'deleted' if after is None else 'updated'}, and the server does"
                        " not log that",
                        hint="MySQL logs it since 9.6; use a dump made after this change",
                    )


def _lowered(table: TableChanges) -> TableName:
    """The database and the table of changes, in lower case. Joined, they may equal those of another table."""
    definition = table.types.definition
    return lower_name((definition.database, definition.table))


def _acts(key: ForeignKey, before: Row, after: Row | None) -> bool:
    if after is None:
        return key.on_delete not in PASSIVE
    changed = any(after.get(c, before.get(c)) != before.get(c) for c in key.parent_columns)
    return key.on_update not in PASSIVE and changed


class _OfRange:
    """Passes on the statements on the table from the range only: the first rows already have the effects of earlier ones.

    `see` takes each run, and returns its statements on the table.
    """

    def __init__(
        self,
        reader: LogReader,
        is_of_table: Callable[[DdlStatement], bool],
        see: Callable[[Run], Sequence[DdlStatement]],
    ) -> None:
        reader.pass_holes_to(refuse_hole)
        self._reader = reader
        self._is_of_table = is_of_table
        self._see = see

    def runs(self, on_ddl: TakesDdl) -> Iterator[Run]:
        """Yield the runs of the reader. Raises BinlogError."""

        def of_others(ddl: DdlStatement) -> None:
            if not self._is_of_table(ddl):
                on_ddl(ddl)

        for run in self._reader.runs(of_others, WATCHED_KINDS):
            for ddl in self._see(run):
                on_ddl(ddl)
            yield run

    def ddl_before(self) -> Iterator[DdlStatement]:
        """The DDL on other tables that the log has before the read begins."""
        return (ddl for ddl in self._reader.ddl_before() if not self._is_of_table(ddl))


class LogChanges:
    """Reads the changes of a table between the moments that `options` choose."""

    def __init__(
        self,
        chain: Chain,
        options: ReadOptions,
        schema: DeclaredSchema,
        ledger: Ledger,
        shape: TableShape,
        names: TableNames,
    ) -> None:
        self._chain = chain
        self._options = options
        self._schema = schema
        self._ledger = ledger
        self._names = names
        self._name = shape.full_name
        self._foreign = CascadeCheck(shape.declared.foreign_keys)
        self._statements: deque[tuple[tuple[int, int], OfTable]] = deque()

    def read(self, seen: Seen) -> Iterator[OfTable]:
        """Yield row changes and statements in the order of the log.

        Raises BinlogError; IncompleteError at the first change that no row event shows and that may be of this table or
        of one that its foreign keys refer to.
        """
        try:
            yield from self._read(seen)
        except IncompleteError as error:
            if error.hint == COUNT_UNSHOWN:  # a state cannot continue
                error.hint = _ROW_FORMAT
            raise
        self._check_shown()

    def _read(self, seen: Seen) -> Iterator[OfTable]:
        names = [".".join(name) for name in self._names.all]
        if self._names.later:  # a server may have written a name of a statement in lower case
            names += [name.lower() for name in names]
        wanted = (*names, *self._foreign.parents)
        options = replace(self._options, table=wanted, on_unshown="error")
        batches = read_changes(
            [self._chain], options, self._ledger, Target.TEXT, self._schema, as_they_are,
            watched=lambda reader: _OfRange(reader, self._is_of_table, self._see),
        )  # fmt: skip
        for changes in seen(batches):
            for order, item in self._items(changes):
                yield from self._before(order[:2])
                yield item
        yield from self._before(None)

    def _before(self, place: tuple[int, int] | None) -> Iterator[OfTable]:
        while self._statements and (place is None or self._statements[0][0] < place):
            yield self._statements.popleft()[1]

    def _items(self, changes: Changes) -> list[tuple[_Order, OfTable]]:
        found: list[tuple[_Order, OfTable]] = []
        for table in changes.tables:
            facts = table.facts
            files = changes.per_row_origin("file", pa.string()).take(facts.row_origin).to_pylist()
            positions = facts.pos.to_pylist()
            places = [f"{file}:{pos}" for file, pos in zip(files, positions, strict=True)]
            self._foreign.check(table, places.__getitem__, self._name)
            if _lowered(table) not in [*map(lower_name, self._names.all)]:
                continue
            orders = changes.sequence(facts).to_pylist()
            images = zip(_rows(table.before), _rows(table.after), strict=True)
            for order, place, (before, after) in zip(orders, places, images, strict=True):
                key = (order["file"], order["pos"], order["row"])
                if self._has_name(table, key, place):
                    found.append((key, OfTable(LoggedChange(before, after, place), None, table)))
        found.sort(key=lambda one: one[0])
        return found

    def _has_name(self, table: TableChanges, order: _Order, place: str) -> bool:
        """Whether changes are of the table, which has other names at other places. Raises UnsupportedError."""
        definition = table.types.definition
        name = self._names.at(*order[:2])
        if (definition.database, definition.table) == name:
            return True
        if _lowered(table) != lower_name(name):
            return False
        raise UnsupportedError(
            f"{self._name}, {place}: a statement names the table {'.'.join(name)}, and the row events"
            f" name {definition.full_name}: binlake cannot know whether they are the same table",
            hint="use a dump made after the statement that renames the table",
        )

    def _is_of_table(self, ddl: DdlStatement) -> bool:
        name = self._names.at(ddl.position.ordinal, ddl.position.offset)
        return concerns(without_comments(ddl), *name)

    def _see(self, run: Run) -> list[DdlStatement]:
        """Take a run of the log before its rows are decoded; returns its statements on the table."""
        self._foreign.see(run)
        found = []
        for statement in watched_statements(run):
            position = statement.position
            ddl = without_comments(DdlStatement.of(statement.event, position))
            self._foreign.check_names(ddl, self._name)
            if self._is_of_table(ddl):
                found.append(ddl)
                self._statements.append(((position.ordinal, position.offset), OfTable(None, ddl)))
        return found

    def _check_shown(self) -> None:
        """Raise an error for what the read has counted, but a state must not lack."""
        if self._ledger.unshown[ACCOUNT] and self._names.first[0].lower() == _ACCOUNTS_DATABASE:
            raise IncompleteError(
                f"{self._name}: the log contains changes that rows cannot show: {ACCOUNT}"
            )
        if self._ledger.json_differences:
            raise UnsupportedError(
                f"{self._name}: the log contains differences of JSON documents without the documents",
                hint="the log needs binlog_row_image=FULL, or no binlog_row_value_options",
            )


def _rows(image: Image | None) -> list[Row | None]:
    """The images as dicts of the columns that they have; None where there is none."""
    assert image is not None, "the text target decodes both images"
    names = image.types.names
    columns = [column.to_pylist() for column in image.columns]
    values: Iterable[tuple[Any, ...]] = zip(*columns, strict=True)
    if not columns:
        values = [()] * image.count
    has = [
        [has_column(bitmap, ordinal) for ordinal in image.types.ordinals]
        for bitmap in image.patterns
    ]
    exists = [True] * image.count if image.exists is None else image.exists.to_pylist()
    patterns = [0] * image.count if image.pattern_of is None else image.pattern_of.to_pylist()
    whole = [all(one) for one in has]
    return [
        None
        if not there
        else dict(zip(names, row, strict=True))
        if whole[pattern]
        else {n: v for n, v, h in zip(names, row, has[pattern], strict=True) if h}
        for there, pattern, row in zip(exists, patterns, values, strict=True)
    ]
