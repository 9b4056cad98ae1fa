"""The rows that match the option `where`, among the decoded rows of tables."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from binlake.source.arrays import array, scalar
from binlake.table.batches import TableChanges


class MatchingRows:
    """The decisions about rows, in their order, from the first one that has not been given out."""

    def __init__(self) -> None:
        self._first = 0  # the sequence number of that row
        self._decided: list[pa.Array] = []

    def add(self, matches: pa.Array) -> None:
        """A bool for each of the rows that are decoded next."""
        if len(matches):
            self._decided.append(matches)

    def of(self, tables: Iterable[TableChanges], end: int) -> list[TableChanges]:
        """The rows that match; tables without such a row are left out. `end` is the sequence number
        after the last row that has been decoded.
        """
        decided = pa.concat_arrays(self._decided or [array([], pa.bool_())])
        matching = []
        for table in tables:
            chosen = decided.take(pc.subtract(table.facts.sequence, scalar(self._first)))
            if pc.all(chosen).as_py():
                matching.append(table)
            elif pc.any(chosen).as_py():
                matching.append(table.filter(chosen))
        self._decided = [decided.slice(end - self._first)]
        self._first = end
        return matching
