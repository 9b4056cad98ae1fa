"""The choice of transactions and row changes of a run by the option `where`.

binlake reads the rows of a run twice: first the columns in the condition, for all rows; then all requested columns, for
the rows that match. The core decides conditions over integers while it steps over the images (`finding.py`). For other
conditions, the columns become arrays first (`binding.py`). If only whole transactions can be decoded (a transaction that
is not plain, the option whole_transaction), the filter chooses the transactions in which a row matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from binlake.core.images.row_condition import RowCondition
from binlake.core.rows.row_selection import RowSelection
from binlake.core.rows.walk import UndecidedError
from binlake.errors import BinlogError, OptionError, UnsupportedError
from binlake.source.arrays import numbers, scalar
from binlake.stream.runs import Piece, PlainRun, Run, Transaction
from binlake.table.batches import Changes, TableChanges
from binlake.table.plan import TableTypes
from binlake.table.resolve import silent
from binlake.table.schema.history import SchemaHistory
from binlake.table.types.base import Target
from binlake.table.where.binding import BoundCondition
from binlake.table.where.compiled import nothing
from binlake.table.where.finding import RowFinder
from binlake.table.where.images import Rows
from binlake.table.where.truth import Truth
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition
from binlake.values.similar_names import DID_YOU_MEAN, did_you_mean
from binlake.values.where import Condition, names_in, parse_where

if TYPE_CHECKING:
    from binlake.stream.index.key_lookup import LooksUpBlocks

_MATCHES_NONE = ", so option where matches no row of this definition"
_SHOWN_TABLES = 3


class DecodesRuns(Protocol):
    """The interface for decoding the columns that a condition needs: a `ChangeDecoder` of the text target."""

    def decode(self, runs: Iterable[Run]) -> Iterator[Changes]: ...


class DecidesRows(Protocol):
    """The interface for deciding a condition for the rows of one table definition."""

    def truth(self, rows: Rows) -> Truth: ...

    def compiled(self) -> RowCondition | None:
        """Return the condition for the core; None if only `truth` decides it."""
        ...


class ChoosesRows(Protocol):
    """A condition over the row changes of tables."""

    def columns(self, definition: TableDefinition) -> tuple[str, ...]:
        """Return the names of the columns that the condition needs."""
        ...

    def bind(self, types: TableTypes, ledger: Ledger) -> DecidesRows | None:
        """Return the condition for a table; None if none of its changes can match."""
        ...

    def lookup(self, options: ReadOptions) -> LooksUpBlocks | None:
        """Return the lookup of blocks with matching rows; None if there is none, or if the option where determines it."""
        ...


class ChosenRows(NamedTuple):
    """The part of a run to decode: of a plain one `pieces`, the frames of the transactions in which a row
    matches, and of these only `rows`, unless that is None. `matches` has a bool for each row change that is then
    decoded, in the order of the log: whether it matches.
    """

    pieces: list[Piece]
    rows: RowSelection | None
    matches: pa.Array


class _Matches(NamedTuple):
    """Row changes that match, and their locations: the facts of each (RowFacts), and the start of its transaction."""

    sequence: pa.Array
    transaction_start: pa.Array
    pos: pa.Array
    row: pa.Array
    start: pa.Array


def probe_options(options: ReadOptions) -> ReadOptions:
    """The options of the first of the two decodings; the condition names its columns."""
    return replace(
        options,
        where=None,
        whole_transaction=False,
        query=False,
        on_error="stop",
        invalid="error",
    )


class WhereRows:
    """The rows that the option where chooses.

    A table may get a column later, or lose one. So a name is wrong only if no definition of any table has it, which
    is known at the end of a read (`table/checks/column_check.py`).
    """

    def __init__(self, options: ReadOptions) -> None:
        assert options.where is not None
        self._condition: Condition = parse_where(options.where)
        self._names = names_in(options.where)

    def columns(self, _definition: TableDefinition) -> tuple[str, ...]:
        """The columns that the expression names."""
        return self._names

    def bind(self, types: TableTypes, ledger: Ledger) -> BoundCondition | None:
        """The condition for a table; None if the table lacks a column, which is a warning. Raises OptionError."""
        names = [column.name for column in types.definition.columns]
        ledger.look_for_where(self._names, names)
        there = {name.casefold() for name in names}
        missing = [name for name in self._names if name.casefold() not in there]
        if not missing:
            return BoundCondition(self._condition, types)
        hint = f"{did_you_mean(missing[0], names)} it has {', '.join(names)}".lstrip()
        ledger.warn(
            f"table {types.definition.full_name} has no column {missing[0]!r}{_MATCHES_NONE}; {hint}"
        )
        return None

    def lookup(self, _options: ReadOptions) -> None:
        """Readers take it from the option."""


class WhereRowsNow(WhereRows):
    """Chooses rows by a condition when the definitions of tables are the current ones.

    A column that the only wanted table lacks is then an error immediately.
    """

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._where = options.where
        self._is_one_table = len(options.table) == 1 and not set("*?") & set(options.table[0])

    def bind(self, types: TableTypes, ledger: Ledger) -> BoundCondition | None:
        """Bind the condition as `WhereRows` does. Raises OptionError for a missing column of the only table."""
        bound = super().bind(types, ledger)
        if bound is None and self._is_one_table:
            check_where_columns(self._where, ledger)
        return bound


def check_where_columns(where: str | None, ledger: Ledger) -> None:
    """Raise OptionError for a column of the option where that no table of a read has; if no table was read, there is
    no check.
    """
    for name in () if where is None else names_in(where):
        if ledger.where_columns.get(name, True):
            continue
        lacking = [
            sentence.replace(_MATCHES_NONE, "")
            for sentence in ledger.warnings
            if f"has no column {name!r}{_MATCHES_NONE}" in sentence
        ]
        newest = {sentence.partition(" has no column ")[0]: sentence for sentence in lacking}
        if len(newest) == 1:
            what, _, hint = lacking[-1].partition("; ")
        else:
            what = f"no table that was read has a column {name!r}"
            near_first = sorted(newest.values(), key=lambda each: DID_YOU_MEAN not in each)
            hint = "; ".join(near_first[:_SHOWN_TABLES])
        raise OptionError(f"option where: {what}", name="where", value=name, hint=hint)


def check_where_types(options: ReadOptions, definition: TableDefinition) -> None:
    """Raise the error that the first row of a table would raise, if the option where does not fit the types of its
    columns: OptionError or UnsupportedError. There is no check if the table lacks a column.
    """
    if options.where is None:
        return
    names = names_in(options.where)
    if {name.casefold() for name in names} <= {one.name.casefold() for one in definition.columns}:
        probe = probe_options(options)
        types = TableTypes.of(definition, probe, Target.TEXT, silent, lambda _: names)
        BoundCondition(parse_where(options.where), types)


class RunChooser:
    """Chooses from the runs of a log. `probe_of` makes what decodes with `probe_options` the
    columns of `rows`, and reports the tables that it meets, so that a read reports the same about
    tables, whether the core or arrays decide the rows.

    The core finds the rows where it can decide the condition. Elsewhere arrays of these columns do.
    """

    def __init__(
        self,
        rows: ChoosesRows,
        probe_of: Callable[[Callable[[TableTypes], object]], DecodesRuns],
        ledger: Ledger,
        options: ReadOptions,
        history: SchemaHistory,
    ) -> None:
        self._choosing = rows
        self._ledger = ledger
        self._needs_pieces = options.whole_transaction or options.query
        self._finder = RowFinder(probe_options(options), history, rows.columns, self._compiled)
        self._bound: dict[int, tuple[TableTypes, DecidesRows | None]] = {}
        self._probe = probe_of(self._compiled)

    def choose(self, run: Run) -> ChosenRows | None:
        """Return what is to be decoded of a run; None if no row matches.

        Raises BinlogError.
        """
        return self._choose_of_plain(run) if isinstance(run, PlainRun) else self._choose_of_one(run)

    def _choose_of_plain(self, run: PlainRun) -> ChosenRows | None:
        try:
            found = self._finder.find(run)
        except UndecidedError:
            return self._choose_by_arrays(run)
        if found is None:
            return None
        rows, numbers = found
        return ChosenRows(
            self._pieces(run, list(numbers)), rows, pa.repeat(scalar(True), rows.count)
        )

    def _pieces(self, run: PlainRun, groups: list[int]) -> list[Piece]:
        """The frames to decode. A decoder skips the transactions between those of selected rows itself, if it does not
        look at their statements.
        """
        if self._needs_pieces or run.window.file.is_relay:
            return list(_pieces(run, groups))
        return [Piece(run.window, run.plain.first[groups[0]], run.plain.last[groups[-1]])]

    def _choose_by_arrays(self, run: PlainRun) -> ChosenRows | None:
        found = [
            _matches_of(changes, table, matches)
            for changes, table, matches in self._probed(run)
            if pc.any(matches).as_py()
        ]
        if not found:
            return None
        rows = _in_order(found)
        return ChosenRows(
            self._pieces(run, _groups(run, pc.unique(rows.transaction_start))),
            RowSelection(_values(rows.pos, "q"), _values(rows.row, "i"), _values(rows.start, "I")),
            pa.repeat(scalar(True), len(rows.pos)),
        )

    def _choose_of_one(self, run: Transaction) -> ChosenRows | None:
        """Return the chosen rows of a transaction, which is decoded as a whole."""
        probed = [(table.facts.sequence, matches) for _, table, matches in self._probed(run)]
        if not any(pc.any(matches).as_py() for _, matches in probed):
            return None
        order = pc.array_sort_indices(pa.concat_arrays([sequence for sequence, _ in probed]))
        matches = pa.concat_arrays([matches for _, matches in probed])
        return ChosenRows([], None, matches.take(order))

    def _probed(self, run: Run) -> Iterator[tuple[Changes, TableChanges, pa.Array]]:
        """The columns that decide, of all rows of a run, and which of these match."""
        for changes in self._probe.decode([run]):
            for table in changes.tables:
                yield changes, table, self._rows(changes, table)

    def _rows(self, changes: Changes, table: TableChanges) -> pa.Array:
        bound = self._bound_to(table.types)
        if bound is None:
            return pa.repeat(scalar(False), table.count)
        truth = bound.truth(Rows(table))
        for doubt, where in truth.doubts.items():
            if not pc.any(where).as_py():
                continue
            if not doubt.is_lacking:
                row = pc.index(where, scalar(True)).as_py()
                origin = changes.row_origins[table.facts.row_origin[row].as_py()]
                raise UnsupportedError(
                    f"option where: {doubt.sentence}",
                    file=origin.file,
                    event_pos=table.facts.pos[row].as_py(),
                )
            self._ledger.warn(doubt.sentence)
        return pc.fill_null(truth.value, scalar(False))

    def _compiled(self, types: TableTypes) -> RowCondition | None:
        try:
            bound = self._bound_to(types)
        except BinlogError:  # raised again with the first row of the table
            return None
        return nothing() if bound is None else bound.compiled()

    def _bound_to(self, types: TableTypes) -> DecidesRows | None:
        known = self._bound.get(id(types))
        if known is None:
            bound = self._choosing.bind(types, self._ledger)
            known = self._bound[id(types)] = (types, bound)  # the types stay, and so their id
        return known[1]


def _matches_of(changes: Changes, table: TableChanges, matches: pa.Array) -> _Matches:
    facts = table.facts
    return _Matches(
        facts.sequence.filter(matches),
        changes.transactions.start.take(facts.transaction.filter(matches)),
        facts.pos.filter(matches),
        facts.row.filter(matches),
        facts.start.filter(matches),
    )


def _in_order(found: Sequence[_Matches]) -> _Matches:
    """The matches of all tables in the order of the log."""
    if len(found) == 1:
        return found[0]
    columns = [pa.concat_arrays(parts) for parts in zip(*found, strict=True)]
    order = pc.array_sort_indices(columns[0])
    return _Matches(*(column.take(order) for column in columns))


def _values(column: pa.Array, kind: Literal["q", "i", "I"]) -> memoryview:
    """The values of a column that has no nulls, without a copy; `kind` as in the module struct."""
    values: memoryview = memoryview(column.buffers()[1]).cast(kind)
    return values[column.offset : column.offset + len(column)]


def _groups(run: PlainRun, starts: pa.Array) -> list[int]:
    """The transactions of a run that start at these offsets, which are in order."""
    firsts = numbers(pa.int64(), run.high, run.plain.first).slice(run.low)
    offsets = numbers(pa.int64(), run.last, run.plain.block.offset)
    found = pc.index_in(starts, value_set=offsets.take(firsts))
    return [run.low + group for group in found.to_pylist()]


def _pieces(run: PlainRun, groups: list[int]) -> Iterator[Piece]:
    """The frames of these transactions of a run; those that follow each other are one piece."""
    window, first, last = run.window, run.plain.first, run.plain.last
    low = previous = groups[0]
    for group in groups[1:]:
        if group != previous + 1:
            yield Piece(window, first[low], last[previous])
            low = group
        previous = group
    yield Piece(window, first[low], last[previous])
