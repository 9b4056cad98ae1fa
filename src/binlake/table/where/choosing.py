"""Which transactions and row changes of a run the option `where` chooses.

The rows of a run are decoded twice: first only the columns that the condition names, of all rows;
then everything that the reader wants, of the transactions in which a row matches.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import Buffer

from binlake.errors import OptionError, UnsupportedError
from binlake.source.arrays import scalar
from binlake.stream.runs import Piece, PlainRun, Run
from binlake.table.batches import Changes, TableChanges
from binlake.table.plan import TableTypes
from binlake.table.where.binding import BoundCondition
from binlake.table.where.images import Rows
from binlake.table.where.truth import Truth
from binlake.values.ledger import Ledger
from binlake.values.options import ReadOptions
from binlake.values.plan import TableDefinition
from binlake.values.where import Condition, column_names, parse_where

if TYPE_CHECKING:
    from binlake.stream.index.key_lookup import LooksUpBlocks

__all__ = ["ChoosesRows", "ChosenRows", "RunChooser", "WhereRows", "probe_options"]


class DecodesRuns(Protocol):
    """What decodes the columns that a condition needs: a `ChangeDecoder` of the text target."""

    def decode(self, runs: Iterable[Run]) -> Iterator[Changes]: ...


class DecidesRows(Protocol):
    """What decides a condition for the rows of one table definition."""

    def truth(self, rows: Rows) -> Truth: ...


class ChoosesRows(Protocol):
    """A condition over the row changes of tables."""

    def columns(self, definition: TableDefinition) -> tuple[str, ...]:
        """Return the names of the columns that the condition needs."""
        ...

    def bind(self, types: TableTypes, ledger: Ledger) -> DecidesRows | None:
        """Return the condition for a table; None if none of its changes can match."""
        ...

    def lookup(self, options: ReadOptions) -> LooksUpBlocks | None:
        """Return what knows where rows are that match; None if that is not known, or if the option where tells it."""
        ...


class ChosenRows(NamedTuple):
    """The row changes of the transactions in a run that have a match. `matches` has a bool for each of
    these changes, in their order. `pieces` are the frames of these transactions, if the run is plain.
    """

    pieces: list[Piece]
    matches: pa.Array


class _ProbedRows(NamedTuple):
    """For each of some row changes of one table: its number, where its transaction starts, and if it
    matches. The values that decided are not kept: a run may have any number of them.
    """

    sequence: pa.Array
    starts: pa.Array
    matches: pa.Array


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
    """The rows that the option where chooses."""

    def __init__(self, options: ReadOptions) -> None:
        assert options.where is not None
        self._condition: Condition = parse_where(options.where)
        self._names = tuple(dict.fromkeys(name.name for name in column_names(self._condition)))
        self._is_one_table = len(options.table) == 1 and not set("*?") & set(options.table[0])

    def columns(self, _definition: TableDefinition) -> tuple[str, ...]:
        """The columns that the expression names."""
        return self._names

    def bind(self, types: TableTypes, ledger: Ledger) -> BoundCondition | None:
        """The condition for a table; None if the table lacks a column. Raises OptionError."""
        names = [column.name for column in types.definition.columns]
        ledger.look_for_where(self._names, names)
        there = {name.casefold() for name in names}
        missing = [name for name in self._names if name.casefold() not in there]
        if not missing:
            return BoundCondition(self._condition, types)
        if self._is_one_table:
            raise _no_column(types, missing[0])
        ledger.warn(
            f"table {types.definition.full_name} has no column {missing[0]!r}, so option where "
            f"matches none of its changes; it has {', '.join(names)}"
        )
        return None

    def lookup(self, _options: ReadOptions) -> None:
        """Readers take it from the option."""


class RunChooser:
    """Chooses from the runs of a log. `probe` decodes with `probe_options` the columns of `rows`."""

    def __init__(self, rows: ChoosesRows, probe: DecodesRuns, ledger: Ledger) -> None:
        self._choosing = rows
        self._probe = probe
        self._ledger = ledger
        self._bound: dict[int, tuple[TableTypes, DecidesRows | None]] = {}

    def choose(self, run: Run) -> ChosenRows | None:
        """Return the transactions of a run that have a matching row; None if no row matches.

        Raises BinlogError.
        """
        probed = [
            _ProbedRows(
                table.facts.sequence,
                changes.transactions.start.take(table.facts.transaction),
                self._rows(changes, table),
            )
            for changes in self._probe.decode([run])
            for table in changes.tables
        ]
        if not any(pc.any(part.matches).as_py() for part in probed):
            return None
        starts, matches = _in_order(probed)
        if not isinstance(run, PlainRun):
            return ChosenRows([], matches)
        chosen = pc.unique(starts.filter(matches))
        return ChosenRows(
            list(_pieces(run, _groups(run, chosen))),
            matches.filter(pc.is_in(starts, value_set=chosen)),
        )

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

    def _bound_to(self, types: TableTypes) -> DecidesRows | None:
        known = self._bound.get(id(types))
        if known is None:
            bound = self._choosing.bind(types, self._ledger)
            known = self._bound[id(types)] = (types, bound)  # the types stay, and so their id
        return known[1]


def _no_column(types: TableTypes, name: str) -> OptionError:
    names = [column.name for column in types.definition.columns]
    near = difflib.get_close_matches(name, names, n=1)
    return OptionError(
        f"option where: table {types.definition.full_name} has no column {name!r}",
        name="where",
        value=name,
        hint=(f"did you mean {near[0]}? " if near else "") + f"it has {', '.join(names)}",
    )


def _in_order(probed: Sequence[_ProbedRows]) -> tuple[pa.Array, pa.Array]:
    """For each row change, in the order of the log: where its transaction starts, and if it matches."""
    starts = pa.concat_arrays([part.starts for part in probed])
    matches = pa.concat_arrays([part.matches for part in probed])
    if len(probed) == 1:
        return starts, matches
    order = pc.array_sort_indices(pa.concat_arrays([part.sequence for part in probed]))
    return starts.take(order), matches.take(order)


def _groups(run: PlainRun, starts: pa.Array) -> list[int]:
    """The transactions of a run that start at these offsets, which are in order."""
    firsts = _integers(run.plain.first, run.high).slice(run.low)
    offsets = _integers(run.plain.block.offset, run.last)
    found = pc.index_in(starts, value_set=offsets.take(firsts))
    return [run.low + group for group in found.to_pylist()]


def _integers(column: Buffer, count: int) -> pa.Array:
    """The first values of a column of the core, without a copy."""
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(column)])


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
