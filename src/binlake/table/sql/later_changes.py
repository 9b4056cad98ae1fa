"""Find later changes of the rows and tables that an undo reverts.

    undone = UndoneChanges(options)
    for changes in undone.watch(decoder.read(reader)): …     # the changes to undo
    for sentence in undone.later(chain, history, references): …

An undo restores the values from before a change, whatever happened to the row since. So binlake
reads the log a second time, from the first undone change to its end, without the filters that
chose transactions. It counts row changes of other transactions that follow an undone change of the
same row, and DDL on a table with undone changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence

import pyarrow as pa

from binlake.source.bytes import pipe_in
from binlake.source.chain import Chain
from binlake.stream.filters import TransactionFilter
from binlake.stream.log_reader import LogReader
from binlake.stream.runs import Run
from binlake.stream.spread import ReaderWithRuns, ReadsRuns
from binlake.stream.sql.ddl import DdlStatement, TakesDdl
from binlake.stream.sql.ddl_targets import may_change
from binlake.table.batches import OPERATIONS, Changes, TableChanges
from binlake.table.decode import ChangeDecoder
from binlake.table.schema.declared import References
from binlake.table.schema.history import SchemaHistory
from binlake.table.sql.later_children import LaterChildren
from binlake.table.sql.row_sql import SqlTable, shapes_of
from binlake.table.types.base import Target
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.position import ChainPosition
from binlake.values.quantities import counted

_MOST_ROWS = 4_000_000  # limit on the undone rows whose keys are held; changes of others are not searched for
_SHOWN_KEYS = 3
# A read with these filters only has everything that follows, of all tables: nothing comes later.
_OPEN_ENDED = ("start",)
# With these, all that follows in the undone tables is undone, too, and only rows of other tables may refer to it.
_OF_WHOLE_TABLES = ("start", "table", "exclude_table")

#: Ordinal of the file and offset of a transaction's first event. Millions of them are compared, so they are no
#: `ChainPosition`.
_Start = tuple[int, int]
#: The transaction, event, table and operation of a change, and the keys before and after it.
_Identity = tuple[_Start, int, str, str, int, str | None, str | None]


class ChosenChanges:
    """The row changes that an undo chooses from its transactions. They are recognised by their event, operation and
    keys, because the number of a row in a compressed transaction depends on the tables that are read. All events of such a
    transaction have one position, so of several updates of a row, another one may be taken for the undone one.
    """

    def __init__(self) -> None:
        self._left: Counter[_Identity] = Counter()
        self._count = 0

    def add(self, changes: Changes, table: TableChanges, sql: SqlTable) -> None:
        """Take the changes of a table that are undone."""
        self._count += table.count
        if self._count <= _MOST_ROWS:
            self._left.update(self._identities(changes, table, sql))

    def matches(self, changes: Changes, table: TableChanges, sql: SqlTable) -> list[bool]:
        """Return which changes of a table are undone; each is found once. All are, if too many are to be known."""
        if self._count > _MOST_ROWS:
            return [True] * table.count
        found = []
        for identity in self._identities(changes, table, sql):
            found.append(self._left[identity] > 0)
            if found[-1]:  # others are not kept
                self._left[identity] -= 1
        return found

    @staticmethod
    def _identities(changes: Changes, table: TableChanges, sql: SqlTable) -> Iterator[_Identity]:
        definition = table.types.definition
        facts = table.facts
        columns = (_places(changes, table), facts.pos.to_pylist(), facts.op.to_pylist())
        for place, pos, op, (before, after) in zip(*columns, _keys_of(sql, table), strict=True):
            yield place, pos, definition.database, definition.table, op, before, after


class UndoneChanges:
    """The transactions of one chain that an undo reverts, and the changes after them. With `rows`, which are empty at
    first, only the changes that `watch` sees are undone.
    """

    def __init__(
        self, options: ReadOptions, generated: Sequence[str] = (), rows: ChosenChanges | None = None
    ) -> None:
        self._options = options
        # where everything that follows is undone, nothing comes later
        self._remembers = not set(options.filters_given) <= set(_OPEN_ENDED)
        self._of_whole_tables = rows is None and set(options.filters_given) <= set(_OF_WHOLE_TABLES)
        self._generated = generated
        self._rows = rows
        self._transactions: set[_Start] = set()
        self._first: _Start | None = None
        self._tables: set[tuple[str, str]] = set()
        self._keys: dict[tuple[str, str], set[str]] = {}
        self._count = 0
        self._changed: Counter[tuple[str, str]] = Counter()
        self._examples: dict[tuple[str, str], dict[str, str]] = {}
        self._altered: dict[tuple[str, str], list[str]] = {}
        self._children = LaterChildren({})

    def watch(self, changes: Iterable[Changes]) -> Iterator[Changes]:
        """Yield the same changes, and remember them as undone."""
        if not self._remembers:
            yield from changes
            return
        for found in changes:
            for table in found.tables:
                definition = table.types.definition
                self._tables.add((definition.database, definition.table))
                places = _places(found, table)
                if not self._of_whole_tables:
                    self._transactions.update(places)
                if places and (self._first is None or min(places) < self._first):
                    self._first = min(places)
                sql = SqlTable(table.types, self._generated)
                if self._rows is not None and not sql.is_sequence:
                    self._rows.add(found, table, sql)
            yield found

    def later(
        self,
        chain: Chain,
        history: SchemaHistory,
        references: References,
        known: Container[str] = (),
    ) -> list[str]:
        """Return sentences about later changes of the same rows and tables, and of child rows of
        rows that are deleted; [] if there are none.

        `history` is a new one for this second reading; `references` returns the foreign keys that
        refer to a table. `known` are warnings that the user gets in any case. Raises BinlogError.
        """
        options = self._options
        if self._first is None:
            return []
        self._children = LaterChildren({name: references(*name) for name in self._tables})
        if self._of_whole_tables and not self._children.tables:
            return []
        if (pipe := pipe_in(chain.paths)) is not None:
            return [f"binlake cannot check for later changes: {pipe} can be read only once"]
        read = {".".join(name) for name in self._tables} | set(self._children.tables)
        plain = options.opening(
            table=tuple(sorted(read)),
            assume_charset=options.assume_charset,
            batch_bytes=options.batch_bytes,
            on_error="skip",
        )
        ordinal, offset = self._first
        start = ChainPosition(ordinal, chain.names[ordinal], offset)
        ledger = Ledger()
        reader = LogReader.of_chain(chain, TransactionFilter(start=start), plain, ledger)
        reader.pass_holes_to(
            lambda hole: ledger.warn(f"binlake does not know all of them, because {hole}")
        )
        decoder = ChangeDecoder(plain, Target.TEXT, ledger, history=history)
        for changes in decoder.read(_with_ddl(reader, self._take_ddl)):
            for table in changes.tables:
                self._compare(changes, table)
        doubts = [f"{r.file}: {r.why}" for r in ledger.skipped]
        doubts += [sentence for sentence in ledger.warnings if sentence not in known]
        return [*self._sentences(), *(f"later changes: {doubt}" for doubt in doubts)]

    def _take_ddl(self, ddl: DdlStatement) -> None:
        if self._first is None or ddl.position[::2] < self._first:
            return  # a reader also passes on the statements before its start
        for name in self._tables:
            if may_change(ddl, *name):
                self._altered.setdefault(name, []).append(str(ddl.position))

    def _undone_rows(self, changes: Changes, table: TableChanges, sql: SqlTable) -> list[bool]:
        """Return which rows of a table of a batch are undone."""
        definition = table.types.definition
        if (definition.database, definition.table) not in self._tables:
            return [False] * table.count
        if self._of_whole_tables:
            return [True] * table.count
        undone = [place in self._transactions for place in _places(changes, table)]
        if self._rows is not None and any(undone):
            return self._rows.matches(changes, table, sql)
        return undone

    def _compare(self, changes: Changes, table: TableChanges) -> None:
        """Hold the keys of undone rows; count the changes of others to rows with these keys."""
        definition = table.types.definition
        name = (definition.database, definition.table)
        known = self._keys.setdefault(name, set())
        sql = SqlTable(table.types, self._generated)
        if sql.is_sequence:
            return
        undone = self._undone_rows(changes, table, sql)
        for shape in shapes_of(table):
            is_undone = [undone[row] for row in shape.rows.to_pylist()]
            self._children.see_undone(sql, shape, is_undone)
            self._children.see_later(sql, shape, is_undone)
        if name not in self._tables:
            return
        keys = _keys_of(sql, table)
        for row, (is_mine, (before, after)) in enumerate(zip(undone, keys, strict=True)):
            if is_mine:
                self._count += 1
                if self._count <= _MOST_ROWS:
                    known.update(key for key in (before, after) if key is not None)
            elif (key := before if before in known else after) in known and key is not None:
                self._changed[name] += 1
                examples = self._examples.setdefault(name, {})
                if len(examples) < _SHOWN_KEYS:
                    file = changes.row_origins[table.facts.row_origin[row].as_py()].file
                    examples.setdefault(key, f"{key} at {file}:{table.facts.pos[row].as_py()}")

    def _sentences(self) -> Iterator[str]:
        for name, count in sorted(self._changed.items()):
            shown = "; ".join(self._examples[name].values())
            yield (
                f"{'.'.join(name)}: {counted(count, 'later change')} of the same rows, which the"
                f" undo ignores: {shown}{'; …' if count > len(self._examples[name]) else ''}"
            )
        for name, places in sorted(self._altered.items()):
            yield (
                f"{'.'.join(name)}: later DDL at {', '.join(places[:_SHOWN_KEYS])}"
                f"{', …' if len(places) > _SHOWN_KEYS else ''}: the statements are for the table"
                " before that"
            )
        yield from self._children.sentences()
        if self._count > _MOST_ROWS:
            yield f"binlake checked the later log for the first {_MOST_ROWS:,} rows only"


def _with_ddl(reader: LogReader, take: TakesDdl) -> ReadsRuns:
    """Return a reader that passes its DDL to `take`, too."""

    def runs(on_ddl: TakesDdl) -> Iterator[Run]:
        def both(ddl: DdlStatement) -> None:
            take(ddl)
            on_ddl(ddl)

        return reader.runs(both)

    return ReaderWithRuns(reader, runs)


def _places(changes: Changes, table: TableChanges) -> list[_Start]:
    """Return the position of the transaction of each row change."""
    starts = changes.transactions.start.take(table.facts.transaction).to_pylist()
    ordinals = (
        changes.per_row_origin("ordinal", pa.int32()).take(table.facts.row_origin).to_pylist()
    )
    return list(zip(ordinals, starts, strict=True))


def _keys_of(sql: SqlTable, table: TableChanges) -> list[tuple[str | None, str | None]]:
    """Return the key of the row of each change, before and after it; None where there is no row."""
    keys: list[tuple[str | None, str | None]] = [(None, None)] * table.count
    for shape in shapes_of(table):
        before = after = [None] * len(shape.rows)
        if shape.operation != OPERATIONS[0]:
            before = sql.identity(shape.before).to_pylist()
        if shape.operation != OPERATIONS[2]:
            after = sql.identity({**shape.before, **shape.after}).to_pylist()
        for row, one in zip(shape.rows.to_pylist(), zip(before, after, strict=True), strict=True):
            keys[row] = one
    return keys
