"""The changes of a history that an undo reverts: chosen by a point, and read again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from binlake.errors import OptionError
from binlake.source.arrays import array
from binlake.table.batches import Changes
from binlake.table.row_history.entries import RowChange
from binlake.table.row_history.found import HistoryChange
from binlake.table.row_history.keys import KeyRows

_AFTER = "after:"


def first_undone(changes: Sequence[RowChange], point: str) -> int:
    """Return the index of the first change that an undo to a point reverts.

    A point is a change, which is reverted, too: its number, its position `FILE:POS`, or its GTID.
    `after:` in front keeps the change. Raises OptionError if there is no such change.
    """
    text = point.removeprefix(_AFTER)
    meant = [
        index
        for index, change in enumerate(changes)
        if text == str(change.number)
        or text == change.place
        or (change.gtid is not None and text.lower() == change.gtid.lower())
    ]
    if not meant:
        raise OptionError(
            f"--undo {point!r}: the history has no such change",
            name="undo",
            value=point,
            hint=f"give a number from 1 to {len(changes)}, a position FILE:POS or a GTID of it;"
            " after: in front keeps that change",
        )
    return meant[-1] + 1 if text != point else meant[0]


@dataclass(frozen=True, slots=True)
class UndonePositions:
    """Row changes by their place in commit order: (ordinal of the file, position, row). `rows`
    chooses them among others.
    """

    rows: KeyRows
    places: frozenset[tuple[int, int, int]]

    @classmethod
    def of(cls, rows: KeyRows, found: Iterable[HistoryChange]) -> UndonePositions:
        """The places of these changes."""
        return cls(rows, frozenset(one.order for one in found))

    def matches(self, changes: Changes, index: int) -> list[bool]:
        """Which rows of a table of a batch are among them."""
        orders = changes.sequence(changes.tables[index].facts).to_pylist()
        return [(order["file"], order["pos"], order["row"]) in self.places for order in orders]

    def only(self, batches: Iterable[Changes]) -> Iterator[Changes]:
        """Yield these changes of batches."""
        for changes in batches:
            tables = []
            for index, table in enumerate(changes.tables):
                matches = self.matches(changes, index)
                if any(matches):
                    tables.append(table.filter(array(matches, pa.bool_())))
            if tables:
                yield replace(changes, tables=tables)
